"""OpenAI's chat completions: `/v1/chat/completions`.

In and out: as `agents.gateway.dialects.dialect.Dialect` says. Fields by OpenAI's reference of the API, read 2026-11;
`reasoning_content` is what vLLM, SGLang and DeepSeek call a thought.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from agents.gateway.dialects.dialect import (
    Answer,
    Asked,
    Refused,
    Usage,
    a_limit,
    a_list_of_objects,
    refuse_what_biases,
    stops_in,
    text_in,
)
from broker.messages import Turn

_ROLES: Final = {"system": "system", "developer": "system", "user": "user", "tool": "tool"}
_THOUGHTS: Final = ("reasoning_content", "reasoning")  # of a message that a client hands back


class Chat:
    """The dialect of chat completions."""

    def read(self, body: Mapping[str, Any]) -> Asked:
        """Read a request. Raises Refused."""
        overridden = refuse_what_biases(body)
        given = a_list_of_objects(body.get("messages"), "messages")
        if not given:
            raise Refused("messages is empty", where="messages")
        tools = tools_in(body)
        options = body.get("stream_options") or {}
        if (form := body.get("response_format")) is not None and form.get("type", "text") != "text":
            raise Refused("response_format is text in training", where="response_format")
        return Asked(
            messages=tuple(_message(one, f"messages[{place}]") for place, one in enumerate(given)),
            tools=tools,
            most_tokens=a_limit(body, "max_completion_tokens", "max_tokens"),
            stop=stops_in(body.get("stop"), "stop"),
            is_streamed=body.get("stream") is True,
            streams_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
            overridden=overridden,
        )

    def answer(self, asked: Asked, answer: Answer) -> dict[str, Any]:
        """Return the body of an answer."""
        del asked
        message = {"refusal": None, **answer.message}
        message["content"] = message.get("content") or None
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
        return {**_head(answer, "chat.completion"), "choices": [choice], "usage": usage_of(answer.usage)}

    def events(self, asked: Asked, answer: Answer) -> Iterator[str]:
        """Yield the events of a stream: the parts of the message, why it ended, what was used."""
        head = _head(answer, "chat.completion.chunk")
        more = {"usage": None} if asked.streams_usage else {}

        def chunk(delta: Mapping[str, Any], finish: str | None = None) -> str:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return _event({**head, "choices": [choice], **more})

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
            yield _event({**head, "choices": [], "usage": usage_of(answer.usage)})
        yield "data: [DONE]\n\n"

    def error(self, refused: Refused) -> dict[str, Any]:
        """Return the body of an error."""
        kind = "invalid_request_error" if refused.status < 500 else "server_error"
        return {
            "error": {
                "message": str(refused),
                "type": kind,
                "param": refused.where or None,
                "code": refused.code or None,
            }
        }

    def error_event(self, refused: Refused) -> str:
        """Return an error as an event: OpenAI's client raises it."""
        return _event(self.error(refused))


def tools_in(body: Mapping[str, Any]) -> tuple[Turn, ...]:
    """Return a request's tools; none where `tool_choice` says none. Raises Refused."""
    given = body.get("tools")
    tools = () if given is None else tuple(a_list_of_objects(given, "tools"))
    choice = body.get("tool_choice")
    if choice not in (None, "auto", "none"):
        raise Refused(
            "tool_choice is auto or none in training: a call is the policy's own", where="tool_choice"
        )
    for place, tool in enumerate(tools):
        function = tool.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise Refused(f"tools[{place}] is a function with a name", where=f"tools[{place}]")
    if choice == "none":
        return ()
    return tuple({"type": "function", "function": _schema(tool["function"])} for tool in tools)


def _schema(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function as templates show it: with a description and parameters, and without `strict`."""
    return {
        "name": function["name"],
        "description": function.get("description") or "",
        "parameters": function.get("parameters") or {"type": "object", "properties": {}},
    }


def _message(given: Mapping[str, Any], where: str) -> Turn:
    role = given.get("role")
    if role == "assistant":
        return _assistant(given, where)
    if role not in _ROLES:
        known = ", ".join([*_ROLES, "assistant"])
        raise Refused(f"{where}.role is one of {known}, got {role!r}", where=f"{where}.role")
    message: Turn = {"role": _ROLES[role], "content": text_in(given.get("content"), f"{where}.content")}
    if role == "tool":
        if not isinstance(given.get("tool_call_id"), str):
            raise Refused(f"{where} has no tool_call_id", where=f"{where}.tool_call_id")
        message["tool_call_id"] = given["tool_call_id"]
        if isinstance(given.get("name"), str):
            message["name"] = given["name"]
    return message


def _assistant(given: Mapping[str, Any], where: str) -> Turn:
    message: Turn = {"role": "assistant", "content": text_in(given.get("content"), f"{where}.content")}
    for name in _THOUGHTS:
        if isinstance(given.get(name), str) and given[name]:
            message["reasoning_content"] = given[name]
            break
    if calls := given.get("tool_calls"):
        found = a_list_of_objects(calls, f"{where}.tool_calls")
        message["tool_calls"] = [
            call_of(one, f"{where}.tool_calls[{place}]") for place, one in enumerate(found)
        ]
    return message


def call_of(given: Mapping[str, Any], where: str) -> Turn:
    """Return a tool call of a history; its arguments as the text of a JSON object. Raises Refused."""
    function = given.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise Refused(f"{where} has no function with a name", where=where)
    arguments = function.get("arguments") or "{}"
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise Refused(f"{where}.function.arguments is no JSON object", where=f"{where}.function.arguments")
    return {
        "id": str(given.get("id") or ""),
        "type": "function",
        "function": {"name": function["name"], "arguments": text},
    }


def usage_of(usage: Usage) -> dict[str, Any]:
    """Return what was used; clients ask the two parts for keys, so that they are always there."""
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


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": kind,
        "created": answer.created,
        "model": answer.model,
        "system_fingerprint": None,
        "service_tier": None,
    }


def _finish(answer: Answer) -> str:
    if answer.is_cut:
        return "length"
    return "tool_calls" if answer.message.get("tool_calls") else "stop"


def _event(body: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(body)}\n\n"
