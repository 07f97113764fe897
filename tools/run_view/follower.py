"""Follow a run: take snapshots repeatedly, and keep the last one while Redis is away.

In: a run's name, its Redis and its folder. Out: a `RunView`. `millrace top` takes snapshots in its own loop, `millrace
up` in a thread. Only reads, survives every outage, and waits at most TIMEOUT_S for an answer.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.joining import ENDED
from broker.monitoring.snapshot import Snapshot, snapshot
from broker.redis_client import redis_client
from learner.reporting.metrics_file import is_step
from learner.status import read_status
from tools.run_view.finding import BottleneckFinding, finding_over
from tools.run_view.flow import Flow
from tools.run_view.log_tail import LogTail
from tools.runs.folder import pass_rates_of, read_run

TIMEOUT_S = 2.0
WINDOW_S = 20.0  # between the first and the last snapshot of a finding
NOT_ASKED = "it has not been asked yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """The last known state of a run."""

    name: str
    snapshot: Snapshot | None = None  # None before the first answer of Redis
    finding: BottleneckFinding = field(default_factory=lambda: BottleneckFinding(text=""))
    flow: Flow = field(default_factory=lambda: Flow(seconds=0.0, works=(), ages={}, shares={}))
    trouble: str = NOT_ASKED  # why Redis did not answer last time; "" where it did
    heard_at: float = field(default_factory=time.monotonic)  # monotonic seconds of Redis' last answer
    completions_per_s: Mapping[tuple[str, str], float] = field(default_factory=dict)  # by queue and scorer
    last_step: Mapping[str, Any] = field(default_factory=dict)  # the newest step's record of metrics.jsonl
    rewards: tuple[float, ...] = ()  # mean of each step
    pass_rates: tuple[tuple[int, float], ...] = ()  # (policy version, held-out pass rate)

    @property
    def silent_s(self) -> float:
        """Seconds since Redis answered, or since the follower started."""
        return time.monotonic() - self.heard_at


class RunFollower:
    """Take snapshots of the run `name`, and keep the newest view of it.

    Args:
        url: of the run's Redis.
        folder: of the run, possibly on another machine: if Redis is gone with the run, it has the run's end.
        window_s: between the first and the last snapshot of a finding.
        reads_metrics: whether the view includes new steps of `metrics.jsonl`.
    Raises:
        WrongBroker: `url` is not the URL of a Redis.
    """

    def __init__(
        self, url: str, name: str, folder: Path, *, window_s: float = WINDOW_S, reads_metrics: bool = False
    ) -> None:
        self.view = RunView(name=name)  # each look replaces it
        self._folder = folder
        self._window_s = window_s
        self._metrics = LogTail(folder / "metrics.jsonl") if reads_metrics else None
        self._looks: deque[Snapshot] = deque()
        self._client = client_of(url)

    def look(self) -> bool:
        """Take one snapshot. Returns False where Redis did not answer: the last view stays."""
        view = self._with_metrics(self.view)
        try:
            found = snapshot(self._client, view.name)
        except redis.RedisError as error:
            self.view = replace(view, trouble=f"{type(error).__name__}: {error}")
            return False
        self._keep(found)
        finding, flow = finding_over(list(self._looks))
        self.view = replace(
            view,
            snapshot=found,
            finding=finding,
            flow=flow,
            trouble="",
            heard_at=time.monotonic(),
            completions_per_s=completion_rates(self._looks[0], found),
        )
        return True

    @contextlib.contextmanager
    def keep_looking(self, every_s: float) -> Iterator[None]:
        """Let a thread take snapshots every `every_s` seconds within the block."""
        stop = threading.Event()

        def work() -> None:
            while not stop.wait(every_s):
                self.look()

        thread = threading.Thread(target=work, name="follower", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(timeout=5.0)

    def how_it_ended(self) -> str:
        """Return `finished`, or another status with its reason; "" where no end of the run is known here."""
        found = self.view.snapshot
        if found is not None and not self.view.trouble:
            return _ending(found.status, found.reason)
        status = read_status(self._folder)
        return _ending(str(status.get("status", "")), str(status.get("reason", "")))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _keep(self, found: Snapshot) -> None:
        """Add a snapshot, and drop those older than the window."""
        if self._looks and found.at < self._looks[-1].at:  # the clock was set back: not comparable
            self._looks.clear()
        self._looks.append(found)
        while len(self._looks) > 2 and found.at - self._looks[1].at >= self._window_s:
            self._looks.popleft()

    def _with_metrics(self, view: RunView) -> RunView:
        """Add the new lines of `metrics.jsonl` to the view."""
        for text in self._metrics.new_lines() if self._metrics is not None else ():
            with contextlib.suppress(ValueError, RecursionError):
                view = _with_line(view, json.loads(text))
        return view


def client_of(url: str) -> redis.Redis:
    """Return a client that answers or fails soon. Raises WrongBroker: `url` is not the URL of a Redis."""
    return redis_client(
        url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
    )


def ended_view(name: str, folder: Path) -> RunView | None:
    """Make the view of an ended run without Redis, from its folder; None where no end is known."""
    found = read_run(folder)
    if found.status not in ENDED:
        return None
    seen = Snapshot(
        status=found.status, reason=found.reason, version=found.version, steps=found.steps, at=found.at
    )
    finding, flow = finding_over([seen])
    return RunView(name=name, snapshot=seen, finding=finding, flow=flow, trouble="")


def completion_rates(before: Snapshot, now: Snapshot) -> dict[tuple[str, str], float]:
    """Return the completions per second of each queue and scorer between two snapshots; none without elapsed time."""
    if now.at <= before.at:
        return {}
    known = {(stats.queue, stats.scorer): stats.completions for stats in before.scorers}
    return {
        place: (stats.completions - known.get(place, 0)) / (now.at - before.at)
        for stats in now.scorers
        for place in [(stats.queue, stats.scorer)]
    }


def _with_line(view: RunView, line: Mapping[str, Any]) -> RunView:
    """Add one more line of `metrics.jsonl` to the view."""
    if is_step(line):
        view = replace(view, last_step=line, rewards=(*view.rewards, float(line["reward_mean"])))
    return replace(view, pass_rates=(*view.pass_rates, *pass_rates_of([line])))


def _ending(status: str, reason: str) -> str:
    return (f"{status}: {reason}" if reason else status) if status in ENDED else ""
