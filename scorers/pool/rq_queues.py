"""This module has RQ as this project uses it: queues of entry ids in JSON, and workers with this project's deadlines.

There is one queue for each class of cost. The stream is the truth and a job only delivers its entries, so a lost or
doubled job costs time and nothing else.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import redis
from rq import Queue, SimpleWorker
from rq.exceptions import DeserializationError
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.timeouts import BaseDeathPenalty

from broker.keys import ROLLOUTS, Keys
from broker.monitoring.snapshot import names_of
from broker.monitoring.work_meter import WorkMeter
from config.scorer_kinds import QUEUES, SLOW, QueueName, SlowQueue

log = logging.getLogger(__name__)

FUNCTION = "scorers.pool.job.score_entries"  # what every job runs
FAILURE_TTL_S = 300
CALLBACKS = ("success", "failure", "stopped")  # functions beside its own that a job may name
NO_TIMEOUT = -1
BEAT_EVERY_S = 10.0  # the record lasts for two minutes
GROUP_CHARS = 80  # of a group's id in a job's: a foreign entry's may be anything


class _NoAlarm(BaseDeathPenalty):
    """This class turns RQ's own limit off: a library may disarm SIGALRM, and a C call ignores it.

    The scoring child has a deadline of its own.
    """

    def setup_death_penalty(self) -> None:
        """Set nothing up."""

    def cancel_death_penalty(self) -> None:
        """Take nothing down."""


class ScoringWorker(SimpleWorker):
    """This RQ worker runs jobs in its own process: the scoring child is the process that may be killed.

    Args:
        stop: set by a signal that came before RQ's own handlers were there; these see every later signal.
        meter: told when the worker waits for a job and when it has one; RQ's time between two jobs counts as work.
        in_order: puts the worker's queues into the order for the next job.
    """

    death_penalty_class = _NoAlarm

    def __init__(
        self,
        *args: Any,
        stop: threading.Event,
        meter: WorkMeter | None = None,
        in_order: Callable[[Sequence[Queue]], Sequence[Queue]] = list,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._in_order = in_order
        self._stop_before = stop
        self._meter = meter or WorkMeter()
        self._beaten = -BEAT_EVERY_S

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Extend RQ's record of this worker as RQ does, but between jobs only now and then: RQ does it three times."""
        if timeout is None and pipeline is None:
            if time.monotonic() - self._beaten < BEAT_EVERY_S:
                return
            self._beaten = time.monotonic()
        super().heartbeat(timeout, pipeline)

    def dequeue_job_and_maintain_ttl(self, timeout: int | None, max_idle_time: int | None = None) -> Any:
        """Take a job as RQ does, and measure the wait: RQ waits nowhere else."""
        self._meter.hold(0.0, "rollouts")
        self._ordered_queues = list(self._in_order(self.queues))
        try:
            return super().dequeue_job_and_maintain_ttl(timeout, max_idle_time)
        finally:
            self._meter.hold(1.0)

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run a job as RQ does, if it names this project's function: RQ would run any function of this environment."""
        try:
            functions = [
                job.func_name,
                *filter(None, (getattr(job, f"_{when}_callback_name") for when in CALLBACKS)),
            ]
        except DeserializationError:  # written by another serializer, a pickle for instance
            functions = ["?"]
        if functions == [FUNCTION]:
            super().execute_job(job, queue)
            return
        log.error(
            "job_refused job=%s functions=%s: it is none of this project's",
            job.id,
            ",".join(map(str, functions)),
        )
        job.delete()

    def _install_signal_handlers(self) -> None:
        super()._install_signal_handlers()  # type: ignore[no-untyped-call]
        self._stop_requested = self._stop_before.is_set()


class RqQueues:
    """This object knows the run's queues, and which job has which entry."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self.queues: dict[QueueName | SlowQueue, Queue] = {
            name: Queue(
                keys.queue(name), connection=client, serializer=JSONSerializer, default_timeout=NO_TIMEOUT
            )
            for name in (*QUEUES, SLOW)
        }

    def enqueue(self, queue: QueueName | SlowQueue, entry_ids: Sequence[str], first_group: str) -> str:
        """Put one job for `entry_ids` on a queue; the hash `jobs` names the job before it can start. Returns its id.

        An id is new at each enqueue: RQ refuses an id that it still knows, and the entry would wait for ever.
        """
        group = re.sub(r"[^A-Za-z0-9_-]", "-", first_group)[:GROUP_CHARS]
        job_id = f"{self._keys.name}_{group}_{time.time_ns() // 1000}"
        self._client.hset(self._keys.jobs, mapping=dict.fromkeys(entry_ids, job_id))
        self.queues[queue].enqueue(
            FUNCTION,
            list(entry_ids),
            job_id=job_id,
            unique=True,
            result_ttl=0,
            failure_ttl=FAILURE_TTL_S,
            job_timeout=NO_TIMEOUT,
        )
        return job_id

    def in_order(self, queues: Sequence[Queue], slow_wait_s: float) -> Sequence[Queue]:
        """Put `slow` first where its oldest job has waited for longer than `slow_wait_s`: none waits for ever."""
        slow = self.queues[SLOW]
        if (
            slow not in queues
            or not (oldest := slow.get_job_ids(0, 1))
            or self.age_s(oldest[0]) < slow_wait_s
        ):
            return queues
        return [slow, *(queue for queue in queues if queue != slow)]

    def carriers(self) -> dict[str, str]:
        """Return, by entry, the id of the job that was last enqueued for it."""
        found: dict[Any, Any] = self._client.hgetall(self._keys.jobs)
        return {entry.decode(): job.decode() for entry, job in found.items()}

    def discard_gone(self, entry_ids: Sequence[str]) -> None:
        """Discard from `jobs` those of `entry_ids` that are gone: retired between lease and enqueue."""
        key = self._keys.stream(ROLLOUTS)
        if gone := [entry_id for entry_id in entry_ids if not self._client.xrange(key, entry_id, entry_id)]:
            self._client.hdel(self._keys.jobs, *gone)

    def waiting(self) -> set[str]:
        """Return the ids of the jobs in the queues' lists."""
        return {job for queue in self.queues.values() for job in queue.get_job_ids()}

    def groups_waiting(self, queue: QueueName) -> int:
        """Count the entries of the jobs in a queue's list."""
        jobs = set(self.queues[queue].get_job_ids())
        return sum(job in jobs for job in self.carriers().values())

    def serving(self) -> Counter[str]:
        """Count the living workers of each queue, as their heartbeats say."""
        found: list[Any] = [
            self._client.hget(self._keys.alive("scorer", name), "queues") for name in self.living_workers()
        ]
        return Counter(queue for queues in found if queues for queue in queues.decode().split(","))

    def living_workers(self) -> list[str]:
        """Return the names of workers with a heartbeat. RQ's own record shows a killed worker for minutes."""
        return names_of(self._client, self._keys.alive("scorer", ""))

    def current(self, workers: Sequence[str]) -> set[str]:
        """Return the ids of the current jobs of `workers`."""
        found: list[Any] = [
            self._client.hget(f"{SimpleWorker.redis_worker_namespace_prefix}{name}", "current_job")
            for name in workers
        ]
        return {job.decode() for job in found if job}

    def age_s(self, job_id: str) -> float:
        """Return the seconds since the job was enqueued."""
        return time.time() - int(job_id.rsplit("_", 1)[1]) / 1e6
