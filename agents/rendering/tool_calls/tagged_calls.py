"""Parse calls whose arguments are tags with text values: Qwen3-Coder, Seed-OSS, GLM, MiniMax.

In: a text from its first mark on, and the tools' parameters. Out: the calls and the other text. A value is text
where its schema says so, or is missing; otherwise it is JSON, or text where it is no JSON. Raises Unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agents.rendering.tool_calls.reading import ToolCall, Unreadable, behind, call, shown, value_of

_WORDS: Final = {"True": True, "False": False, "None": None}  # Python's, in templates for JSON's


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """A format's marks around its parts. A part without a mark has ""."""

    opening: str  # of a block
    closing: str
    name: tuple[str, str]  # around the tool's name; it ends before "" at the next tag
    key: tuple[str, str]  # around a parameter's name
    value: tuple[str, str]  # around its value
    end: str  # of a call
    is_bare: bool = False  # whether a call may lack its block


def reader(tags: Tags) -> Callable[[str, Mapping[str, Any]], tuple[list[ToolCall], str]]:
    """Build the reader of a format."""

    def read(text: str, schemas: Mapping[str, Any]) -> tuple[list[ToolCall], str]:
        calls: list[ToolCall] = []
        beside: list[str] = []
        place = 0
        while (start := _next(text, place, tags)) >= 0:
            beside.append(text[place:start])
            inside = behind(text, start, tags.opening)
            found, place = _calls_of_block(text, start if inside is None else inside, tags, schemas)
            calls += found
        return calls, "".join([*beside, text[place:]]).strip("\n")

    return read


def _next(text: str, place: int, tags: Tags) -> int:
    """Return the position of the next block, or call without one; -1 for none."""
    starts = [text.find(tags.opening, place), text.find(tags.name[0], place) if tags.is_bare else -1]
    return min((start for start in starts if start >= 0), default=-1)


def _calls_of_block(
    text: str, place: int, tags: Tags, schemas: Mapping[str, Any]
) -> tuple[list[ToolCall], int]:
    """Read the calls of one block; return them and its end."""
    calls: list[ToolCall] = []
    while True:
        if (end := behind(text, place, tags.closing)) is not None and calls:
            return calls, end
        if calls and (tags.is_bare or not text[place:].strip()):
            return calls, place
        name, place = _between(text, place, tags.name, "the tool's name")
        pairs: dict[str, str] = {}
        while behind(text, place, tags.key[0]) is not None:
            key, place = _between(text, place, tags.key, "a parameter's name")
            pairs[key.strip().strip("\"'")], place = _between(text, place, tags.value, f"the value of {key}")
        calls.append(_typed(name.strip().strip("\"'"), pairs, schemas))
        if not tags.end:  # then the block's end is the call's
            end = behind(text, place, tags.closing)
            if end is None:
                raise Unreadable(f"{tags.closing} is missing: {shown(text[place:].strip())}")
            return calls, end
        end = behind(text, place, tags.end)
        if end is None:
            raise Unreadable(f"{tags.end} is missing: {shown(text[place:].strip())}")
        place = end


def _between(text: str, place: int, marks: tuple[str, str], what: str) -> tuple[str, int]:
    """Return the text between two marks, and the position after them."""
    begin = behind(text, place, marks[0]) if marks[0] else place
    if begin is None:
        raise Unreadable(f"{what} is missing: {shown(text[place:].strip())}")
    end = text.find(marks[1] or "<", begin)
    if end < 0:
        raise Unreadable(f"{marks[1]} is missing behind {what}: {shown(text[begin:])}")
    return text[begin:end], end + len(marks[1])


def _typed(name: str, pairs: Mapping[str, str], schemas: Mapping[str, Any]) -> ToolCall:
    known = schemas.get(name) or {}
    return call(name, {key: _value(text, known.get(key)) for key, text in pairs.items()})


def _value(text: str, schema: Any) -> Any:
    """Return the value of a parameter's text: a newline on either side belongs to the tags."""
    text = text.removeprefix("\n").removesuffix("\n")
    kinds = _kinds(schema)
    if not kinds or "string" in kinds:
        return None if "null" in kinds and text.strip() == "null" else text
    if text.strip() in _WORDS:
        return _WORDS[text.strip()]
    try:
        return value_of(text)
    except Unreadable:
        return text  # the tool checks it


def _kinds(schema: Any) -> set[str]:
    """Return the names of the JSON types that a schema allows."""
    if not isinstance(schema, Mapping):
        return set()
    found = schema.get("type")
    kinds = {found} if isinstance(found, str) else set(found) if isinstance(found, list) else set()
    for choice in [*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())]:
        kinds |= _kinds(choice)
    return kinds


def coder_tags(opening: str, closing: str) -> Tags:
    """Return the tags of `<function=NAME><parameter=KEY>VALUE</parameter></function>` between two marks."""
    return Tags(
        opening=opening,
        closing=closing,
        name=("<function=", ">"),
        key=("<parameter=", ">"),
        value=("", "</parameter>"),
        end="</function>",
        is_bare=True,
    )


MINIMAX: Final = Tags(
    opening="<minimax:tool_call>",
    closing="</minimax:tool_call>",
    name=("<invoke name=", ">"),
    key=("<parameter name=", ">"),
    value=("", "</parameter>"),
    end="</invoke>",
)
GLM: Final = Tags(
    opening="<tool_call>",
    closing="</tool_call>",
    name=("", ""),
    key=("<arg_key>", "</arg_key>"),
    value=("<arg_value>", "</arg_value>"),
    end="",
)
