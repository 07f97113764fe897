"""A clock that stands still while nobody can work: by it a group ages towards `learner.group_deadline_s`.

In: looks, whenever intake looks around; what the link has waited; how full Redis is. Out: seconds for intake, and for
the line in which the collector says what it waits for. Runs in rank 0's own thread. A pause, an outage of Redis and
full memory are no fault of a group. A long step is no excuse, nor is a generator that stands still.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from broker.protocol.run_owner import RunOwner


class WorkingTime:
    """One learner's.

    Args:
        clock: seconds that never jump.
    Attributes:
        lost_s: seconds until the last look in which nobody could work.
        missing_mib: memory that Redis lacks for one more group; 0 where it has room.
    """

    def __init__(self, run_owner: RunOwner, clock: Callable[[], float]) -> None:
        self.lost_s = 0.0
        self.missing_mib = 0
        self._run_owner = run_owner
        self._clock = clock
        self._looked = clock()
        self._waited_s = run_owner.link.waited_s
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
