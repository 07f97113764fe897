"""Which keys a configuration has, for tests of pages and tables that name keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_origin

from pydantic import BaseModel

from config.run import Run
from config.section import sections_of


def is_key(path: Sequence[str], of: type[BaseModel] = Run) -> bool:
    """Return whether a configuration has such a key. `*` is any name, and at the end all that is there."""
    first, *rest = path
    if first == "*" and not rest:
        return True
    if (field := of.model_fields.get(first)) is None:
        return False
    if rest and get_origin(field.annotation) is dict:  # tasks by their names
        rest = rest[1:]
    return not rest or any(is_key(rest, section) for section in sections_of(field.annotation))
