"""Count the work of a run's scorers, by queue and scorer.

In: counts of a scorer's process, after each group. Out: the hash `scorers`, whose fields are `QUEUE COUNTER SCORER`; a
`ScorerStats` for each queue and scorer. Scorers add to it; `broker.monitoring.snapshot` and the dispatcher read it.
Only the size of a job depends on these counts, so they are best effort: a failed write is repeated later, and a killed
process loses the counts it had not written.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis

from broker.keys import Keys

log = logging.getLogger(__name__)

WRITE_EVERY_S = 1.0
FAILED = "failed:"  # followed by the kind of a failure
COUNTERS = frozenset(
    {"groups", "completions", "unscorable", "over_limit", "retries", "cache_hits", "cache_misses"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerStats:
    """The counts of one scorer in one queue since the run began."""

    queue: str
    scorer: str
    groups: int = 0
    completions: int = 0  # of these groups, duplicates included
    unscorable: int = 0  # of the completions
    over_limit: int = 0  # completions that are zero because they exceeded their own limits
    retries: int = 0  # tries after a failure of the machinery
    failures: Mapping[str, int]  # of the machinery, by error name
    cache_hits: int = 0  # questions to a served model that the cache answered
    cache_misses: int = 0  # questions that it did not
    seconds: float = 0.0  # spent on these groups, waits before retries included

    @property
    def scored(self) -> int:
        """Return the number of completions that got a value."""
        return self.completions - self.unscorable

    @property
    def cache_hit_rate(self) -> float | None:
        """Return the share of questions that the cache answered; None where none was asked."""
        asked = self.cache_hits + self.cache_misses
        return self.cache_hits / asked if asked else None

    @property
    def seconds_a_group(self) -> float:
        """Return the mean seconds per group; 0 before the first group."""
        return self.seconds / self.groups if self.groups else 0.0

    @property
    def seconds_a_completion(self) -> float:
        """Return the mean seconds per completion; 0 before the first."""
        return self.seconds / self.completions if self.completions else 0.0


class ProcessTally:
    """The counts of one process, written to Redis periodically. For one thread."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._written = time.monotonic()

    def count(self, queue: str, scorer: str, counts: Mapping[str, int], *, seconds: float = 0.0) -> None:
        """Add to the counters of a scorer; `counts` by the names in `ScorerStats`, failures as `failed:KIND`."""
        for counter, number in counts.items():
            if number:
                self._counts[_field(queue, counter, scorer)] += number
        if seconds:
            field = _field(queue, "seconds", scorer)
            self._seconds[field] = self._seconds.get(field, 0.0) + seconds

    def write(self, client: redis.Redis, keys: Keys, *, is_due: bool = False) -> None:
        """Add to the run's counters, if the last write is old enough or `is_due`. Raises no error of Redis."""
        if not (self._counts or self._seconds):
            return
        now = time.monotonic()
        if not is_due and now - self._written < WRITE_EVERY_S:
            return
        self._written = now
        try:
            with client.pipeline(transaction=False) as pipe:
                for field, number in self._counts.items():
                    pipe.hincrby(keys.scorers, field, number)
                for field, seconds in self._seconds.items():
                    pipe.hincrbyfloat(keys.scorers, field, seconds)
                pipe.execute()
        except redis.RedisError as error:
            log.warning("tally_kept error=%s; it is written with the next one", error)
            return
        self._counts.clear()
        self._seconds.clear()


def scorer_stats(found: Mapping[bytes, bytes]) -> tuple[ScorerStats, ...]:
    """Turn the hash `scorers` into one `ScorerStats` for each queue and scorer, sorted by both.

    Unknown counters are skipped: a newer scorer's counters stop no dispatcher and no console.
    """
    counters: dict[tuple[str, str], dict[str, Any]] = {}
    for field, value in found.items():
        try:
            queue, counter, scorer = field.decode(errors="replace").split(" ", 2)
            number = float(value) if counter == "seconds" else int(value)
        except ValueError:
            continue
        stats = counters.setdefault((queue, scorer), {"failures": {}})
        if counter.startswith(FAILED):
            stats["failures"][counter.removeprefix(FAILED)] = number
        elif counter in COUNTERS or counter == "seconds":
            stats[counter] = number
    return tuple(
        ScorerStats(queue=queue, scorer=scorer, **stats)
        for (queue, scorer), stats in sorted(counters.items())
    )


def read_stats(client: redis.Redis, keys: Keys) -> tuple[ScorerStats, ...]:
    """Read the counters of a run."""
    found: dict[Any, Any] = client.hgetall(keys.scorers)
    return scorer_stats(found)


def _field(queue: str, counter: str, scorer: str) -> str:
    return f"{queue} {counter} {scorer}"
