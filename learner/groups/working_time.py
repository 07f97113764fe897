"""Measure the time in which processes could work: a clock that stops for a pause, an outage of Redis and full memory.

In: looks, and how long the link to Redis waited. Out: seconds. Groups age by it towards `learner.group_deadline_s`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from broker.protocol.run_owner import RunOwner


class WorkingTime:
    """A clock that stops while no process can work; groups age by it towards `learner.group_deadline_s`.

    It stops for a pause, an outage of Redis, full memory and a stopped run, but not for a long step or a stalled
    generator.

    Args:
        clock: seconds, monotonic.
        away_s: seconds that the run had no learner before this one.
    Attributes:
        lost_s: seconds until the last look in which no process could work.
        missing_mib: memory that Redis lacks for another group; 0 where it has room.
    """

    def __init__(self, run_owner: RunOwner, clock: Callable[[], float], *, away_s: float = 0.0) -> None:
        self.lost_s = away_s
        self.missing_mib = 0
        self._run_owner = run_owner
        self._clock = clock
        self._looked = clock()
        self._waited_s = run_owner.link.waited_s
        self._was_idle = False

    def now(self) -> float:
        """Return the clock's seconds minus the lost ones."""
        return self._clock() - self.lost_s

    def look(self, *, is_paused: bool, group_bytes: float) -> float:
        """Return the seconds since the last look in which no process could work.

        A pause or full memory counts if it was there at both looks: there may be a step between them.

        Args:
            group_bytes: size of a group in Redis.
        """
        self.missing_mib = self._missing_mib(group_bytes)
        is_idle = is_paused or self.missing_mib > 0
        now, waited_s = self._clock(), self._run_owner.link.waited_s
        passed = now - self._looked
        lost = passed if is_idle and self._was_idle else min(passed, waited_s - self._waited_s)
        self._looked, self._waited_s, self._was_idle = now, waited_s, is_idle
        self.lost_s += lost
        return lost

    def _missing_mib(self, group_bytes: float) -> int:
        memory = self._run_owner.memory()
        missing = memory.used_bytes + group_bytes - memory.limit_bytes
        return max(0, math.ceil(missing / 2**20)) if memory.limit_bytes else 0
