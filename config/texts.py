"""This module says which keys hold text, so that a word of the command line is taken for it as it stands.

In: a key's path. Out: whether every section that has such a key has text there. `{question}` and `#### (.+)` are an
object and a comment where they are read as YAML; as a text they are themselves. Used by `config.loading`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr

from config.run import Run

_TEXTS = (str, Path, SecretStr)


@cache
def holds_text(path: tuple[str, ...]) -> bool:
    """Return whether the key at `path` holds text in every section that it may be of; False for an unknown key."""
    found: Sequence[Any] = [Run]  # annotations of what the keys so far lead to
    for key in path:
        if not (key.isdecimal() and any(map(_is_list, found))):
            found = list(dict.fromkeys(inner for one in found for inner in _below(one, key)))
    return bool(found) and all(map(_is_text, found))


def _below(annotation: Any, key: str) -> Iterator[Any]:
    """Yield the annotations under a key of a section, or under any name of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if key in annotation.model_fields:
            yield annotation.model_fields[key].annotation
    elif get_origin(annotation) is dict:
        yield get_args(annotation)[1]
    else:
        for part in get_args(annotation):
            yield from _below(part, key)


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) in (tuple, list) or any(map(_is_list, get_args(annotation)))


def _is_text(annotation: Any) -> bool:
    """Return whether nothing but text is taken, or null beside it; the parts behind Annotated's type say no more."""
    parts = [part for part in get_args(annotation) if part is not NoneType]
    if hasattr(annotation, "__metadata__"):
        return _is_text(parts[0])
    if get_origin(annotation) in (tuple, list, dict):
        return False
    return annotation in _TEXTS if not parts else all(map(_is_text, parts))
