"""Measure the share of its time that a process works, in sums that only grow, so that two readings give rates.

In: what the process works on now, and what its idle capacity waits for. Out: fields of its heartbeat. Between two
readings, the growth of `busy_s` over the growth of `up_s` is the share of time at work. Both are seconds of the
process's own clock, so machines need not agree on the time. A restarted process begins at 0.

    up_s       seconds since the process was ready to work
    busy_s     of these, seconds at work; for a process that works on several things at once, capacity in use
    idle_s     seconds since it became idle, waiting for the same thing; 0 while it works
    wait_X_s   the rest of `up_s`, by what it waited for
    kept_s     group-seconds that groups were held without work on them
    groups ... work done, as given to `count`
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

# What a meter may hold; readers of a heartbeat parse these as numbers.
SUMS = ("up_s", "busy_s", "idle_s", "kept_s")
WAITS = ("prompts", "episodes", "weights", "rollouts", "groups", "late", "round", "publishing", "operator")
UNITS = (
    "groups",
    "tokens",
    "turns",
    "prompt_tokens",
    "prefix_hits",
    "steps",
    "age_prompts_s",
    "age_sampling_s",
    "age_rollouts_s",
    "age_scoring_s",
    "age_scored_s",
)
# Further numbers that agents report of their episodes.
PLAYED = (
    "tool_calls",
    "tool_errors",
    "tokens_sampled",
    "tokens_observed",
    "breaks",
    "environment_s",
    "queue_s",
    "sampling_s",
    "overridden",
    "auxiliary",
    "replayed",
    "replayed_s",
)
COUNTERS = frozenset((*SUMS, *(f"wait_{what}_s" for what in WAITS), *UNITS, *PLAYED))


def as_fields(sums: Mapping[str, float]) -> dict[str, str]:
    """Return the sums as text, seconds to the millisecond."""
    return {name: f"{value:.3f}" if name.endswith("_s") else f"{value:.0f}" for name, value in sums.items()}


class WorkMeter:
    """The work meter of one process. Any thread may call it.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._share = self._kept = 0.0
        self._waits_for = ""
        self._sums: dict[str, float] = {}  # empty until the first `hold`: not ready yet
        self._units: dict[str, float] = {}
        self._counted = self._idle_since = clock()

    def hold(self, share: float, waits_for: str = "", *, kept: int = 0) -> None:
        """Note that from now on `share` of the capacity works, from 0 to 1, and the rest waits for one of WAITS.

        Args:
            kept: groups held meanwhile that wait for others.
        """
        with self._lock:
            self._count_time()
            if not self._sums or waits_for != self._waits_for:
                self._idle_since = self._counted
            self._share, self._waits_for, self._kept = share, waits_for, kept
            self._sums.setdefault("up_s", 0.0)

    def count(self, **units: float) -> None:
        """Add to the counts of UNITS."""
        with self._lock:
            for name, number in units.items():
                self._units[name] = self._units.get(name, 0.0) + number

    @property
    def is_ready(self) -> bool:
        """Return whether the process has begun to work, or to wait for work."""
        with self._lock:
            return bool(self._sums)

    @property
    def idle_s(self) -> float:
        """Return the seconds without work, 0 at work; before the process is ready, the seconds since its start."""
        with self._lock:
            return 0.0 if self._share > 0 else self._clock() - self._idle_since

    def read(self) -> Mapping[str, float]:
        """Return the sums now; empty until the process is ready."""
        with self._lock:
            self._count_time()
            if not self._sums:
                return {}
            idle_s = 0.0 if self._share > 0 else self._counted - self._idle_since
            return {"busy_s": 0.0, **self._sums, "idle_s": idle_s, **self._units}

    def _count_time(self) -> None:
        now = self._clock()
        passed, self._counted = now - self._counted, now
        if not self._sums:
            return
        parts = {
            "up_s": 1.0,
            "busy_s": self._share,
            "kept_s": self._kept,
            f"wait_{self._waits_for}_s": 1 - self._share,
        }
        for name, share in parts.items():
            if share > 0 and name != "wait__s":
                self._sums[name] = self._sums.get(name, 0.0) + share * passed
        if self._share > 0:
            self._idle_since = now
