"""What `millrace up` shows of a run: Redis' view of it and the learner's own numbers, read by a thread beside the loop.

In: `broker.monitoring.snapshot.snapshot` and new lines of metrics.jsonl, about once a second. Out: the newest `View`.
While Redis is away the view keeps what was seen last and says that it is old.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.monitoring.snapshot import Snapshot, snapshot
from learner.reporting.metrics_file import is_step
from tools.run_view.finding import over as verdict_over
from tools.run_view.log_tail import LogTail

LOOK_EVERY_S = 1.0
RATE_LOOKS = 10  # that a rate is a mean of


@dataclass(slots=True, kw_only=True)
class View:
    """A run as it was seen last."""

    snapshot: Snapshot | None = None  # None before the first answer of Redis
    verdict: str = ""  # what holds the run up
    seen_at: float = 0.0  # monotonic seconds of it
    rates: dict[tuple[str, str], float] = field(
        default_factory=dict
    )  # completions/s lately, by queue and scorer
    last_step: dict[str, Any] = field(default_factory=dict)
    rewards: list[float] = field(default_factory=list)  # mean of each step
    pass_rates: list[tuple[int, float]] = field(default_factory=list)  # (version, rate)

    @property
    def age_s(self) -> float:
        """Seconds since Redis answered."""
        return time.monotonic() - self.seen_at


class Progress:
    """Follows the run `name` until `stop`."""

    def __init__(self, redis_url: str, name: str, folder: Path) -> None:
        self.view = View()
        self._name = name
        self._client = redis.Redis.from_url(
            redis_url, socket_timeout=2.0, socket_connect_timeout=2.0, retry=Retry(NoBackoff(), 0)
        )
        self._metrics = LogTail(folder / "metrics.jsonl")
        self._looks: deque[tuple[float, Snapshot]] = deque(maxlen=RATE_LOOKS)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join(timeout=5.0)
        self._client.close()

    def _follow(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            for line in self._metrics.new_lines():
                with contextlib.suppress(ValueError):
                    self._count(json.loads(line))
            with contextlib.suppress(redis.RedisError):
                found = snapshot(self._client, self._name)
                self.view.snapshot, self.view.seen_at = found, time.monotonic()
                self._looks.append((self.view.seen_at, found))
                self.view.rates = rates(self._looks)
                self.view.verdict = verdict_over([look for _, look in self._looks])[0].text

    def _count(self, line: dict[str, Any]) -> None:
        if is_step(line):
            self.view.last_step = line
            self.view.rewards.append(float(line["reward_mean"]))
        self.view.pass_rates += [
            (int(result["version"]), float(result["pass_rate"]))
            for result in line.get("evaluations", ())
            if result["pass_rate"] is not None
        ]


def rates(looks: Sequence[tuple[float, Snapshot]]) -> dict[tuple[str, str], float]:
    """Completions a second of each queue and scorer between the first of `looks` (monotonic seconds) and the last."""
    (began_at, before), (ended_at, now) = looks[0], looks[-1]
    if ended_at <= began_at:
        return {}
    known = {(stats.queue, stats.scorer): stats.completions for stats in before.scorers}
    return {
        place: (stats.completions - known.get(place, 0)) / (ended_at - began_at)
        for stats in now.scorers
        for place in [(stats.queue, stats.scorer)]
    }
