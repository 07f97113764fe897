"""Convert a row's values to JSON's types, and show them in messages.

In: what a file, a column of parquet or a caller contains. Out: objects, lists, texts and numbers, or `BadMessage`
naming the part that can't be converted. Used by `tasks.route` and `tasks.verl`.
"""

from __future__ import annotations

import ast
import base64
import datetime as dt
import difflib
import gzip
import io
import json
import math
import re
import uuid
import zlib
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any, Final

from broker.errors import BadMessage

_PACKED: Final = "H4sI"  # the first bytes of gzip, in base64
_UNPACKED_BYTES: Final = 1 << 30
_MAX_DEPTH: Final = 100  # of nested lists and objects: readers of the message have to decode it
_MAX_BITS: Final = 14_284  # of an integer: Python writes at most 4,300 digits
_SHOWN_CHARS: Final = 120  # of a value in a message
_LITERAL_CHARS: Final = 1 << 20  # of a text in Python's notation: its syntax tree is many times as large
_LISTED_CHARS: Final = 4000  # of names in a message
_NAME_CHARS: Final = 100  # of a name: comparing longer ones takes seconds


# Keys of an answer that change no verdict: remarks, and the keys that additional scorers of a row read.
REMARKS: Final = frozenset(
    {"id", "index", "name", "description", "explanation", "rationale", "solution", "question", "prompt"}
    | {"source", "difficulty", "metadata"}
)
_LIST_OF_TEXTS: Final = re.compile(r"""\s*\[\s*(["']).*\1\s*,?\s*\]\s*""", re.DOTALL)
_PLAIN: Final = frozenset({dict, list, tuple, str, int, float, bool, type(None)})
_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {}, ())


class UnknownType(BadMessage):
    """No scorer has such rows; the message names the types or data sources that have one."""


def to_object(value: Any, name: str) -> dict[str, Any]:
    """Return a mapping, or the text of one, as a dict of JSON's types.

    Args:
        value: a mapping, or its text in JSON or Python's notation; the text may be packed, see `unpacked`.
        name: name of the value, for messages.
    Raises:
        BadMessage: it is none of these, or contains a value that can't be written as JSON.
    """
    if isinstance(value, str):
        text = unpacked(value, name)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            value = python_text(text)
            if not isinstance(value, Mapping):
                raise BadMessage(f"{name} is not JSON: {error}: {shown(text)}") from None
    if not isinstance(value, Mapping):
        raise BadMessage(f"{name} must be an object, got {type(value).__name__}")
    return {_text(key, name): plain(item, name) for key, item in value.items()}


def is_nothing(value: Any) -> bool:
    """Return whether a value is null, or an empty text, list or object."""
    return value in _NOTHING


