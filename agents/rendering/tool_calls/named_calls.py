"""Parse calls with the tool's name followed by its arguments as JSON: DeepSeek, Kimi, gpt-oss, Mistral.

In: a text from its first mark on. Out: the calls and the other text. Raises Unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from agents.rendering.tool_calls.object_calls import reader as object_reader
from agents.rendering.tool_calls.reading import ToolCall, Unreadable, call, shown, value_at

_MISTRAL: Final = "[TOOL_CALLS]"
_MISTRAL_LIST: Final = object_reader(_MISTRAL, "")


def reader(
    head: str, tail: str, around: tuple[str, ...] = ()
) -> Callable[[str, Any], tuple[list[ToolCall], str]]:
    """Build the reader of calls with a head that has the name, JSON, and a tail.

    Args:
        head: a pattern with the groups `name` or `name2`, and optionally `id`.
        tail: a pattern of a call's end.
        around: marks around all calls, without meaning.
    """
    heads, tails = re.compile(head), re.compile(tail)

    def read(text: str, schemas: Any) -> tuple[list[ToolCall], str]:
        del schemas  # JSON is typed itself
        calls: list[ToolCall] = []
        beside: list[str] = []
        place = 0
        while found := heads.search(text, place):
            beside.append(text[place : found.start()])
            groups = found.groupdict()
            arguments, end = value_at(text, found.end())
            calls.append(
                call((groups["name"] or groups.get("name2") or "").strip(), arguments, groups.get("id") or "")
            )
            closed = tails.match(text, end)
            place = closed.end() if closed else end
        rest = "".join([*beside, text[place:]])
        for mark in around:
            rest = rest.replace(mark, "")
        if not calls:
            raise Unreadable(f"a call without a tool's name or its arguments: {shown(text)}")
        return calls, rest.strip("\n")

    return read


_MISTRAL_NAMED: Final = reader(
    r"\[TOOL_CALLS\]\s*(?P<name>[\w./-]+)\s*(?:\[CALL_ID\]\s*(?P<id>\w+)\s*)?(?:\[ARGS\])?\s*(?=\{)", r"\s*"
)


def read_mistral(text: str, schemas: Any) -> tuple[list[ToolCall], str]:
    """Read a list of objects, or names with their arguments, the form of later versions."""
    is_list = text.removeprefix(_MISTRAL).lstrip().startswith(("[{", "[ {", "[\n", "[]", "{"))
    return (_MISTRAL_LIST if is_list else _MISTRAL_NAMED)(text, schemas)
