"""A scorer keeps what it has read from the row of its last completion, most often the row of the next one too.

In: a row's `verification_info`. Out: what the scorer's own reader makes of the row. The completions of a group come one
after the other with the same object, so the row is read once a group. Kept by scorers that run programs: reading their
rows takes long, and what they learn about a row from its first completion holds for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LastRow(Generic[T]):
    """Reads a row, and remembers what came of the last one."""

    def __init__(self, read: Callable[[Mapping[str, Any]], T]) -> None:
        """Remember how a row is read; what `read` raises, `of` raises each time."""
        self._read = read
        self._last: tuple[Mapping[str, Any], T] | None = None

    def of(self, verification_info: Mapping[str, Any]) -> T:
        """Return what was read from this row; read anew, unless the row is the very object of the call before."""
        if self._last is None or self._last[0] is not verification_info:
            self._last = (verification_info, self._read(verification_info))
        return self._last[1]
