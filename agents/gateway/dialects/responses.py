"""Speak OpenAI's responses API: `/v1/responses`.

In and out: see `agents.gateway.dialects.dialect.Dialect`. Fields by OpenAI's API reference and the types of its client,
read 2026-11. A history is a list of items; those of one answer, its thought, its text and its calls, are joined again.
Within the episode, later requests may continue a stored answer by its id.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agents.gateway.dialects.chat import error_of
from agents.gateway.dialects.dialect import ApiRequest, Begun, CallRefused, PolicyAnswer, TokenUsage, event
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
    text_in,
    tool_of,
)
from broker.messages import Turn

_ROLES: Final = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_LOGPROBS: Final = "message.output_text.logprobs"
_ID: Final = "resp_"
# The request's fields that an answer repeats, with the value of a missing one.
_ECHOED: Final[Mapping[str, Any]] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": None,
    "store": True,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "truncation": "disabled",
    "user": None,
}


class Responses:
    """The dialect of responses."""

    path = "/v1/responses"

    def read(self, body: Mapping[str, Any]) -> ApiRequest:
        """Read a request. Raises CallRefused."""
        overridden = refuse_what_biases(body)
        refuse_any(body, ("background", "conversation", "prompt"), "is not there: send the input itself")
        text = body.get("text")
        refuse_format(text.get("format") if isinstance(text, Mapping) else None, "text.format")
        include = body.get("include")
        if isinstance(include, list) and _LOGPROBS in include:
            raise CallRefused(f"include: {_LOGPROBS} is not there in training", where="include")
        instructions = text_in(body.get("instructions"), "instructions")
        previous = body.get("previous_response_id")
        if not isinstance(previous, str | None):
            raise CallRefused("previous_response_id is a text", where="previous_response_id")
        return ApiRequest(
            model=model_in(body),
            messages=tuple(_messages(body.get("input"))),
            instructions=({"role": "system", "content": instructions},) if instructions else (),
            previous=(previous or "").removeprefix(_ID),
            is_kept=body.get("store") is not False,
            tools=_tools(body),
            most_tokens=a_limit(body, "max_output_tokens"),
            is_streamed=body.get("stream") is True,
            overridden=overridden,
            echoed={name: body.get(name) for name in _ECHOED if body.get(name) is not None},
        )

    def answer(self, asked: ApiRequest, answer: PolicyAnswer) -> dict[str, Any]:
        """Return the body of an answer."""
        status = "incomplete" if answer.is_cut else "completed"
        return {
            **_head(asked, answer, status),
            "incomplete_details": {"reason": "max_output_tokens"} if answer.is_cut else None,
            "completed_at": answer.created,
            "output": list(_items(asked, answer, status)),
            "usage": _usage(answer.usage),
        }

    def alive(self, asked: ApiRequest, begun: Begun, number: int) -> str:
        """Return the start of the stream, then a progress event: for Codex a comment is no sign of life."""
        kind = "in_progress" if number else "created"
        response = {**_head(asked, begun, "in_progress"), "output": [], "usage": None}
        return _named(kind, number, response=response)

    def events(self, asked: ApiRequest, answer: PolicyAnswer, signs: int) -> Iterator[str]:
        """Yield the events of a stream: the items of the answer with their parts, then the whole."""
        for number in range(signs, 2):
            yield self.alive(asked, answer, number)
        numbers = itertools.count(max(signs, 2))

        def named(kind: str, **fields: Any) -> str:
            return _named(kind, next(numbers), **fields)

        whole = self.answer(asked, answer)
        for place, item in enumerate(whole["output"]):
            empty: dict[str, Any] = {"content": []} if "content" in item else {"arguments": ""}
            yield named(
                "output_item.added", output_index=place, item=item | empty | {"status": "in_progress"}
            )
            for kind, fields in _deltas(item):
                yield named(kind, item_id=item["id"], output_index=place, **fields)
            yield named("output_item.done", output_index=place, item=item)
        yield named(whole["status"], response=whole)

    def error(self, refused: CallRefused) -> dict[str, Any]:
        """Return the body of an error."""
        return error_of(refused)

    def error_event(self, refused: CallRefused) -> str:
        """Return an error as an event: in the API's own form, and in the form that OpenAI's client raises."""
        body = error_of(refused)
        return event({**body["error"], **body, "type": "error", "sequence_number": 0}, is_named=True)


def _named(kind: str, number: int, **fields: Any) -> str:
    return event({"type": f"response.{kind}", "sequence_number": number, **fields}, is_named=True)


def _messages(given: Any) -> Iterator[Turn]:
    """Yield the messages of a list of items. Raises CallRefused."""
    if isinstance(given, str):
        yield {"role": "user", "content": given}
        return
    items = a_list_of_objects(given, "input")
    if not items:
        raise CallRefused("input is empty", where="input")
    answer: Turn | None = None
    for place, item in enumerate(items):
        kind, message = _message(item, f"input[{place}]")
        if message["role"] != "assistant":
            if answer is not None:
                yield answer
            answer = None
            yield message
        elif answer is not None and _is_of(answer, kind):
            _add(answer, message)
        else:
            if answer is not None:
                yield answer
            answer = message
    if answer is not None:
        yield answer


def _is_of(answer: Turn, kind: str) -> bool:
    """Return whether an item continues an answer: its thought comes first, then its text, then its calls."""
    return kind == "function_call" or not (answer["content"] or answer.get("tool_calls"))


def _add(answer: Turn, part: Turn) -> None:
    answer["content"] = part["content"] or answer["content"]
    if thought := part.get("reasoning_content"):
        answer["reasoning_content"] = "\n".join(filter(None, [answer.get("reasoning_content"), thought]))
    if calls := part.get("tool_calls"):
        answer["tool_calls"] = [*(answer.get("tool_calls") or ()), *calls]


def _message(item: Mapping[str, Any], where: str) -> tuple[str, Turn]:
    """Return an item's type, and the message that it is, or is part of. Raises CallRefused."""
    kind = item.get("type") or "message"
    match kind:
        case "message":
            role = item.get("role")
            if not isinstance(role, str) or role not in _ROLES:
                known = ", ".join(_ROLES)
                raise CallRefused(f"{where}.role is one of {known}, got {shown(role)}", where=f"{where}.role")
            return kind, {"role": _ROLES[role], "content": text_in(item.get("content"), f"{where}.content")}
        case "function_call":
            name = _full_name(item.get("namespace"), item.get("name"))
            call = call_of(name, item.get("arguments"), item.get("call_id"), where)
            return kind, {"role": "assistant", "content": "", "tool_calls": [call]}
        case "function_call_output":
            said = text_in(item.get("output"), f"{where}.output")
            return kind, {"role": "tool", "content": said, "tool_call_id": a_name(item, "call_id", where)}
        case "reasoning":
            return kind, {"role": "assistant", "content": "", "reasoning_content": _thought(item, where)}
    raise CallRefused(
        f"{where} is of type {shown(kind)}: the policy reads messages, calls of functions and their outputs",
        where=where,
    )


