"""Groups that wait for a scorer on a real Redis, and an RQ worker in the test's own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import redis
from msgspec.structs import replace
from rq.job import Job
from rq.serializers import JSONSerializer

from broker import codec
from broker.connection import RedisLink
from broker.joining import Joined
from broker.keys import GROUP, ROLLOUTS, Keys
from broker.messages import JsonObject, SampledGroup, Score, ScoredGroup, ScoreStatus
from broker.monitoring.counters import ProcessTally
from broker.monitoring.heartbeat import Heartbeat
from broker.processes import spawn
from broker.protocol.streams import entries_of, hand_over
from config.loading import to_yaml
from config.run import Run
from scorers.__main__ import main
from scorers.pool import job as jobs
from scorers.pool.dispatcher import Dispatcher
from scorers.pool.rq_queues import RqQueues, ScoringWorker
from tests.broker.conftest import Board
from tests.support.forked_program import fork_main
from tests.support.groups import a_rollout
from tests.support.waiting import wait_until

SLEEPER = {"type": "custom", "import_path": "tests.support.sleeper:Sleeper"}
RIGHT, HANGING = "\\boxed{4}", "\\boxed{9^{9^{9}}}"


def make_run(**sections: Any) -> Run:
    """Return a run of one worker, with leases that no test outlives unless it wants to."""
    plain = {"name": "test", "model": {"path": "nowhere"}, "data": {"train": {"type": "procedural"}}}
    return Run.model_validate(plain | {"scorers": {"workers": 1}} | sections)


def scored(rollout: SampledGroup, worker: str) -> ScoredGroup:
    """Call every completion right."""
    score = Score(status=ScoreStatus.SCORED, value=1.0, reason="as scripted", scorer="scripted", version="1")
    n = len(rollout.completions)
    return ScoredGroup(rollout=rollout, scores=(score,) * n, rewards=(1.0,) * n, worker=worker, seconds=0.0)


@dataclass(frozen=True)
class Scorers:
    """A process under test and what it has said."""

    process: subprocess.Popen[bytes]
    log: Path

    def until(self, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        wait_until(condition, within_s=timeout_s, log=self.log.read_text)


class ScriptedScorer:
    """A `GroupScorer` that calls `before` for each group and then finds everything right."""

    def __init__(self, before: Callable[[SampledGroup], None] = lambda _: None) -> None:
        self.before = before
        self.seen: list[str] = []
        self.how: list[dict[str, Any]] = []  # patience_s and queue
        self.tally = ProcessTally()

    def score(self, rollout: SampledGroup, worker: str, **how: Any) -> ScoredGroup:
        self.how.append(how)
        self.seen.append(rollout.prompt.group_id)
        self.before(rollout)
        return scored(rollout, worker)

    def close(self) -> None:
        """Nothing to end."""


class _WithoutChannel(ScoringWorker):
    """RQ's channel for remote commands takes a second to close."""

    def subscribe(self) -> None:
        """Open none."""


