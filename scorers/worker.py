"""One scorer process: an RQ worker that has passed its self-test.

In: jobs of the queues that it serves, those of the first as long as there are any. Out: what `scorers.jobs` hands over.
Before the first job each scorer of these queues judges a right, a wrong and a hanging answer; a worker that can't do
that takes no work. It ends on SIGTERM, after the job that it is at, and by
itself, with code 1, when Redis stays away; the pool starts it again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import redis
from rq.serializers import JSONSerializer

from broker.alive import Heartbeat
from broker.joining import Joined
from config.scorers import QueueName
from scorers import jobs
from scorers.delivery import Delivery, ScoringWorker
from scorers.group import GroupScorer
from scorers.registry import served

log = logging.getLogger(__name__)

WORKER_TTL_S = 60           # RQ's record of a worker that was killed
SIGNAL_S = 1.0              # longest time from RQ's handling of a signal to ours


def run_worker(joined: Joined, name: str, stop: threading.Event, wanted: Sequence[QueueName] | None = None) -> int:
    """Serve the queues `wanted`, in that order, until stopped. Returns the exit code: 1 where RQ ended by itself.

    Args:
        joined: the run.
        name: unique among the run's processes.
        stop: set when the process is told to end.
        wanted: queues; None: all that the run's tasks use, the cheapest first.
    Raises:
        NothingToServe: the run has no task in any of these queues.
        SelfTestFailed: a scorer does not tell right from wrong on this machine.
    """
    queues = served(joined.run.scorers, wanted)
    scorer = GroupScorer(joined.run.scorers, queues)
    scorer.self_test()
    log.info("self_test passed worker=%s queues=%s", name, ",".join(queues))
    heartbeat = Heartbeat(joined.link, joined.keys, "scorer", name, ttl_s=joined.run.broker.lease_s)
    worker = jobs.Worker(joined, scorer, name, heartbeat)
    jobs.bind(worker)
    delivery = Delivery(joined.link.client, joined.keys)
    connection = redis.Redis.from_url(joined.link.url)      # RQ's own: it blocks for longer than the link's time-out
    rq_worker = ScoringWorker([delivery.queues[queue] for queue in queues], name=name, connection=connection,
                              worker_ttl=WORKER_TTL_S, serializer=JSONSerializer, stop=stop)
    heartbeat.say("waiting for rollouts", queues=",".join(queues))
    try:
        rq_worker.work(logging_level="WARNING")
    finally:
        worker.close()
        heartbeat.stop()
    if stop.wait(SIGNAL_S):
        return 0
    log.error("ended worker=%s: RQ gave up, most likely because redis was away", name)       # RQ has said why
    return 1
