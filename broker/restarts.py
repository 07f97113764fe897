"""Decide when a process that ended is restarted, and when it has failed too often.

In: the ends of one process, as its parent judges them. Out: the time of its next start, or that there is none. Used by
supervisors: `millrace up`, the supervisor of its Redis, and the scorers' pool. Starts nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How often, and how soon, a failing process is restarted."""

    most: int = 5  # restarts within `window_s`; the next failure is final
    window_s: float = 60.0  # seconds that a failure counts; infinite: until `reset`
    first_pause_s: float = 0.5  # before a start, in seconds; doubles with each failure that counts


class Restarts:
    """Count the failures of one process, and plan its restarts.

    Attributes:
        policy: the limits.
        not_before: monotonic seconds of the next start.
    """

    def __init__(self, policy: RestartPolicy) -> None:
        self.policy = policy
        self.not_before = 0.0
        self._failed_at: list[float] = []  # monotonic seconds

    @property
    def failures(self) -> int:
        """The number of failures that count, the last one included."""
        return len(self._failed_at)

    def fail(self, now: float) -> bool:
        """Count a failure at `now`, in monotonic seconds, and plan the next start. False: too many failures."""
        self._failed_at = [at for at in self._failed_at if now - at < self.policy.window_s]
        earlier = len(self._failed_at)
        self._failed_at.append(now)
        self.not_before = now + self.policy.first_pause_s * 2**earlier
        return earlier < self.policy.most

    def excuse(self, now: float) -> None:
        """Plan the next start after an end at `now` that counts as no failure."""
        self.not_before = now + self.policy.first_pause_s

    def reset(self) -> None:
        """Forget all earlier failures."""
        self._failed_at.clear()