class Station(Board):
    """A run's groups between the generators and the learner."""

    def __init__(self, link: RedisLink, keys: Keys, run: Run) -> None:
        super().__init__(link, keys)
        self.joined = Joined(run, link, keys)
        self.rq_queues = RqQueues(link.client, keys)
        link.client.hset(keys("run"), mapping={"config": to_yaml(run), "status": "running"})

    def roll_out(self, *ids: int, text: str = RIGHT, texts: Sequence[str] = (), **changes: Any) -> list[str]:
        """Issue the next ordinals and sample them: `texts`, or twice `text`. Returns their entries.

        `changes` are in their prompts.
        """
        texts = texts or (text, text)
        self.issue(*ids)
        for number in ids:
            entry = self.entry(str(number))
            if info := changes.get("verification_info"):
                changes["verification_info"] = JsonObject(info)
            prompt = replace(codec.decode_prompt(entry.raw), n=len(texts), **changes)
            first = a_rollout().completions[0]
            completions = tuple(replace(first, text=text) for text in texts)
            fields = codec.encode_rollout(replace(a_rollout(), prompt=prompt, completions=completions))
            assert hand_over(self.link, self.keys, entry, ROLLOUTS, fields)
        return [self.entry(str(number)).entry_id for number in ids]

    def age(self, *entry_ids: str) -> None:
        """Let entries have been idle for an hour."""
        key = self.keys(ROLLOUTS)
        self.link.client.xclaim(key, GROUP, jobs.CONSUMER, 0, list(entry_ids), idle=3_600_000, justid=True)

    def queued(self) -> list[list[str]]:
        queues = self.rq_queues.queues.values()
        return [self.entries_of(job_id) for queue in queues for job_id in queue.get_job_ids()]

    def queued_entries(self) -> list[str]:
        return list(chain.from_iterable(self.queued()))

    def entries_of(self, job_id: str) -> list[str]:
        job = Job.fetch(job_id, connection=self.link.client, serializer=JSONSerializer)
        return list(job.args[0])

    @contextmanager
    def dispatcher(self) -> Iterator[Dispatcher]:
        """Return a dispatcher that does what it is told."""
        heartbeat = Heartbeat(self.link, self.keys, "dispatcher", "d")
        try:
            yield Dispatcher(self.joined, heartbeat)
        finally:
            heartbeat.stop()

    def begun(self) -> dict[str, int]:
        """Return how often work began on each group that has been delivered and not handed over."""
        key = self.keys(ROLLOUTS)
        names = {entry.entry_id: entry.group_id for entry in entries_of(ROLLOUTS, self.client.xrange(key))}
        pending: Any = self.client.xpending_range(key, GROUP, "-", "+", 100)
        found = {item["message_id"].decode(): item["times_delivered"] for item in pending}
        # One delivery is the dispatcher's own.
        return {names[entry_id]: times - 1 for entry_id, times in found.items() if entry_id in names}

    def deliver(self) -> None:
        """Have a dispatcher deliver what is new."""
        with self.dispatcher() as dispatcher:
            dispatcher.hold(dispatcher.rollouts.read_new(64, block_s=0))
            dispatcher.deliver_all()

    def sweep(self) -> None:
        """Have a dispatcher look for lost jobs."""
        with self.dispatcher() as dispatcher:
            dispatcher.sweep()
            dispatcher.deliver_all()

    def work(
        self,
        scorer: Any,
        *,
        name: str = "w",
        stop: threading.Event | None = None,
        but: str | None = None,
        in_order: Callable[[Sequence[Any]], Sequence[Any]] = list,
    ) -> None:
        """Have a real RQ worker do all jobs of every queue `but` one; with `stop`, until it ends by itself."""
        connection = redis.Redis.from_url(self.link.url)
        heartbeat = Heartbeat(self.link, self.keys, "scorer", name)
        stopping = stop or threading.Event()
        worker = jobs.Worker(self.joined, scorer, name, heartbeat, stopping)
        rq_worker = _WithoutChannel(
            [queue for served, queue in self.rq_queues.queues.items() if served != but],
            name=name,
            connection=connection,
            serializer=JSONSerializer,
            stop=stopping,
            in_order=in_order,
        )
        handlers = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]
        jobs.bind(worker)
        try:
            rq_worker.work(burst=stop is None, logging_level="WARNING")
        finally:
            for number, handler in handlers:
                signal.signal(number, handler)
            worker.close()
            heartbeat.stop()
            connection.close()

    def start(self, folder: Path, *words: str, is_real: bool = False) -> Scorers:
        """Start `python -m scorers --run test` with more words: as a fork of this process, or as users do."""
        log = folder / f"scorers-{len(list(folder.iterdir()))}.log"
        words = ("--run", "test", *words)
        env = {**os.environ, "REDIS_URL": self.link.url}
        with log.open("wb") as stream:
            if is_real:
                process = spawn([sys.executable, "-m", "scorers", *words], stderr=stream, env=env)
            else:
                process = fork_main(main, words, stderr=stream, env=env)
        return Scorers(process, log)

    def jobs_at_work(self) -> set[str]:
        """Ids of the jobs that living workers are at."""
        return self.rq_queues.current(self.rq_queues.living_workers())

    def dead_letter(self, group_id: str) -> dict[str, str]:
        entry = self.entry(group_id)
        assert entry.stream == "dead"
        return {name.decode(): value.decode(errors="replace") for name, value in entry.raw.items()}
