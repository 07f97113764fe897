"""Which of an endpoint's servers takes the next call.

In: what calls found. Out: the least busy server that nothing speaks against; else one of whom trouble is known, for a
call may find it gone. Used by `scorers.served_model.calls`, on one loop. A server in trouble is left alone for a
doubled time while others are well, and then gets one call, until that succeeds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from config.endpoint import base_url

log = logging.getLogger(__name__)

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0  # that a server in trouble is left alone; doubled each time
FIRST_REST_S, LONGEST_REST_S = 1.0, 30.0  # that a busy one is, where it does not say how long


@dataclass(slots=True, eq=False)
class Host:
    """One server, as this process sees it. Times are monotonic."""

    url: str
    outstanding: int = 0  # calls that it is at
    turn: int = 0  # when it was last chosen: of equally busy ones, the one longest ago is next
    is_doubted: bool = False  # the last that was heard of it was trouble
    doubted_until: float = 0.0
    wait_s: float = 0.0  # the last of its doubts, until it does what it is asked
    rests_until: float = 0.0  # it asked to be left alone
    rest_s: float = 0.0  # the last of its rests of which it did not say how long


class Hosts:
    """The servers of one endpoint."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """Equal ones count once; nothing is contacted."""
        self.all = tuple(Host(url) for url in dict.fromkeys(map(base_url, addresses)))
        self._turn = 0

    @contextmanager
    def lend(self, candidates: Collection[Host]) -> Iterator[Host | None]:
        """One of the candidates for one call; None where all of them rest."""
        now = time.monotonic()
        ready = [host for host in candidates if host.rests_until <= now]
        well = [
            host
            for host in ready
            if not host.is_doubted or (host.doubted_until <= now and not host.outstanding)
        ]
        if not ready:
            yield None
            return
        host = min(
            well or ready, key=lambda one: (one.doubted_until if not well else 0.0, one.outstanding, one.turn)
        )
        self._turn += 1
        host.turn = self._turn
        host.outstanding += 1
        try:
            yield host
        finally:
            host.outstanding -= 1

    @staticmethod
    def doubt(host: Host, trouble: str) -> None:
        """A call found trouble."""
        now = time.monotonic()
        if not host.is_doubted:
            log.warning("endpoint_doubted %s", trouble)
        if host.doubted_until <= now:  # else another call has just found the same
            host.wait_s = min(max(2 * host.wait_s, FIRST_WAIT_S), LONGEST_WAIT_S)
            host.doubted_until = now + host.wait_s
        host.is_doubted = True

    @staticmethod
    def trust(host: Host) -> None:
        """It did what it was asked."""
        if host.is_doubted:
            log.info("endpoint_back url=%s", host.url)
        host.is_doubted, host.wait_s, host.rest_s = False, 0.0, 0.0

    @staticmethod
    def rest(host: Host, seconds: float | None) -> None:
        """Leave it alone for as long as it asked, or for a doubled time."""
        now = time.monotonic()
        if seconds is None and host.rests_until <= now:
            seconds = host.rest_s = min(max(2 * host.rest_s, FIRST_REST_S), LONGEST_REST_S)
        if seconds is not None:
            host.rests_until = max(host.rests_until, now + seconds)
