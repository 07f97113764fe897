"""Speak Anthropic's messages API: `/v1/messages`.

In and out: see `agents.gateway.dialects.dialect.Dialect`. Fields by Anthropic's API reference and the types of its
client, read 2026-11. Consecutive messages of one role are one turn, as in that API, so that an answer whose blocks
return one by one is recognized. A thought is shown only to clients that ask for thinking: others use the first block of
an answer as its text.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agents.gateway.dialects.dialect import (
    ENDED,
    NOT_FOUND,
    TOO_LARGE,
    TOO_SLOW,
    UNKNOWN_KEY,
    ApiRequest,
    Begun,
    CallRefused,
    PolicyAnswer,
    TokenUsage,
    event,
)
from agents.gateway.dialects.fields import (
    a_limit,
    a_list_of_objects,
    a_name,
    call_of,
    model_in,
    refuse_any,
    refuse_forced,
    refuse_format,
    refuse_what_biases,
    shown,
    stops_in,
    text_in,
    text_of_part,
    tool_of,
)
from broker.messages import Turn

_ROLES: Final = ("user", "assistant", "system")
_ERRORS: Final = {
    UNKNOWN_KEY: "authentication_error",
    NOT_FOUND: "not_found_error",
    TOO_SLOW: "timeout_error",
    ENDED: "conflict_error",
    TOO_LARGE: "request_too_large",
}
# Claude Code puts this before its system message, different in each call: with it no call would continue another.
_BILLING: Final = "x-anthropic-billing-header"

_PING: Final = event({"type": "ping"}, is_named=True)

Block = tuple[Mapping[str, Any], str]  # with its place


class Messages:
    """The dialect of messages."""

    path = "/v1/messages"

    def read(self, body: Mapping[str, Any]) -> ApiRequest:
        """Read a request for an answer or a count. Raises CallRefused."""
        overridden = refuse_what_biases(body)
        refuse_any(body, ("container", "mcp_servers"), "is not there: the agent calls its tools itself")
        config = body.get("output_config")
        refuse_format(config.get("format") if isinstance(config, Mapping) else None, "output_config.format")
        refuse_format(body.get("output_format"), "output_format")
        messages = (*_system(body.get("system")), *_messages(body.get("messages")))
        return ApiRequest(
            model=model_in(body),
            messages=messages,
            tools=_tools(body),
            most_tokens=a_limit(body, "max_tokens"),
            stop=stops_in(body.get("stop_sequences"), "stop_sequences"),
            is_streamed=body.get("stream") is True,
            overridden=overridden,
            echoed={"thinking": body.get("thinking")},
        )

    def answer(self, asked: ApiRequest, answer: PolicyAnswer) -> dict[str, Any]:
        """Return the body of an answer."""
        return {
            **_head(answer),
            "content": list(_blocks(asked, answer)),
            "stop_reason": _reason(answer),
            "stop_sequence": answer.stopped_at,
            "usage": _usage(answer.usage),
        }

    def alive(self, asked: ApiRequest, begun: Begun, number: int) -> str:
        """Return a ping."""
        del asked, begun, number
        return _PING

    def events(self, asked: ApiRequest, answer: PolicyAnswer, signs: int) -> Iterator[str]:
        """Yield the events of a stream: the blocks of the message, the stop reason, the usage."""
        del signs

        def named(kind: str, **fields: Any) -> str:
            return event({"type": kind, **fields}, is_named=True)

        usage = _usage(answer.usage)
        begun = {**_head(answer), "content": [], "stop_reason": None, "stop_sequence": None}
        yield named("message_start", message={**begun, "usage": usage | {"output_tokens": 0}})
        yield _PING
        for index, block in enumerate(_blocks(asked, answer)):
            empty, deltas = _parts(block)
            yield named("content_block_start", index=index, content_block=empty)
            for delta in deltas:
                yield named("content_block_delta", index=index, delta=delta)
            yield named("content_block_stop", index=index)
        ended = {"stop_reason": _reason(answer), "stop_sequence": answer.stopped_at}
        yield named("message_delta", delta=ended, usage=usage)
        yield named("message_stop")

    def error(self, refused: CallRefused) -> dict[str, Any]:
        """Return the body of an error."""
        other = "invalid_request_error" if refused.status < 500 else "api_error"
        kind = _ERRORS.get(refused.status, other)
        return {"type": "error", "error": {"type": kind, "message": str(refused)}}

    def error_event(self, refused: CallRefused) -> str:
        """Return an error as an event: Anthropic's client raises it."""
        return event(self.error(refused), is_named=True)


def _system(given: Any) -> tuple[Turn, ...]:
    blocks = [given] if isinstance(given, str) else a_list_of_objects(given, "system")
    texts = [text_of_part(block, f"system[{place}]") for place, block in enumerate(blocks)]
    said = [text for text in texts if not text.startswith(_BILLING)]
    return ({"role": "system", "content": "\n".join(said)},) if said else ()


