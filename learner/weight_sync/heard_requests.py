"""Tell which generators live by their requests: a request's count rises while its generator lives.

In: all requests, at each look. Out: those that were new recently. No clock of a generator is read, since clocks of
machines differ. Used by the relay, in its thread.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Counted(Protocol):
    """A request with a count."""

    @property
    def count(self) -> int:
        """Return how often its generator has asked."""
        ...


W = TypeVar("W", bound=Counted)


@dataclass(frozen=True, slots=True)
class _Heard(Generic[W]):
    request: W
    at: float  # monotonic seconds when it was new


class HeardRequests(Generic[W]):
    """The last request of each generator, and when it was new.

    Args:
        old_s: age assigned to the requests at the first look: their generators may have gone.
    Attributes:
        has_looked: whether `listen` was called.
    """

    def __init__(self, old_s: float) -> None:
        self._old_s = old_s
        self._heard: dict[str, _Heard[W]] = {}
        self.has_looked = False

    def listen(self, requests: Mapping[str, W]) -> None:
        """Record the current requests, by generator."""
        now = time.monotonic()
        new_at = now if self.has_looked else now - self._old_s
        self.has_looked = True
        self._heard = {
            generator: before
            if (before := self._heard.get(generator)) and before.request.count == request.count
            else _Heard(request, new_at)
            for generator, request in requests.items()
        }

    def since(self, seconds: float) -> dict[str, W]:
        """Return the last request of each generator that has asked within that many seconds."""
        since = time.monotonic() - seconds
        return {generator: heard.request for generator, heard in self._heard.items() if heard.at > since}
