"""Choose among several servers of one kind: the least busy one, in turn among equals, and none that is paused.

In: what calls found at each server. Out: the server of the next call. Used for the servers of a model
(`scorers.served_model.servers`) and of a sandbox (`sandbox.remote.probed_servers`), which each decide which servers
they trust. Nothing here locks: the owner of a `Rotation` calls it from one loop, or with a lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar


@dataclass(slots=True, eq=False)
class RotatedServer:
    """One server, as this process sees it. Times are monotonic seconds."""

    url: str
    outstanding: int = 0  # running calls at it
    turn: int = 0  # when it was last chosen: of equally busy servers, the one chosen longest ago is next
    wait_s: float = 0.0  # the last pause after a failure, doubled until a call succeeds
    rests_until: float = 0.0  # the server asked for no calls until then

    def rest(self, seconds: float) -> None:
        """Send this server no calls for `seconds` from now, or longer if it asked for longer before."""
        self.rests_until = max(self.rests_until, time.monotonic() + seconds)


S = TypeVar("S", bound=RotatedServer)


class Rotation:
    """Rotation of calls among the servers of one kind."""

    def __init__(self) -> None:
        self._turn = 0

    def take(self, ready: Collection[S], preference: Callable[[S], Any] = lambda _server: 0) -> S:
        """Choose a server for one call, and count the call as running until `give_back`.

        Args:
            ready: servers that may be chosen; at least one.
            preference: servers with the least value come first, however busy they are.
        """
        server = min(ready, key=lambda one: (preference(one), one.outstanding, one.turn))
        self._turn += 1
        server.turn = self._turn
        server.outstanding += 1
        return server

    @staticmethod
    def give_back(server: RotatedServer) -> None:
        """Count a call at this server as ended."""
        server.outstanding -= 1


def rested(servers: Iterable[S], now: float) -> list[S]:
    """List the servers that are not paused at `now`, in monotonic seconds."""
    return [server for server in servers if server.rests_until <= now]


def doubled(seconds: float, *, first: float, longest: float) -> float:
    """Compute the pause after one of `seconds`: twice as long, at least `first` and at most `longest`."""
    return min(max(2 * seconds, first), longest)