def _messages(given: Any) -> Iterator[Turn]:
    """Yield the messages of a history. Raises CallRefused."""
    found = a_list_of_objects(given, "messages")
    if not found:
        raise CallRefused("messages is empty", where="messages")
    placed = [(one, f"messages[{place}]") for place, one in enumerate(found)]
    for role, turns in itertools.groupby(placed, _role):
        blocks = [block for one, where in turns for block in _content(one, where)]
        if role == "assistant":
            yield _assistant(blocks)
        else:
            yield from _said(role, blocks)


def _role(placed: tuple[Mapping[str, Any], str]) -> str:
    message, where = placed
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise CallRefused(
            f"{where}.role is one of {', '.join(_ROLES)}, got {shown(role)}", where=f"{where}.role"
        )
    return role


def _content(message: Mapping[str, Any], where: str) -> list[Block]:
    """Return the blocks of one message; a text is one block. Raises CallRefused."""
    content = message.get("content")
    if isinstance(content, str):
        return [({"type": "text", "text": content}, f"{where}.content")]
    found = a_list_of_objects(content, f"{where}.content")
    if not found:
        raise CallRefused(f"{where}.content is empty", where=f"{where}.content")
    return [(block, f"{where}.content[{place}]") for place, block in enumerate(found)]


def _said(role: str, blocks: Sequence[Block]) -> Iterator[Turn]:
    """Yield user texts and tool results, in order; consecutive texts are one message."""
    for is_result, run in itertools.groupby(blocks, lambda placed: placed[0].get("type") == "tool_result"):
        if not is_result:
            yield {"role": role, "content": "\n".join(text_of_part(block, where) for block, where in run)}
            continue
        for block, where in run:
            answered: Turn = {
                "role": "tool",
                "content": text_in(block.get("content"), f"{where}.content"),
                "tool_call_id": a_name(block, "tool_use_id", where),
            }
            yield answered | ({"is_error": True} if block.get("is_error") is True else {})


def _assistant(blocks: Sequence[Block]) -> Turn:
    """Return an answer of the history. Raises CallRefused."""
    texts, thoughts, calls = [], [], []
    for block, where in blocks:
        match block.get("type"):
            case "thinking" if isinstance(block.get("thinking"), str):
                thoughts.append(block["thinking"])
            case "redacted_thinking":
                continue  # another model's, which is unreadable
            case "tool_use":
                calls.append(call_of(block.get("name"), block.get("input"), block.get("id"), where))
            case _:
                texts.append(text_of_part(block, where))
    message: Turn = {"role": "assistant", "content": "\n".join(texts)}
    if thought := "\n".join(filter(None, thoughts)):
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    return message


def _tools(body: Mapping[str, Any]) -> tuple[Turn, ...]:
    tools = []
    for place, tool in enumerate(a_list_of_objects(body.get("tools"), "tools")):
        where = f"tools[{place}]"
        if tool.get("type") not in (None, "custom"):
            raise CallRefused(
                f"{where} is of type {shown(tool['type'])}: the policy's tools are those that the agent describes"
                " by an input_schema and calls itself",
                where=where,
            )
        tools.append(tool_of(tool, where, parameters="input_schema"))
    return () if not tools or refuse_forced(body.get("tool_choice")) else tuple(tools)


def _blocks(asked: ApiRequest, answer: PolicyAnswer) -> Iterator[dict[str, Any]]:
    """Yield the blocks of an answer; an empty answer has one empty text."""
    message = answer.message
    thinking = asked.echoed.get("thinking")
    thought, text, calls = message.get("reasoning_content"), message.get("content"), message.get("tool_calls")
    if thought and isinstance(thinking, Mapping) and thinking.get("type") != "disabled":
        seen = "" if thinking.get("display") == "omitted" else thought
        yield {"type": "thinking", "thinking": seen, "signature": answer.id}
    if text or not calls:
        yield {"type": "text", "text": text or "", "citations": None}
    for call in calls or ():
        function = call["function"]
        # JSON lacks Python's NaN; clients would fail on it.
        given = json.loads(function["arguments"], parse_constant=str)
        yield {"type": "tool_use", "id": call["id"], "name": function["name"], "input": given}


def _parts(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a block's start, and the deltas that fill it."""
    match block["type"]:
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
            return {**block, "thinking": "", "signature": ""}, deltas
        case "tool_use":
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            ]
        case _:
            return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]


def _head(answer: PolicyAnswer) -> dict[str, Any]:
    return {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": answer.model}


def _reason(answer: PolicyAnswer) -> str:
    if answer.is_cut:
        return "max_tokens"
    if answer.stopped_at is not None:
        return "stop_sequence"
    return "tool_use" if answer.message.get("tool_calls") else "end_turn"


def _usage(usage: TokenUsage) -> dict[str, Any]:
    """Return the usage: cached tokens are not counted as input, but separately."""
    return {
        "input_tokens": usage.given - usage.cached,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": usage.sampled,
        "output_tokens_details": {"thinking_tokens": usage.thought},
        "server_tool_use": None,
        "service_tier": "standard",
    }
