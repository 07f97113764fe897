"""Track the time in which no process could work, from the learner: it does not count towards a group's deadline.

In: the learner's own sum, about once a second (field `lost_s` of the hash `run`). Out: the time lost since a group's
issue. A new learner restarts its sum. Time lost before this worker's first reading may have been lost since the issue,
and is credited to the group, as the learner does.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class LostTime:
    """Remember when how much time was lost. Belongs to one event loop.

    Args:
        clock: Unix seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._heard_s = self._lost_s = 0.0  # the learner's sum, and that of all learners
        self._losses: list[tuple[float, float]] = []  # Unix seconds, and the total lost by then

    def note(self, heard_s: float) -> None:
        """Record the learner's current sum, in seconds."""
        if heard_s == self._heard_s:
            return
        self._lost_s += heard_s - self._heard_s if heard_s > self._heard_s else heard_s
        self._heard_s = heard_s
        self._losses.append((self._clock(), self._lost_s))

    def since(self, unix_s: float) -> float:
        """Return the seconds lost since `unix_s`, at most the seconds passed since."""
        before = next((lost for at, lost in reversed(self._losses) if at <= unix_s), 0.0)
        return min(self._lost_s - before, max(0.0, self._clock() - unix_s))
