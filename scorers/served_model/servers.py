"""The next call goes to the least busy of an endpoint's servers that no trouble is known of.

In: what calls found. Out: a server for the next call. Where trouble is known of every server, one of them is asked all
the same, for a call may find the trouble gone. Used by `scorers.served_model.calls`, on one loop. A server in trouble
is left alone for a doubled time while others are well, and then gets one call, until a call succeeds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from config.endpoint import base_url
from web.rotation import RotatedServer, Rotation, doubled, rested

log = logging.getLogger(__name__)

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0  # for which a server in trouble is left alone; doubled each time
FIRST_REST_S, LONGEST_REST_S = 1.0, 30.0  # for which a busy server is, where it does not say how long


@dataclass(slots=True, eq=False)
class EndpointServer(RotatedServer):
    """One server of a model, as this process sees it."""

    is_doubted: bool = False  # the last call found trouble
    doubted_until: float = 0.0  # monotonic seconds
    rest_s: float = 0.0  # the latest of its rests of unstated length


class EndpointServers:
    """This chooses among the servers of one endpoint, and notes what calls found there."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """Contact nothing yet; an address that is named twice counts once."""
        self.all = tuple(EndpointServer(url) for url in dict.fromkeys(map(base_url, addresses)))
        self._rotation = Rotation()

    @contextmanager
    def lend(self, candidates: Collection[EndpointServer]) -> Iterator[EndpointServer | None]:
        """Lend one of the candidates for one call; None where all candidates rest."""
        now = time.monotonic()
        ready = rested(candidates, now)
        well = [
            server
            for server in ready
            if not server.is_doubted or (server.doubted_until <= now and not server.outstanding)
        ]
        if not ready:
            yield None
            return
        server = (
            self._rotation.take(well)
            if well
            else self._rotation.take(ready, lambda doubted: doubted.doubted_until)
        )
        try:
            yield server
        finally:
            self._rotation.give_back(server)

    @staticmethod
    def doubt(server: EndpointServer, trouble: str) -> None:
        """Note that a call found trouble at this server."""
        now = time.monotonic()
        if not server.is_doubted:
            log.warning("endpoint_doubted %s", trouble)
        if server.doubted_until <= now:  # else another call has just found the same trouble
            server.wait_s = doubled(server.wait_s, first=FIRST_WAIT_S, longest=LONGEST_WAIT_S)
            server.doubted_until = now + server.wait_s
        server.is_doubted = True

    @staticmethod
    def trust(server: EndpointServer) -> None:
        """Note that this server did what it was asked."""
        if server.is_doubted:
            log.info("endpoint_back url=%s", server.url)
        server.is_doubted, server.wait_s, server.rest_s = False, 0.0, 0.0

    @staticmethod
    def rest(server: EndpointServer, seconds: float | None) -> None:
        """Leave this server alone for `seconds`, as it asked; None: it did not say how long, so a doubled time."""
        if seconds is None and server.rests_until <= time.monotonic():
            seconds = server.rest_s = doubled(server.rest_s, first=FIRST_REST_S, longest=LONGEST_REST_S)
        if seconds is not None:
            server.rest(seconds)
