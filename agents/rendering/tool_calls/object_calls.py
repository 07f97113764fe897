"""Parse calls that are JSON objects with the tool's name inside: Hermes and Qwen, Granite, Command A, Phi, Llama 3.

In: a text from its first mark on. Out: the calls and the other text. Raises Unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agents.rendering.tool_calls.reading import ToolCall, Unreadable, behind, call, shown, value_at

_PYTHON = "<|python_tag|>"


def reader(
    opening: str, closing: str, *, keys: tuple[str, str] = ("name", "arguments")
) -> Callable[[str, Any], tuple[list[ToolCall], str]]:
    """Build the reader of one object, or a list of them, between two marks; the last mark is optional.

    Args:
        opening: the mark before each.
        closing: the mark after each; "": none.
        keys: of the tool's name and of its arguments.
    """

    def read(text: str, schemas: Any) -> tuple[list[ToolCall], str]:
        del schemas  # JSON is typed itself
        calls: list[ToolCall] = []
        beside: list[str] = []
        place = 0
        while (start := text.find(opening, place)) >= 0:
            beside.append(text[place:start])
            found, place = value_at(text, start + len(opening))
            calls += [_call(each, keys) for each in (found if isinstance(found, list) else [found])]
            closed = behind(text, place, closing)
            if closed is not None:
                place = closed if closing else place
            elif behind(text, place, "") != len(text):
                raise Unreadable(
                    f"{closing} is missing behind a call: {shown(text[place : place + 80].strip())}"
                )
        return calls, "".join([*beside, text[place:]]).strip("\n")

    return read


def read_llama(text: str, schemas: Any) -> tuple[list[ToolCall], str]:
    """Read objects with `parameters`, separated by semicolons; other JSON is an answer."""
    del schemas
    is_marked = text.startswith(_PYTHON)
    calls: list[ToolCall] = []
    place = len(_PYTHON) if is_marked else 0
    try:
        while True:
            found, end = value_at(text, place)
            if not is_marked and not calls and not _is_call(found):
                return [], ""
            key = "parameters" if isinstance(found, dict) and "parameters" in found else "arguments"
            calls.append(_call(found, ("name", key)))
            if behind(text, end, "") == len(text):
                return calls, ""
            if (next_place := behind(text, end, ";")) is None:
                raise Unreadable(f"more behind a call: {shown(text[end : end + 80].strip())}")
            place = next_place
    except Unreadable:
        if not is_marked and not calls and '"name"' not in text:
            return [], ""
        raise


def _is_call(found: Any) -> bool:
    return isinstance(found, dict) and "name" in found and bool({"parameters", "arguments"} & found.keys())


def _call(found: Any, keys: Sequence[str]) -> ToolCall:
    if not isinstance(found, dict):
        raise Unreadable(f"a call is a JSON object with {' and '.join(keys)}, got {shown(found)}")
    if missing := [key for key in keys if key not in found]:
        raise Unreadable(f"a call has no {missing[0]}: {shown(found)}")
    own = found.get("id")  # written by Mistral's models
    return call(found[keys[0]], found[keys[1]], own if isinstance(own, str) and own.isalnum() else "")
