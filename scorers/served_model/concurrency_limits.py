"""An endpoint has limits: calls under way at once, and calls that begin in a minute, by all of its clients.

In: calls that have ended, and calls that want to begin. Out: which calls may begin. `scorers.served_model.admission`
asks, for all calls of its process together. `RunConcurrencyLimits` counts in Redis, for all workers of a run, by one
script on Redis' own clock. `ProcessConcurrencyLimits` counts in this process, where there is no run. A call is leased
for longer than it can last: a killed worker's calls come back, and a living worker's call is never given away, however
long Redis is away. Only a Redis that forgets its last second forgets the calls that began in that second.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from broker.connection import RedisLink
from broker.keys import Keys


@dataclass(frozen=True, slots=True)
class Shared:
    """The workers of a run share an endpoint's limits and replies, by the run's Redis and keys."""

    link: RedisLink
    keys: Keys


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one endpoint say how much it may be asked."""

    urls: tuple[str, ...]  # clients with the same addresses share the limits
    concurrency: int  # calls at once
    requests_per_minute: int | None  # None: any number
    lease_s: float  # longer than a call can last

    @property
    def interval_s(self) -> float:
        """Seconds from one call to the next; 0: any number may begin at once."""
        return 60 / self.requests_per_minute if self.requests_per_minute else 0.0


@dataclass(frozen=True, slots=True)
class Ask:
    """A process asks for all its calls together; each call has a name of its own."""

    who: str  # the process that asks
    held: int  # its calls under way, without those that have ended
    ended: Sequence[str]
    wanted: Sequence[str]


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to an `Ask` says which calls may begin."""

    begun: Sequence[str]  # the first of the calls that were asked for
    wait_s: float  # until another call may begin; 0: when a call ends


class ConcurrencyLimits(Protocol):
    """These limits count an endpoint's calls. Any thread may use them."""

    def exchange(self, terms: Terms, ask: Ask) -> Grant:
        """Give calls back and take others; the same exchange again does no harm."""
        ...


class RunConcurrencyLimits:
    """These limits count in Redis, for all workers of a run."""

    def __init__(self, shared: Shared) -> None:
        self._link = shared.link
        self._keys = shared.keys

    def exchange(self, terms: Terms, ask: Ask) -> Grant:
        """Exchange calls, see `ConcurrencyLimits`. The exchange waits for Redis as every call of a link does.

        Raises:
            BrokerUnavailable, WrongBroker: as the link does.
        """
        endpoint = hashlib.sha256(" ".join(sorted(terms.urls)).encode()).hexdigest()[:12]
        reply: list[Any] = self._link.script(
            "exchange_calls",
            self._keys.served_calls(endpoint),
            terms.concurrency,
            int(terms.interval_s * 1e6),
            int(terms.lease_s * 1000),
            ask.who,
            ask.held,
            len(ask.ended),
            *ask.ended,
            *ask.wanted,
        )
        return Grant([name.decode() for name in reply[1:]], int(reply[0]) / 1e6)


class ProcessConcurrencyLimits:
    """These limits count in this process, for one endpoint, by the script's rules. One thread uses them at a time."""

    def __init__(self) -> None:
        self._under_way: set[str] = set()
        self._due = 0.0  # monotonic

    def exchange(self, terms: Terms, ask: Ask) -> Grant:
        """Exchange calls, see `ConcurrencyLimits`."""
        self._under_way.difference_update(ask.ended)
        begun: list[str] = []
        for name in ask.wanted:
            if len(self._under_way) >= terms.concurrency:
                break
            now = time.monotonic()
            if (early_s := self._due - now - terms.interval_s / 2) > 0:
                return Grant(begun, early_s)
            self._due = max(self._due, now) + terms.interval_s
            self._under_way.add(name)
            begun.append(name)
        return Grant(begun, 0.0)
