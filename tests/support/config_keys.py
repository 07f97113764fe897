"""Which keys a configuration has, for tests of pages and tables that name keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from config.run import Run


def sections(kind: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections that a field of this type may hold, those of a list or a mapping too."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    elif get_origin(kind) in {Annotated, Union, UnionType, dict, tuple}:
        for inner in get_args(kind):
            yield from sections(inner)


def is_key(path: Sequence[str], of: type[BaseModel] = Run) -> bool:
    """Return whether a configuration has such a key. `*` is any name, and at the end all that is there."""
    first, *rest = path
    if first == "*" and not rest:
        return True
    if (field := of.model_fields.get(first)) is None:
        return False
    if rest and get_origin(field.annotation) is dict:  # tasks by their names
        rest = rest[1:]
    return not rest or any(is_key(rest, section) for section in sections(field.annotation))