def unread(found: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return the keys with a value that are neither known nor remarks, sorted."""
    return sorted(
        str(key)
        for key, value in found.items()
        if not is_nothing(value) and key not in known and key not in REMARKS
    )


def unpacked(text: str, name: str) -> str:
    """Return the content of a text that was compressed with gzip and encoded in base64; any other text unchanged.

    Raises:
        BadMessage: the text begins like a packed one but is not, or contains more than 1 GiB.
    """
    if not text.startswith(_PACKED):
        return text
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(base64.b64decode(text, validate=True))) as packed:
            found = packed.read(_UNPACKED_BYTES + 1)
        if len(found) > _UNPACKED_BYTES:
            raise BadMessage(f"{name} is a packed text of more than {_UNPACKED_BYTES >> 30} GiB")
        return found.decode()
    except (ValueError, EOFError, OSError, zlib.error) as error:
        raise BadMessage(f"{name} begins as text packed with gzip and base64, and is none: {error}") from None


def as_object(value: Any) -> Mapping[str, Any]:
    """Return a mapping, or the mapping in a JSON text, packed or not; {} for any other value."""
    if isinstance(value, Mapping):
        return value
    try:
        return to_object(value, "")
    except BadMessage:
        return {}


def without_numpy(value: Any) -> Any:
    """Return numpy's array or number as lists and numbers of Python's; any other value unchanged."""
    if type(value) in _PLAIN:
        return value
    import numpy as np  # a row that came as JSON has none, and who scores it does without

    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def plain(value: Any, name: str, depth: int = 1) -> Any:
    """Return `value` in JSON's types: parquet's arrays and tuples become lists.

    Raises:
        BadMessage: names what can't be written.
    """
    if depth > _MAX_DEPTH:
        raise BadMessage(f"{name} is nested more than {_MAX_DEPTH} deep")
    value = without_numpy(value)
    if isinstance(value, Mapping):
        return {_text(key, name): plain(item, name, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, name, depth + 1) for item in value]
    if isinstance(value, str):
        return _text(value, name)
    if isinstance(value, dt.date | dt.time | Decimal | uuid.UUID):
        return _of_parquet(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise BadMessage(f"{name} holds an integer of more than 4,300 digits, which can't be written as JSON")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise BadMessage(f"{name} can't be written as JSON: {type(value).__name__} {shown(value)}")


def _of_parquet(value: dt.date | dt.time | Decimal | uuid.UUID) -> int | float | str:
    """Return a date as text, and a decimal as a number, or as text if JSON has no such number."""
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID) or not value.is_finite():
        return str(value)
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else format(value, "f")


def _text(text: Any, name: str) -> str:
    if not isinstance(text, str):
        raise BadMessage(f"{name} can't be written as JSON: the key {shown(text)} is no text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadMessage(f"{name} holds text that is no Unicode: {shown(text)}") from None
    return text


def hint(name: str, known: Collection[str]) -> str:
    """Return a suggestion for a misspelt name, as the end of a message; "" if no name is similar."""
    if len(name) > _NAME_CHARS:
        return ""
    near = difflib.get_close_matches(name.lower(), [other.lower() for other in known], n=1, cutoff=0.5)
    found = [other for other in known if other.lower() in near]
    return f"; did you mean {found[0]}?" if found else ""


def listed(names: Any) -> str:
    """List names for a message, cut if there are too many."""
    text = ", ".join(map(str, names))
    return text if len(text) <= _LISTED_CHARS else f"{text[:_LISTED_CHARS]}..."


def shown(value: Any) -> str:
    """Write a value for a message, cut if it is long; for a value that Python can't write, name the type."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # more digits than Python writes, or nested too deeply
        return f"{type(value).__name__} too large to be shown"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def python_text(text: str) -> Any:
    """Return the value of a text in Python's notation, as pandas writes lists and objects to CSV; None for other texts.

    It is parsed as a literal; nothing in it is run.
    """
    if len(text) > _LITERAL_CHARS:
        return None
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def texts_of(text: str) -> list[str] | None:
    """Return the texts of a list that is written as text, in JSON or Python's notation; None for any other text.

    `["2"]` is such a list, `[2, 3]` is not: without quotes it may be an interval.
    """
    if not _LIST_OF_TEXTS.fullmatch(text):
        return None
    found = python_text(text)
    is_list = isinstance(found, list) and all(isinstance(one, str) for one in found)
    return found if is_list else None


def reference(value: Any) -> str:
    """Write a reference as text: convert a number, unwrap a list of one value, strip outer white space.

    A list may be written as text. If it has more than one value, no answer could equal all of them.

    Raises:
        BadMessage: there is no such value.
    """
    if isinstance(value, list):
        if len(value) != 1:
            raise BadMessage(
                f"no answer: a reference must be one value, got a list of {len(value)}: {shown(value)}"
            )
        return reference(value[0])
    if isinstance(value, str) and (found := texts_of(value)):
        return reference(found)
    text = value.strip() if isinstance(value, str) else ""
    if (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and math.isfinite(value)
    ):
        text = str(value)
    if not text:
        raise BadMessage(f"no answer to check against in verification_info: the value is {shown(value)}")
    return text
