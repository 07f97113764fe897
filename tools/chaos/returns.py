"""Measure how long a role takes to return after `millrace chaos` has killed it.

In: each kill, and an `Observation` of the run several times a second. Out: seconds by role. A generator, an agent, a
dispatcher or a scorer has returned when a new heartbeat is past its start; a program when another has begun. The pool
of scorers has returned when a dispatcher and a scorer have; the learner when it announces weights; Redis when it
answers.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from tools.chaos.targets import DISPATCHER, LEARNER, POOL, REDIS, SCORER, Observation

WANTS = {POOL: (DISPATCHER, SCORER)}  # the roles whose heartbeats show the return; by default the role's own


@dataclass(slots=True)
class _Missing:
    role: str
    since: float  # monotonic seconds
    killed_ms: int  # Unix milliseconds
    before: frozenset[str]  # heartbeats already starting before: none of them is a return
    wants: set[str]


class Returns:
    """Track which roles were killed and have not returned, and how long the others took.

    Args:
        on_back: called with (role, seconds) at every return.
    """

    def __init__(self, on_back: Callable[[str, float], None] = lambda _role, _seconds: None) -> None:
        self.seconds: dict[str, list[float]] = {}
        self._on_back = on_back
        self._missing: list[_Missing] = []
        self._known: set[str] = set()  # heartbeats seen at work
        self._learner_since: int | None = None  # version with which the learner's current incarnation began

    def is_missing(self, role: str) -> bool:
        """Return whether a process of `role` was killed and has not returned."""
        return any(each.role == role for each in self._missing)

    @property
    def any_missing(self) -> bool:
        """Return whether any role has not returned."""
        return bool(self._missing)

    def learner_has_stepped(self, seen: Observation) -> bool:
        """Return whether the learner has finished a step since its start or return."""
        return self._learner_since is not None and seen.version > self._learner_since

    def killed(self, role: str, seen: Observation) -> None:
        """Count a process of `role` as killed just after `seen` was taken."""
        self.look(seen)
        if role == LEARNER:
            self._learner_since = None
        self._missing.append(
            _Missing(
                role, time.monotonic(), int(time.time() * 1000), seen.starting, set(WANTS.get(role, (role,)))
            )
        )

    def look(self, seen: Observation) -> None:
        """Detect which roles have returned."""
        new = [(role, beat) for role, beats in seen.ready.items() for beat in sorted(beats - self._known)]
        for role, beat in new:
            self._known.add(beat)
            for missing in self._missing:
                # One return, of the role missing longest.
                if role in missing.wants and beat not in missing.before:
                    missing.wants.discard(role)
                    break
        for missing in self._missing:
            if missing.role == REDIS and seen.redis_answers:
                missing.wants.clear()
            if missing.role == LEARNER and seen.announced_ms > missing.killed_ms:
                missing.wants.clear()
        for missing in [each for each in self._missing if not each.wants]:
            self._missing.remove(missing)
            self._count(missing, seen)
        if self._learner_since is None and seen.version >= 0 and not self.is_missing(LEARNER):
            self._learner_since = seen.version

    def summary(self) -> dict[str, dict[str, float]]:
        """Return the median and the maximum of each role's seconds."""
        return {
            role: {"median": round(statistics.median(seconds), 2), "largest": round(max(seconds), 2)}
            for role, seconds in sorted(self.seconds.items())
        }

    def _count(self, missing: _Missing, seen: Observation) -> None:
        if missing.role == LEARNER:
            self._learner_since = seen.version
        seconds = time.monotonic() - missing.since
        self.seconds.setdefault(missing.role, []).append(seconds)
        self._on_back(missing.role, seconds)
