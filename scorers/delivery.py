"""RQ as this project uses it: a queue of entry ids in JSON, and workers whose deadlines are ours.

The stream is the truth and a job is only its delivery, so a lost or doubled job costs time and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import redis
from rq import Queue, SimpleWorker
from rq.serializers import JSONSerializer
from rq.timeouts import BaseDeathPenalty

from broker.keys import Keys
from scorers.jobs import FUNCTION, QUEUE

FAILURE_TTL_S = 300
NO_TIMEOUT = -1


class _NoAlarm(BaseDeathPenalty):
    """RQ's own limit is SIGALRM, which a library may disarm and a C call ignores. The scoring child's deadline is real."""

    def setup_death_penalty(self) -> None:
        """Set nothing up."""

    def cancel_death_penalty(self) -> None:
        """Take nothing down."""


class ScoringWorker(SimpleWorker):
    """An RQ worker that runs jobs in its own process: the scoring child is the one that may be killed."""

    death_penalty_class = _NoAlarm


class Delivery:
    """The run's queue, and who has which job."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self.queue = Queue(keys.queue(QUEUE), connection=client, serializer=JSONSerializer, default_timeout=NO_TIMEOUT)

    def enqueue(self, entry_ids: Sequence[str], first_group: str) -> str:
        """Put one job for `entry_ids` on the queue; the hash `jobs` names it before it can start. Returns its id.

        An id is new at each enqueue: RQ refuses one that it still knows, and the entry would wait for ever.
        """
        job_id = f"{self._keys.name}_{first_group}_{time.time_ns() // 1000}"
        self._client.hset(self._keys("jobs"), mapping=dict.fromkeys(entry_ids, job_id))
        self.queue.enqueue(FUNCTION, list(entry_ids), job_id=job_id, unique=True, result_ttl=0, failure_ttl=FAILURE_TTL_S,
                           job_timeout=NO_TIMEOUT)
        return job_id

    def carriers(self) -> dict[str, str]:
        """Entry -> id of the job that was last enqueued for it."""
        found: dict[Any, Any] = self._client.hgetall(self._keys("jobs"))
        return {entry.decode(): job.decode() for entry, job in found.items()}

    def forget(self, entry_ids: Sequence[str]) -> None:
        """Drop what `jobs` says of entries that are gone."""
        if entry_ids:
            self._client.hdel(self._keys("jobs"), *entry_ids)

    def waiting(self) -> set[str]:
        """Ids of the jobs in the queue's list."""
        return set(self.queue.get_job_ids())

    def living_workers(self) -> list[str]:
        """Names of the workers whose heartbeat is there. RQ's own record of a killed worker lies for minutes."""
        prefix = self._keys.alive("scorer", "")
        pattern = "".join(f"\\{char}" if char in "*?[]\\" else char for char in prefix) + "*"
        return [key.decode().removeprefix(prefix) for key in self._client.scan_iter(match=pattern, count=1000)]

    def current(self, workers: Sequence[str]) -> set[str]:
        """Ids of the jobs that `workers` are at."""
        found = (self._client.hget(f"{SimpleWorker.redis_worker_namespace_prefix}{name}", "current_job")
                 for name in workers)
        return {job.decode() for job in found if job}

    def age_s(self, job_id: str) -> float:
        """Seconds since the job was enqueued."""
        return time.time() - int(job_id.rsplit("_", 1)[1]) / 1e6
