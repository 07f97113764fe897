"""Calls that are JSON objects with the tool's name inside: Hermes and Qwen, Granite, Command A, Phi, Llama 3.

In: a text from its first mark on. Out: the calls and what stands beside them. Raises Unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agents.rendering.tool_calls.reading import Call, Unreadable, call, shown, value_at

_PYTHON = "<|python_tag|>"


def reader(
    opening: str, closing: str, *, keys: tuple[str, str] = ("name", "arguments")
) -> Callable[[str, Any], tuple[list[Call], str]]:
    """Build the reader of one object, or a list of them, between two marks; the last mark may be left out.

    Args:
        opening: the mark before each.
        closing: the mark behind each; "": there is none.
        keys: of the tool's name and of its arguments.
    """

    def read(text: str, schemas: Any) -> tuple[list[Call], str]:
        del schemas  # JSON has types of its own
        calls: list[Call] = []
        beside: list[str] = []
        place = 0
        while (start := text.find(opening, place)) >= 0:
            beside.append(text[place:start])
            found, place = value_at(text, start + len(opening))
            calls += [_call(each, keys) for each in (found if isinstance(found, list) else [found])]
            rest = text[place:].lstrip()
            if closing and rest.startswith(closing):
                place = len(text) - len(rest) + len(closing)
            elif closing and rest:
                raise Unreadable(f"{closing} is missing behind a call: {shown(rest)}")
        return calls, "".join([*beside, text[place:]]).strip("\n")

    return read


def read_llama(text: str, schemas: Any) -> tuple[list[Call], str]:
    """Read objects with `parameters`, several behind each other with semicolons; JSON of another kind is an answer."""
    del schemas
    is_marked = text.startswith(_PYTHON)
    rest = text.removeprefix(_PYTHON)
    calls: list[Call] = []
    try:
        while rest.strip():
            found, end = value_at(rest, 0)
            is_call = (
                isinstance(found, dict) and "name" in found and {"parameters", "arguments"} & found.keys()
            )
            if not is_call and not is_marked and not calls:
                return [], ""
            calls.append(_call(found, ("name", "parameters" if "parameters" in found else "arguments")))
            rest = rest[end:].lstrip().removeprefix(";")
    except Unreadable:
        if not is_marked and not calls and '"name"' not in rest:
            return [], ""
        raise
    return calls, ""


def _call(found: Any, keys: Sequence[str]) -> Call:
    if not isinstance(found, dict):
        raise Unreadable(f"a call is a JSON object with {' and '.join(keys)}, got {shown(found)}")
    if missing := [key for key in keys if key not in found]:
        raise Unreadable(f"a call has no {missing[0]}: {shown(found)}")
    return call(found[keys[0]], found[keys[1]])
