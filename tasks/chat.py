"""Read the chat of a row, whether the file has it as a list, as JSON text, or as plain text.

In: a value of the prompt's column. Out: a list of turns if it is a chat, else the value unchanged. CSV has no lists, so
a chat in it is text; the same holds for tables written by programs that know no objects. Used by the learner's data,
and by `tasks.route` and `tasks.verl` to find the question of a row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from broker.errors import BadMessage
from tasks.values import python_text, shown, unpacked, without_numpy

_TURN_KEYS: Final = frozenset({"role", "content", "from", "value"})  # of chats; ShareGPT has the last two
_WRAPPERS: Final = ("messages", "prompt", "conversations")  # keys of an object that holds a chat
# A text that begins as a chat but is not JSON was cut, or written by another program: it is not a question.
_BEGINS_AS_CHAT: Final = re.compile(
    r"""\s*\[?\s*\{\s*\\?["']+(?:role|content|from|value|messages)\\?["']+\s*:"""
)
_IS_LIST_OF_OBJECTS: Final = re.compile(r"\s*\[\s*\{")
_ROLE: Final = re.compile(r"""["']role\\?["']+\s*:""")
_HEAD_CHARS: Final = 100_000  # of a text; a chat has its first role within these
_MOST_LAYERS: Final = 3  # JSON text in JSON text


def chat_of(value: Any) -> Any:
    """Return the turns of a chat, or any other value unchanged.

    Args:
        value: a list of turns, one turn, the JSON (or Python's) text of either, or the text of a question.
    Raises:
        BadMessage: a text begins as a chat and can't be read as one.
    """
    value = without_numpy(value)
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, Mapping):
        found = _of_object(value)
        return value if found is None else found
    if isinstance(value, list | tuple):
        return [_turn(turn) for turn in value]
    return value


def _of_text(text: str) -> Any:
    found: Any = unpacked(text, "the prompt")
    for _ in range(_MOST_LAYERS):
        if not isinstance(found, str) or not found.lstrip().startswith(("[", "{", '"')):
            return text
        found = _parsed(found)
        if isinstance(found, Mapping):
            of_object = _of_object(found)
            return text if of_object is None else of_object
        if isinstance(found, list):
            turns = [_turn(turn) for turn in found]
            is_chat = not turns or any(
                isinstance(turn, Mapping) and _TURN_KEYS & turn.keys() for turn in turns
            )
            return turns if is_chat else text
    return text


def _parsed(text: str) -> Any:
    """Return the value of a text in JSON, or in Python's notation, which tables of Python objects have in CSV."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        reason = str(error)
    if not _begins_as_chat(text):
        return None
    if (found := python_text(text)) is None:
        raise BadMessage(
            f"the prompt begins as a chat and is no JSON: {reason}: {shown(text)}; written by json.dumps it is read"
        )
    return found


def _begins_as_chat(text: str) -> bool:
    """Return whether a text begins with a turn, or is a list of objects that contain roles."""
    return bool(
        _BEGINS_AS_CHAT.match(text)
        or (_IS_LIST_OF_OBJECTS.match(text) and _ROLE.search(text, 0, _HEAD_CHARS))
    )


def _of_object(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the chat that an object is or contains; None if it is neither."""
    if {"role", "content"} <= value.keys():
        return [dict(value)]
    held = [value[key] for key in _WRAPPERS if isinstance(value.get(key), list)]
    return [_turn(turn) for turn in held[0]] if len(held) == 1 and len(value) == 1 else None


def _turn(turn: Any) -> Any:
    """Return a turn, which some files have as JSON text."""
    if not isinstance(turn, str) or not _begins_as_chat(turn):
        return turn
    found = _parsed(turn)
    return found if isinstance(found, Mapping) else turn
