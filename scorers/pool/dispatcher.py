"""The dispatcher leases entries of `rollouts` and puts RQ jobs for them on the queue of their cost.

In: new entries, and entries whose job is no more. Out: jobs that name one to `groups_per_job` entries of one queue. A
process of its own beside the workers; any number may run at once, in one consumer group under one name. The entry stays
where it is until its hand-over, so a dispatcher's death loses nothing and the generators know nothing of RQ.

A queue's list is kept short, a little more than its workers are about to take, and what comes meanwhile is held back:
so a job is made when it is wanted, of as many groups as wait by then. Held entries are leased like work; those that are
gone, because nobody waits for them any more, are let go.

What a worker that had to end has handed back is delivered again at once.

The sweep asks about what has been pending longer than the lease: in a queue's list, or a living worker's current job:
its lease begins anew; anything else: the next attempt.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace

from broker import codec
from broker.joining import Joined
from broker.keys import ROLLOUTS
from broker.monitoring.counters import read_stats
from broker.monitoring.heartbeat import Heartbeat
from broker.monitoring.stall_warning import FIRST_S as LONG_WAIT_S
from broker.protocol.consumer import Consumer
from broker.protocol.streams import Entry
from config.run import API
from config.scorer_kinds import QueueName
from scorers.pool.job import CONSUMER
from scorers.pool.rq_queues import RqQueues
from scorers.registry import WAITING, queue_of, queues_of

log = logging.getLogger(__name__)

BLOCK_S = 0.25  # for new entries, while nothing is held
HELD_BLOCK_S = 0.02  # and while something is: a worker may want a job by then
COUNT = 64
AHEAD = 2  # jobs in a queue's list for each of its workers
REQUESTS = 64  # of the reward server, each one text, that wait for a judge in one job
JOB_S = 0.25  # of work in a job: RQ's own 8 ms are little beside it, and nobody waits long for the last
LOOK_EVERY_S = 2.0  # at who serves what
SAY_EVERY_S = 10.0
HARD_AGE_S = 3600.0  # a job this old counts as lost, even where a worker seems to have it


class Dispatcher:
    """One dispatcher of a run."""

    def __init__(self, joined: Joined, heartbeat: Heartbeat) -> None:
        self.joined = joined
        self.heartbeat = heartbeat
        self.config = joined.run.scorers
        self.rollouts = Consumer(
            joined.link, joined.keys, ROLLOUTS, CONSUMER, lease_s=joined.run.broker.lease_s
        )
        self.rq_queues = RqQueues(joined.link.client, joined.keys)
        self.held: dict[QueueName, deque[Entry]] = {queue: deque() for queue in queues_of(self.config)}
        self._serving: Counter[str] = Counter()  # living workers by queue
        self._looked = 0.0
        self._swept = 0.0
        self._said = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Deliver until `stop` is set; then deliver all that is held, so that nothing waits for a lease to end."""
        every = self.joined.run.broker.lease_s / 3
        while not stop.is_set():
            if time.monotonic() - self._swept > every or self.rollouts.is_handed_back():
                self._swept = time.monotonic()
                self.rollouts.renew()
                self.let_go()
                self.sweep()
                self._say_aloud()
            waiting = any(self.held.values())
            self.hold(self.rollouts.read_new(COUNT, block_s=HELD_BLOCK_S if waiting else BLOCK_S))
            self.deliver()
            self._say()
        self.deliver_all()

    def hold(self, entries: Sequence[Entry]) -> None:
        """Keep entries, without their payloads, until their queue has room for a job."""
        for entry in entries:
            self.rollouts.hold(entry)
            task = codec.text(entry.raw, "task", "?")
            self.held[queue_of(self.config, task)].append(
                replace(entry, raw={b"group": entry.group_id.encode()})
            )

    def deliver_all(self) -> None:
        """Make jobs of all that is held, whether or not their queues have room."""
        for queue, entries in self.held.items():
            while entries:
                self._enqueue(queue, self._most(queue))

    def deliver(self) -> None:
        """Make jobs of what is held, as many as the queues have room for."""
        wanted = [queue for queue, entries in self.held.items() if entries]
        if not wanted:
            return
        if time.monotonic() - self._looked > LOOK_EVERY_S:
            self._looked = time.monotonic()
            self._serving = self.joined.link(lambda _: self.rq_queues.serving())
        costs = self._costs()
        for queue in wanted:
            workers = max(
                1, self._serving[queue]
            )  # the first to come finds work; a lost heartbeat stops nobody
            room = AHEAD * workers - self._jobs_waiting(queue)
            for _ in range(room):
                if waiting := len(self.held[queue]):
                    size = job_size(
                        waiting, workers, costs.get(queue), self._most(queue), is_waiting=queue == WAITING
                    )
                    self._enqueue(queue, size)

    def let_go(self) -> None:
        """Discard the held entries that are no longer leased: a job of them would be made for nothing."""
        self.held = {
            queue: deque(entry for entry in entries if self.rollouts.holds(entry))
            for queue, entries in self.held.items()
        }

    def sweep(self) -> None:
        """Hold entries again whose job is gone, and discard the names of jobs whose entry is gone."""
        link = self.joined.link
        carriers = link(lambda _: self.rq_queues.carriers())
        believed = link(lambda _: self.rq_queues.waiting())
        believed |= {
            job
            for job in link(lambda _: self.rq_queues.current(self.rq_queues.living_workers()))
            if self.rq_queues.age_s(job) < HARD_AGE_S
        }
        while idle := self.rollouts.take_over(COUNT):
            again = [entry for entry in idle if carriers.get(entry.entry_id) not in believed]
            for entry in again:
                log.warning(
                    "delivering_again group=%s job=%s", entry.group_id, carriers.get(entry.entry_id, "none")
                )
            self.hold(again)
        doubtful = [entry_id for entry_id, job in carriers.items() if job not in believed]
        link(lambda _: self.rq_queues.forget_gone(doubtful))

    def _most(self, queue: QueueName) -> int:
        """Groups of a job. The reward server's are one text each, and wait for a judge as well together as alone."""
        most = self.config.groups_per_job
        return max(most, REQUESTS) if queue == WAITING and self.joined.run.name == API else most

    def _enqueue(self, queue: QueueName, size: int) -> None:
        """One job of the first `size` entries that are held for the queue, or of what there is."""
        line = self.held[queue]
        entries = [line.popleft() for _ in range(min(size, len(line)))]
        ids = [entry.entry_id for entry in entries]
        self.joined.link(lambda _: self.rq_queues.enqueue(queue, ids, entries[0].group_id))
        for entry in entries:
            self.rollouts.release(entry)

    def _jobs_waiting(self, queue: QueueName) -> int:
        return self.joined.link(lambda _: len(self.rq_queues.queues[queue]))

    def _groups_delivered(self, queue: QueueName) -> int:
        return self.joined.link(lambda _: self.rq_queues.groups_waiting(queue))

    def _costs(self) -> dict[str, float]:
        """Mean seconds of a group in each queue, of those that have scored one."""
        found = self.joined.link(lambda client: read_stats(client, self.joined.keys))
        groups: Counter[str] = Counter()
        for stats in found:
            groups[stats.queue] += stats.groups
        return {
            queue: sum(stats.seconds for stats in found if stats.queue == queue) / number
            for queue, number in groups.items()
            if number
        }

    def _say(self) -> None:
        held = sum(map(len, self.held.values()))
        self.heartbeat.meter.hold(float(held > 0), "rollouts")
        self.heartbeat.say(f"{held} groups wait for a worker" if held else "waiting for rollouts")

    def _say_aloud(self) -> None:
        if time.monotonic() - self._said < SAY_EVERY_S:
            return
        self._said = time.monotonic()
        serving = self.joined.link(lambda _: self.rq_queues.serving())
        for name, entries in self.held.items():
            if serving[name]:
                continue
            if waiting := len(entries) + self._groups_delivered(name):
                log.warning(
                    "no_worker queue=%s groups=%d: start some with python -m scorers --run %s --queues %s",
                    self.rq_queues.queues[name].name,
                    waiting,
                    self.joined.run.name,
                    name,
                )


def job_size(
    waiting: int, workers: int, seconds_a_group: float | None, most: int, *, is_waiting: bool = False
) -> int:
    """Groups of the next job: `JOB_S` of work, at most `most`, and no more than leave some for every other worker.

    One, while nobody knows what a group costs: the first jobs are how that is found out. Groups that only
    wait for a judge (`is_waiting`) do so together, however long it takes: as many as there are for each worker.
    """
    share = max(1, min(most, waiting // workers))
    if is_waiting:
        return share
    return max(1, min(share, int(JOB_S / seconds_a_group))) if seconds_a_group else 1


def run_dispatcher(joined: Joined, name: str, stop: threading.Event) -> int:
    """Run a dispatcher until it is stopped. Returns the exit code."""
    heartbeat = Heartbeat(
        joined.link,
        joined.keys,
        "dispatcher",
        name,
        long_wait_s=math.inf if joined.run.name == API else LONG_WAIT_S,
    )
    try:
        Dispatcher(joined, heartbeat).run(stop)
    finally:
        heartbeat.stop()
    return 0