def _thought(item: Mapping[str, Any], where: str) -> str:
    """Return the text of a reasoning item: its content, or its summary; "" where it is encrypted."""
    for name in ("content", "summary"):
        texts = [str(part.get("text") or "") for part in a_list_of_objects(item.get(name), f"{where}.{name}")]
        if text := "\n".join(filter(None, texts)):
            return text
    return ""


def _tools(body: Mapping[str, Any]) -> tuple[Turn, ...]:
    tools = []
    for namespace, tool, where in _functions(a_list_of_objects(body.get("tools"), "tools"), "tools"):
        if tool.get("type") != "function":
            kind = shown(tool.get("type"))
            reason = f"{where} is of type {kind}: a tool of the policy's is a function; turn this one off in the agent"
            raise CallRefused(reason, where=where)
        tools.append(tool_of({**tool, "name": _full_name(namespace, tool.get("name"))}, where))
    return () if not tools or refuse_forced(body.get("tool_choice")) else tuple(tools)


def _functions(
    given: Sequence[Mapping[str, Any]], where: str
) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield tools with their namespaces, "" for none, and their places. Raises CallRefused."""
    for place, tool in enumerate(given):
        here = f"{where}[{place}]"
        if tool.get("type") != "namespace":
            yield "", tool, here
            continue
        name = a_name(tool, "name", here)
        for within, inner in enumerate(a_list_of_objects(tool.get("tools"), f"{here}.tools")):
            yield name, inner, f"{here}.tools[{within}]"


def _full_name(namespace: Any, name: Any) -> Any:
    """Return the policy's name of a function: with its namespace, such as of an MCP server."""
    return f"{namespace}__{name}" if namespace and name else name


def _head(asked: ApiRequest, begun: Begun, status: str) -> dict[str, Any]:
    return {
        **_ECHOED,
        **asked.echoed,
        "id": f"{_ID}{begun.id}",
        "object": "response",
        "created_at": begun.created,
        "model": begun.model,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "service_tier": "default",
        "temperature": None,
        "top_p": None,
    }


def _items(asked: ApiRequest, answer: PolicyAnswer, status: str) -> Iterator[dict[str, Any]]:
    """Yield the items of an answer; an empty answer has a message with an empty text."""
    message = answer.message
    thought, text, calls = message.get("reasoning_content"), message.get("content"), message.get("tool_calls")
    if thought:
        part = {"type": "reasoning_text", "text": thought}
        yield {
            "id": f"rs_{answer.id}",
            "type": "reasoning",
            "summary": [],
            "content": [part],
            "status": status,
        }
    if text or not calls:
        yield {
            "id": f"msg_{answer.id}",
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [{"type": "output_text", "text": text or "", "annotations": [], "logprobs": []}],
        }
    within = {
        _full_name(namespace, tool["name"]): {"namespace": namespace, "name": tool["name"]}
        for namespace, tool, _ in _functions(asked.echoed.get("tools", ()), "tools")
        if namespace
    }
    for place, call in enumerate(calls or ()):
        name = call["function"]["name"]
        yield {
            "id": f"fc_{answer.id}_{place}",
            "type": "function_call",
            "call_id": call["id"],
            **within.get(name, {"name": name}),
            "arguments": call["function"]["arguments"],
            "status": status,
        }


def _deltas(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events that fill an item, each with its own fields."""
    if item["type"] == "function_call":
        yield "function_call_arguments.delta", {"delta": item["arguments"]}
        yield "function_call_arguments.done", {"name": item["name"], "arguments": item["arguments"]}
        return
    (part,) = item["content"]
    kind, text = part["type"], part["text"]
    at: dict[str, Any] = {"content_index": 0} | ({"logprobs": []} if kind == "output_text" else {})
    yield "content_part.added", {"content_index": 0, "part": part | {"text": ""}}
    yield f"{kind}.delta", {**at, "delta": text}
    yield f"{kind}.done", {**at, "text": text}
    yield "content_part.done", {"content_index": 0, "part": part}


def _usage(usage: TokenUsage) -> dict[str, Any]:
    """Return the usage; clients read keys of both parts, so they are always present."""
    return {
        "input_tokens": usage.given,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.sampled,
        "output_tokens_details": {"reasoning_tokens": usage.thought},
        "total_tokens": usage.given + usage.sampled,
    }
