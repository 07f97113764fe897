"""The time in which nobody could work, as a worker hears of it: a group's deadline comes no nearer meanwhile.

In: the learner's own sum, about once a second (field `lost_s` of the hash `run`). Out: what of it was lost since a
group's issue. A learner that begins anew begins its sum anew. What was lost before this worker first heard of it may
have been lost since the issue, and counts for the group, as it does with the learner.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class LostTime:
    """Remembers when how much was lost. Belongs to one event loop.

    Args:
        clock: Unix seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._heard_s = self._lost_s = 0.0  # the learner's sum, and that of all learners
        self._losses: list[tuple[float, float]] = []  # Unix seconds, and all that was lost by then

    def note(self, heard_s: float) -> None:
        """Note the learner's sum of now, in seconds."""
        if heard_s == self._heard_s:
            return
        self._lost_s += heard_s - self._heard_s if heard_s > self._heard_s else heard_s
        self._heard_s = heard_s
        self._losses.append((self._clock(), self._lost_s))

    def since(self, unix_s: float) -> float:
        """Return the seconds lost since `unix_s`, no more than have passed since."""
        before = next((lost for at, lost in reversed(self._losses) if at <= unix_s), 0.0)
        return min(self._lost_s - before, max(0.0, self._clock() - unix_s))
