"""This module tells which generators live by their wishes: a wish's count rises for as long as its generator does.

In: all wishes that are there, at each look. Out: those that were new lately. No clock of a generator is read, since the
clocks of two machines differ. Used by the relay, in its thread.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Counted(Protocol):
    """A wish with a count."""

    @property
    def count(self) -> int:
        """Return how often its generator has asked."""
        ...


W = TypeVar("W", bound=Counted)


@dataclass(frozen=True, slots=True)
class _Heard(Generic[W]):
    wish: W
    at: float  # monotonic seconds, when it was new


class HeardWishes(Generic[W]):
    """Holds the last wish of each generator, and when it was new.

    Args:
        old_s: age of the wishes at the first look: they may be left from generators that have gone.
    Attributes:
        has_looked: whether there was a look.
    """

    def __init__(self, old_s: float) -> None:
        self._old_s = old_s
        self._heard: dict[str, _Heard[W]] = {}
        self.has_looked = False

    def listen(self, wishes: Mapping[str, W]) -> None:
        """Take note of the wishes that are there now, by generator."""
        now = time.monotonic()
        new_at = now if self.has_looked else now - self._old_s
        self.has_looked = True
        self._heard = {
            generator: before
            if (before := self._heard.get(generator)) and before.wish.count == wish.count
            else _Heard(wish, new_at)
            for generator, wish in wishes.items()
        }

    def since(self, seconds: float) -> dict[str, W]:
        """Return the last wish of each generator that has asked within so many seconds."""
        since = time.monotonic() - seconds
        return {generator: heard.wish for generator, heard in self._heard.items() if heard.at > since}
