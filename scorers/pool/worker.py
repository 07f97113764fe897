"""This module runs one scorer process: an RQ worker that has passed its self-test.

In: jobs of the queues that the worker serves; a later queue has its turn when the earlier ones are empty, and groups
that were put off have theirs last, or first once they have waited for a minute. Out: what `scorers.pool.job` hands
over. Before the first job each scorer of these queues judges a right, a wrong and a hanging answer. A worker that can't
tell these apart takes no work; a worker whose sandbox server is away waits for the server.
On SIGTERM the worker ends after its current group, or hands that group back after the grace time. When Redis stays away
the worker ends by itself with code 1, and the pool starts it again.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Sequence
from functools import partial

from rq.serializers import JSONSerializer

from broker.errors import Retryable
from broker.joining import Joined
from broker.monitoring.heartbeat import Heartbeat
from broker.monitoring.stall_warning import FIRST_S as LONG_WAIT_S
from broker.redis_client import redis_client
from config.run import API
from config.scorer_kinds import PUT_OFF_FROM, SLOW, QueueName, SlowQueue
from scorers.build import served
from scorers.group import GroupScorer
from scorers.pool import job
from scorers.pool.first_worker import report_ready
from scorers.pool.rq_queues import RqQueues, ScoringWorker
from scorers.reward_server.request_scorer import RequestScorer
from scorers.served_model.concurrency_limits import Shared

log = logging.getLogger(__name__)

WORKER_TTL_S = 60  # RQ's record of a worker that was killed
GRACE_S = 10.0  # for the current group, once a stop is asked for; the pool waits longer
SIGNAL_S = 1.0  # longest time from RQ's handling of a signal to ours
FIRST_PAUSE_S = 0.5  # before a self-test is tried again; doubled each time
LONGEST_PAUSE_S = 30.0


def run_worker(
    joined: Joined,
    name: str,
    stop: threading.Event,
    wanted: Sequence[QueueName] | None = None,
    *,
    leaves_slow: bool = False,
) -> int:
    """Serve the queues `wanted`, in that order, until stopped. Returns the exit code: 1 where RQ ended by itself.

    Args:
        joined: the run.
        name: unique among the run's processes.
        stop: set when the process is told to end.
        wanted: queues; None: all that the run's tasks use, the cheapest first.
        leaves_slow: whether groups that were put off are left to other workers, so that one always takes what is quick.
    Raises:
        NothingToServe: the run has no task in any of these queues.
        SelfTestFailed: a scorer does not tell right from wrong on this machine.
    """
    queues = served(joined.run.scorers, wanted)
    section, shared = joined.run.scorers, Shared(joined.link, joined.keys)
    scorer: GroupScorer
    if (
        joined.run.name == API
    ):  # a request is one answer, and has all the time that its scorer's section gives it
        scorer = RequestScorer(section, queues, shared=shared)
    else:
        scorer = GroupScorer(section, queues, shared=shared, deadline_of=joined.run.scoring_deadline_of)
    heartbeat = Heartbeat(
        joined.link,
        joined.keys,
        "scorer",
        name,
        ttl_s=joined.run.broker.lease_s,
        long_wait_s=math.inf if joined.run.name == API else LONG_WAIT_S,
    )
    try:
        if not _prove(scorer, name, heartbeat, stop):
            return 0
        log.info("self_test passed worker=%s queues=%s", name, ",".join(queues))
        report_ready()
        heartbeat.set_state("waiting for rollouts", queues=",".join(queues))
        worker = job.Worker(joined, scorer, name, heartbeat, stop)
        threading.Thread(target=_cut_short, args=(worker,), name="grace", daemon=True).start()
        last = (SLOW,) if PUT_OFF_FROM in queues and not leaves_slow else ()
        _serve(joined, worker, (*queues, *last), stop)
    finally:
        scorer.close()
        heartbeat.stop()
    if stop.wait(SIGNAL_S):
        return 0
    log.error("ended worker=%s: RQ gave up, most likely because redis was away", name)  # RQ has said why
    return 1


def _prove(scorer: GroupScorer, name: str, heartbeat: Heartbeat, stop: threading.Event) -> bool:
    """Pass the self-test; try again while something that the scorer needs is away. False: `stop` was set first.

    Raises:
        SelfTestFailed: see `run_worker`.
    """
    pause_s = FIRST_PAUSE_S
    while not stop.is_set():
        try:
            scorer.self_test()
        except Retryable as error:
            log.warning("waiting worker=%s pause_s=%.2f for=%s", name, pause_s, error)
            heartbeat.set_state(f"waiting for {error}")
        else:
            return True
        stop.wait(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return False


def _cut_short(worker: job.Worker) -> None:
    """Wait for the stop, give the worker's thread `GRACE_S` for its current group, then hand the group back and end."""
    worker.stop.wait()
    time.sleep(GRACE_S)
    log.warning("unfinished worker=%s after_s=%.0f: its group is handed back", worker.name, GRACE_S)
    worker.hand_back()
    worker.heartbeat.stop()
    os._exit(0)


def _serve(
    joined: Joined, worker: job.Worker, queues: Sequence[QueueName | SlowQueue], stop: threading.Event
) -> None:
    """Run the jobs of `queues` until RQ ends."""
    job.bind(worker)
    rq_queues = RqQueues(joined.link.client, joined.keys)
    # RQ has a connection of its own: it blocks for longer than the link's time-out.
    connection = redis_client(joined.link.url)
    rq_worker = ScoringWorker(
        [rq_queues.queues[queue] for queue in queues],
        name=worker.name,
        connection=connection,
        worker_ttl=WORKER_TTL_S,
        serializer=JSONSerializer,
        stop=stop,
        meter=worker.heartbeat.meter,
        in_order=partial(rq_queues.in_order, slow_wait_s=joined.run.slow_wait_s),
    )
    try:
        rq_worker.work(logging_level="WARNING")
    finally:
        worker.close()
