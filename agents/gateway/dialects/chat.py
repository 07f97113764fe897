"""Speak OpenAI's chat completions API: `/v1/chat/completions`.

In and out: see `agents.gateway.dialects.dialect.Dialect`. Fields by OpenAI's API reference, read 2026-11;
`reasoning_content` is the name of a thought in vLLM, SGLang and DeepSeek.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from agents.gateway.dialects.dialect import (
    COMMENT,
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
    refuse_forced,
    refuse_format,
    refuse_what_biases,
    shown,
    stops_in,
    text_in,
    tool_of,
)
from broker.messages import Turn

_ROLES: Final = {"system": "system", "developer": "system", "user": "user", "tool": "tool"}
_THOUGHTS: Final = ("reasoning_content", "reasoning")  # of a message in a client's history


class Chat:
    """The dialect of chat completions."""

    path = "/v1/chat/completions"

    def read(self, body: Mapping[str, Any]) -> ApiRequest:
        """Read a request. Raises CallRefused."""
        overridden = refuse_what_biases(body)
        refuse_format(body.get("response_format"), "response_format")
        given = a_list_of_objects(body.get("messages"), "messages")
        if not given:
            raise CallRefused("messages is empty", where="messages")
        return ApiRequest(
            model=model_in(body),
            messages=tuple(_message(one, f"messages[{place}]") for place, one in enumerate(given)),
            tools=_tools(body),
            most_tokens=a_limit(body, "max_completion_tokens", "max_tokens"),
            stop=stops_in(body.get("stop"), "stop"),
            is_streamed=body.get("stream") is True,
            streams_usage=wants_usage(body),
            overridden=overridden,
        )

    def answer(self, asked: ApiRequest, answer: PolicyAnswer) -> dict[str, Any]:
        """Return the body of an answer."""
        del asked
        message = {"refusal": None, **answer.message}
        message["content"] = message.get("content") or None
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
        return {**_head(answer, "chat.completion"), "choices": [choice], "usage": usage_of(answer.usage)}

    def alive(self, asked: ApiRequest, begun: Begun, number: int) -> str:
        """Return a comment."""
        del asked, begun, number
        return COMMENT

    def events(self, asked: ApiRequest, answer: PolicyAnswer, signs: int) -> Iterator[str]:
        """Yield the events of a stream: the parts of the message, the finish reason, the usage."""
        del signs
        head = _head(answer, "chat.completion.chunk")
        more = {"usage": None} if asked.streams_usage else {}

        def chunk(delta: Mapping[str, Any], finish: str | None = None) -> str:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return event({**head, "choices": [choice], **more})

        message = answer.message
        yield chunk({"role": "assistant", "content": ""})
        if thought := message.get("reasoning_content"):
            yield chunk({"reasoning_content": thought})
        if message.get("content"):
            yield chunk({"content": message["content"]})
        for place, call in enumerate(message.get("tool_calls") or ()):
            yield chunk({"tool_calls": [{"index": place, **call}]})
        yield chunk({}, _finish(answer))
        if asked.streams_usage:
            yield event({**head, "choices": [], "usage": usage_of(answer.usage)})
        yield DONE

    def error(self, refused: CallRefused) -> dict[str, Any]:
        """Return the body of an error."""
        return error_of(refused)

    def error_event(self, refused: CallRefused) -> str:
        """Return an error as an event: OpenAI's client raises it."""
        return event(error_of(refused))


DONE: Final = "data: [DONE]\n\n"


def wants_usage(body: Mapping[str, Any]) -> bool:
    """Return whether a stream must report the usage. Without a stream the options are ignored."""
    options = body.get("stream_options")
    return isinstance(options, Mapping) and options.get("include_usage") is True


def error_of(refused: CallRefused) -> dict[str, Any]:
    """Return the body of an error, the same in all of OpenAI's APIs."""
    return {
        "error": {
            "message": str(refused),
            "type": "invalid_request_error" if refused.status < 500 else "server_error",
            "param": refused.where or None,
            "code": refused.code or None,
        }
    }


def usage_of(usage: TokenUsage) -> dict[str, Any]:
    """Return the usage; clients read keys of both parts, so they are always present."""
    return {
        "prompt_tokens": usage.given,
        "completion_tokens": usage.sampled,
        "total_tokens": usage.given + usage.sampled,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.thought,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _tools(body: Mapping[str, Any]) -> tuple[Turn, ...]:
    """Return a request's tools; none where `tool_choice` is none. Raises CallRefused."""
    tools = []
    for place, tool in enumerate(a_list_of_objects(body.get("tools"), "tools")):
        where = f"tools[{place}]"
        function = tool.get("function")
        if not isinstance(function, dict):
            kind = shown(tool.get("type"))
            raise CallRefused(f"{where} is of type {kind}: a tool of the policy's is a function", where=where)
        tools.append(tool_of(function, where))
    return () if not tools or refuse_forced(body.get("tool_choice")) else tuple(tools)


def _message(given: Mapping[str, Any], where: str) -> Turn:
    role = given.get("role")
    if role == "assistant":
        return _assistant(given, where)
    if not isinstance(role, str) or role not in _ROLES:
        known = ", ".join([*_ROLES, "assistant"])
        raise CallRefused(f"{where}.role is one of {known}, got {shown(role)}", where=f"{where}.role")
    message: Turn = {"role": _ROLES[role], "content": text_in(given.get("content"), f"{where}.content")}
    if role == "tool":
        message["tool_call_id"] = a_name(given, "tool_call_id", where)
        if isinstance(given.get("name"), str):
            message["name"] = given["name"]
    return message


def _assistant(given: Mapping[str, Any], where: str) -> Turn:
    message: Turn = {"role": "assistant", "content": text_in(given.get("content"), f"{where}.content")}
    for name in _THOUGHTS:
        if isinstance(given.get(name), str) and given[name]:
            message["reasoning_content"] = given[name]
            break
    if calls := a_list_of_objects(given.get("tool_calls"), f"{where}.tool_calls"):
        message["tool_calls"] = [
            _call(one, f"{where}.tool_calls[{place}]") for place, one in enumerate(calls)
        ]
    return message


def _call(given: Mapping[str, Any], where: str) -> Turn:
    function = given.get("function")
    function = function if isinstance(function, Mapping) else {}
    return call_of(function.get("name"), function.get("arguments"), given.get("id"), where)


def _head(answer: PolicyAnswer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": kind,
        "created": answer.created,
        "model": answer.model,
        "system_fingerprint": None,
        "service_tier": None,
    }


def _finish(answer: PolicyAnswer) -> str:
    if answer.is_cut:
        return "length"
    return "tool_calls" if answer.message.get("tool_calls") else "stop"
