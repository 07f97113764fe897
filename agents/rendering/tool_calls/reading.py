"""Parse JSON that a policy wrote, without trusting it.

In: text and the position of a value. Out: an object, or the reason why it is invalid, for the policy. Depth, numbers
and half surrogate pairs that would break later readers are refused or repaired here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

_NAME: Final = re.compile(r"[\w.:/-]{1,200}")
_SHOWN: Final = 60  # characters of an invalid text in a reason
_MOST_LEVELS: Final = 64  # of a value: later readers recurse


class Unreadable(Exception):
    """An apparent tool call is invalid; the message says why, for the policy."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool's name and its arguments, as the policy wrote them."""

    name: str
    arguments: Mapping[str, Any]
    id: str = ""  # where the format has one


def call(name: Any, arguments: Any, id_: str = "") -> ToolCall:
    """Check and return a call. Raises Unreadable."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Unreadable(f"the name of a tool is missing, or no name: {shown(name)}")
    if not isinstance(arguments, dict):
        raise Unreadable(f"the arguments of {name} are no JSON object: {shown(arguments)}")
    return ToolCall(name, arguments, id_)


def shown(value: Any) -> str:
    """Return the beginning of a value, for a reason."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def behind(text: str, place: int, mark: str) -> int | None:
    """Return the position after whitespace and a mark; None where the mark is missing."""
    while place < len(text) and text[place].isspace():
        place += 1
    return place + len(mark) if text.startswith(mark, place) else None


def value_at(text: str, place: int) -> tuple[Any, int]:
    """Return the JSON value at a position, after whitespace, and its end. Raises Unreadable."""
    start = behind(text, place, "") or 0
    try:
        value, end = _DECODER.raw_decode(text, start)
        _check_depth(value)
        # Half a surrogate pair, which JSON may contain, can't be tokenized or sent.
        return (_whole(value) if "\\u" in text[start:end] else value), end
    except RecursionError:
        raise Unreadable("the JSON is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"no JSON: {error}: {shown(text[start : start + _SHOWN])}") from None


def value_of(text: str) -> Any:
    """Parse the whole text as a JSON value. Raises Unreadable."""
    value, end = value_at(text, 0)
    if text[end:].strip():
        raise Unreadable(f"more behind the JSON: {shown(text[end:].strip())}")
    return value


def text_of(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON."""
    return json.dumps(arguments, ensure_ascii=False)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_MOST_LEVELS):
        level = [
            child
            for parent in level
            for child in (
                parent.values() if isinstance(parent, dict) else parent if isinstance(parent, list) else ()
            )
        ]
        if not level:
            return
    raise RecursionError


def _whole(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


_DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_no_number)
