"""A clock that stands still while nobody can work: by it a group ages towards `learner.group_deadline_s`.

In: looks, whenever intake looks around; what the link has waited; how full Redis is. Out: seconds for intake, and for
the line in which the collector says what it waits for. Runs in rank 0's own thread. A pause, an outage of Redis and
full memory are no fault of a group. A long step is no excuse, nor is a generator that stands still.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from broker.connection import RedisLink


class WorkingTime:
    """One learner's.

    Args:
        clock: seconds that never jump.
    Attributes:
        lost_s: seconds until the last look in which nobody could work.
        missing_mib: memory that Redis lacks for one more group; 0 where it has room.
    """

    def __init__(self, link: RedisLink, clock: Callable[[], float]) -> None:
        self.lost_s = 0.0
        self.missing_mib = 0
        self._link = link
        self._clock = clock
        self._looked = clock()
        self._waited_s = link.waited_s
        self._was_idle = False

    def now(self) -> float:
        """The clock's seconds, less those that were lost."""
        return self._clock() - self.lost_s

    def look(self, *, is_paused: bool, group_bytes: float) -> float:
        """Returns the seconds since the last look in which nobody could work.

        A pause or full memory counts if it was there at both looks: a step may lie between them.

        Args:
            group_bytes: what a group takes in Redis.
        """
        self.missing_mib = self._missing_mib(group_bytes)
        is_idle = is_paused or self.missing_mib > 0
        now, waited_s = self._clock(), self._link.waited_s
        passed = now - self._looked
        lost = passed if is_idle and self._was_idle else min(passed, waited_s - self._waited_s)
        self._looked, self._waited_s, self._was_idle = now, waited_s, is_idle
        self.lost_s += lost
        return lost

    def _missing_mib(self, group_bytes: float) -> int:
        memory: Any = self._link(lambda client: client.info("memory"))
        limit = int(memory.get("maxmemory", 0))
        return max(0, math.ceil((int(memory["used_memory"]) + group_bytes - limit) / 2**20)) if limit else 0
