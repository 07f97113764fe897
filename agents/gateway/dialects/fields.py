"""Read the parts of requests that the APIs share: options, limits, texts, tools and calls of them.

In: a value of a request's JSON, and its place. Out: the value in the form of `ApiRequest`, or `CallRefused` with its
place. Pure; used by the dialects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agents.gateway.dialects.dialect import CallRefused
from broker.messages import Turn

# Sampling options, by the names of the APIs. Requests can't set them: a policy trains on what it samples by itself.
OVERRIDDEN: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
)
# Options that would change what the policy says, or that need missing features.
REFUSED: Final = (
    "logit_bias",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "echo",
    "suffix",
    "functions",
    "function_call",
)
_SHOWN: Final = 80  # characters of a request's value in a reason
_TEXTS: Final = ("text", "input_text", "output_text")  # types of parts with a text


def refuse_what_biases(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options that are overridden. Raises CallRefused for unsupported ones."""
    refuse_any(
        body, REFUSED, "is not there in training: the policy is sampled as the run says, without its ids"
    )
    for name in ("n", "best_of"):
        if body.get(name) not in (None, 1):
            raise CallRefused(f"{name} is 1 in training: each call is one turn of the episode", where=name)
    return tuple(name for name in OVERRIDDEN if body.get(name) is not None)


def refuse_any(body: Mapping[str, Any], names: tuple[str, ...], why: str) -> None:
    """Raise CallRefused for the first of these options that a request sets."""
    for name in names:
        if body.get(name) not in (None, False, [], {}):
            raise CallRefused(f"{name} {why}", where=name)


def refuse_format(form: Any, where: str) -> None:
    """Raise CallRefused where a request asks for another response format than text."""
    kind = form.get("type", "text") if isinstance(form, Mapping) else form
    if kind not in (None, "text"):
        raise CallRefused(f"{where} is text in training: the policy's words are its own", where=where)


def refuse_forced(choice: Any) -> bool:
    """Return whether a choice of tools is none. Raises CallRefused for one that forces a call."""
    kind = choice.get("type") if isinstance(choice, Mapping) else choice
    if kind not in (None, "auto", "none"):
        raise CallRefused(
            "tool_choice is auto or none in training: a call is the policy's own", where="tool_choice"
        )
    return bool(kind == "none")


def shown(value: Any) -> str:
    """Return a value in the form for a reason."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def text_in(content: Any, where: str) -> str:
    """Return the text of a message's content: a text, parts of text, or nothing. Raises CallRefused for other parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise CallRefused(f"{where} is a text or a list of parts, got {type(content).__name__}", where=where)
    return "\n".join(text_of_part(part, f"{where}[{place}]") for place, part in enumerate(content))


def text_of_part(part: Any, where: str) -> str:
    """Return the text of a part of a message. Raises CallRefused for other parts."""
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, Mapping) else type(part).__name__
    text = None
    if isinstance(part, Mapping):
        text = part.get("text") if kind in _TEXTS else part.get("refusal") if kind == "refusal" else None
    if not isinstance(text, str):
        raise CallRefused(f"{where} is of type {shown(kind)}: the policy reads text", where=where)
    return text


def a_list_of_objects(value: Any, where: str) -> list[Mapping[str, Any]]:
    """Return a list of JSON objects; null is an empty one. Raises CallRefused for anything else."""
    found = [] if value is None else value
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise CallRefused(f"{where} is a list of objects", where=where)
    return found


def a_name(given: Mapping[str, Any], name: str, where: str) -> str:
    """Return a nonempty text. Raises CallRefused."""
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise CallRefused(f"{where} has no {name}", where=f"{where}.{name}")
    return value


def model_in(body: Mapping[str, Any]) -> str:
    """Return the requested model's name; "" for none."""
    name = body.get("model")
    return name if isinstance(name, str) else ""


def a_limit(body: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of several token limits in a request. Raises CallRefused for an invalid one."""
    for name in names:
        if (value := body.get(name)) is not None:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise CallRefused(f"{name} is a whole number of at least 1, got {shown(value)}", where=name)
            return value
    return None


def stops_in(value: Any, where: str) -> tuple[str, ...]:
    """Return stop sequences: one text, or several. Raises CallRefused for anything else."""
    found = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise CallRefused(f"{where} is a text or a list of texts", where=where)
    return tuple(one for one in found if one)


def tool_of(given: Mapping[str, Any], where: str, *, parameters: str = "parameters") -> Turn:
    """Return a function in the form for templates: with a description and parameters, and without `strict`.

    Args:
        given: its name, description and schema.
        parameters: the API's key for the schema of its arguments.
    Raises:
        CallRefused: it is invalid.
    """
    schema = given.get(parameters) or {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise CallRefused(f"{where}.{parameters} is no object", where=f"{where}.{parameters}")
    description = given.get("description") or ""
    if not isinstance(description, str):
        raise CallRefused(f"{where}.description is no text", where=f"{where}.description")
    name = a_name(given, "name", where)
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def call_of(name: Any, arguments: Any, call_id: Any, where: str) -> Turn:
    """Return a tool call of a history; its arguments are the text of a JSON object. Raises CallRefused."""
    if not isinstance(name, str) or not name:
        raise CallRefused(f"{where} names no function", where=where)
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        is_object = isinstance(json.loads(text or "{}"), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise CallRefused(f"the arguments of {where} are no JSON object", where=where)
    return {
        "id": str(call_id or ""),
        "type": "function",
        "function": {"name": name, "arguments": text or "{}"},
    }
