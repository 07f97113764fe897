"""The dispatcher leases entries of `rollouts` and puts RQ jobs for them on the queue of their cost.

In: new entries, and entries whose job is gone. Out: jobs that name one to `groups_per_job` entries of one queue. A
dispatcher is a process of its own beside the workers. Any number of dispatchers may run at once, in one consumer group
under one name. An entry stays in its stream until its hand-over, so a dispatcher's death loses nothing, and generators
know nothing of RQ.

A queue's list is kept short, a little longer than its workers are about to take. Entries that come meanwhile are held
back. So a job is made when a worker is about to want it, of as many groups as wait by then, and at the earliest when a
burst of entries is over. Held entries are leased like work. Held entries that are gone, because nobody waits for them
any more, are discarded.

Entries that a worker has handed back, because it had to end, are delivered again at once.

The sweep looks at entries that have been pending for longer than the lease. If the entry's job is in a queue's list, or
is a living worker's current job, its lease begins anew. Otherwise the entry is delivered for its next attempt.
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
from broker.protocol.leases import Consumer
from broker.protocol.streams import Entry
from config.run import API
from config.scorer_kinds import WAITING, QueueName
from scorers.build import queue_of, queues_of
from scorers.pool.job import CONSUMER
from scorers.pool.rq_queues import RqQueues

log = logging.getLogger(__name__)

BLOCK_S = 0.25  # that a read waits for new entries, while none is held
HELD_BLOCK_S = 0.02  # the same while some are held: a worker may want a job by then
GATHER_S = 0.01  # entries come in bursts: jobs wait until this long after the last of one
BURST_S = 0.1  # longest wait for the end of a burst
COUNT = 64  # entries of one read
AHEAD = 2  # jobs in a queue's list for each of its workers
REQUESTS = 64  # of the reward server, each one text, that wait for another server in one job
JOB_S = 0.25  # of work in a job: RQ's own 8 ms are little beside it, and nobody waits long for the last group
LEAST_S = 0.016  # of work in a job, where so much waits: with less, RQ's own would be most of it
LOOK_EVERY_S = 2.0  # between two looks at the workers' queues
WARN_EVERY_S = 10.0  # of queues that no worker serves
HARD_AGE_S = 3600.0  # a job this old counts as lost, even where a worker seems to have it


class Dispatcher:
    """A dispatcher delivers the entries of one run."""

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
        self._warned = time.monotonic()
        self._unserved: set[QueueName] = set()  # queues that had groups and no worker at the last look

    def run(self, stop: threading.Event) -> None:
        """Deliver until `stop` is set, and then all that is held: no entry has to wait until its lease ends."""
        every = self.joined.run.broker.lease_s / 3
        while not stop.is_set():
            if time.monotonic() - self._swept > every or self.rollouts.is_handed_back():
                self._swept = time.monotonic()
                self.rollouts.renew()
                self.discard_gone()
                self.sweep()
                self._warn_of_unserved_queues()
            if any(self.held.values()):
                self.hold(self.rollouts.read_new_headers(COUNT, block_s=HELD_BLOCK_S))
            else:
                self._hold_burst(stop)
            self.deliver()
            self._set_state()
        self.deliver_all()

    def hold(self, entries: Sequence[Entry]) -> None:
        """Keep entries, without their payloads, until their queue has room for a job."""
        for entry in entries:
            self.rollouts.hold(entry)
            task = codec.text(entry.raw, "task", "?")
            self.held[queue_of(self.config, task)].append(
                replace(entry, raw={b"group": entry.group_id.encode()})
            )

    def _hold_burst(self, stop: threading.Event) -> None:
        """Wait for a first entry, and for those that come right after it: an engine ends groups together."""
        entries = self.rollouts.read_new_headers(COUNT, block_s=BLOCK_S)
        until = time.monotonic() + BURST_S
        while entries:
            self.hold(entries)
            # A client of the reward server waits for each answer.
            if self.joined.run.name == API or time.monotonic() > until or stop.wait(GATHER_S):
                break
            entries = self.rollouts.read_new_headers(COUNT, block_s=0)

    def deliver_all(self) -> None:
        """Make jobs of all that is held, whether or not their queues have room."""
        for queue, entries in self.held.items():
            while entries:
                self._enqueue(queue, self._most(queue))

    def deliver(self) -> None:
        """Make jobs of held entries, as many as the queues have room for."""
        wanted = [queue for queue, entries in self.held.items() if entries]
        if not wanted:
            return
        if time.monotonic() - self._looked > LOOK_EVERY_S:
            self._looked = time.monotonic()
            self._serving = self.joined.link(lambda _: self.rq_queues.serving())
        # At least one worker: the first worker to come finds work, and a lost heartbeat stops nothing.
        served = {queue: max(1, self._serving[queue]) for queue in wanted}
        rooms = {queue: AHEAD * served[queue] - self._jobs_waiting(queue) for queue in wanted}
        if max(rooms.values()) <= 0:
            return
        costs = self._costs()
        for queue, workers in served.items():
            for _ in range(rooms[queue]):
                if waiting := len(self.held[queue]):
                    size = job_size(
                        waiting, workers, costs.get(queue), self._most(queue), is_waiting=queue in WAITING
                    )
                    self._enqueue(queue, size)

    def discard_gone(self) -> None:
        """Discard the held entries that are no longer leased: their job would be made for nothing."""
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
        while idle := self.rollouts.take_over(COUNT, headers_only=True):
            again = [entry for entry in idle if carriers.get(entry.entry_id) not in believed]
            for entry in again:
                log.warning(
                    "delivering_again group=%s job=%s", entry.group_id, carriers.get(entry.entry_id, "none")
                )
            self.hold(again)
        doubtful = [entry_id for entry_id, job in carriers.items() if job not in believed]
        link(lambda _: self.rq_queues.discard_gone(doubtful))

    def _most(self, queue: QueueName) -> int:
        """Return the most groups of a job. The reward server's are one text each, and can wait together."""
        most = self.config.groups_per_job
        return max(most, REQUESTS) if queue in WAITING and self.joined.run.name == API else most

    def _enqueue(self, queue: QueueName, size: int) -> None:
        """Make one job of the first `size` entries that are held for the queue, or of all if there are fewer."""
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
        """Measure the mean seconds of a group, for each queue whose workers have scored one."""
        found = self.joined.link(lambda client: read_stats(client, self.joined.keys))
        groups: Counter[str] = Counter()
        for stats in found:
            groups[stats.queue] += stats.groups
        return {
            queue: sum(stats.seconds for stats in found if stats.queue == queue) / number
            for queue, number in groups.items()
            if number
        }

    def _set_state(self) -> None:
        held = sum(map(len, self.held.values()))
        self.heartbeat.meter.hold(float(held > 0), "rollouts")
        self.heartbeat.set_state(f"{held} groups wait for a worker" if held else "waiting for rollouts")

    def _warn_of_unserved_queues(self) -> None:
        if time.monotonic() - self._warned < WARN_EVERY_S:
            return
        self._warned = time.monotonic()
        serving = self.joined.link(lambda _: self.rq_queues.serving())
        before, self._unserved = self._unserved, set()
        for name, entries in self.held.items():
            if serving[name] or not (waiting := len(entries) + self._groups_delivered(name)):
                continue
            self._unserved.add(name)
            if name in before:  # a worker that is starting has been given the time of one look
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
    """Choose the number of groups of the next job.

    Args:
        waiting: groups that wait for a worker of this queue.
        workers: of this queue; each is left its share of these groups.
        seconds_a_group: mean time of a group in this queue; None: not known, and then a job has one group, so that its
            cost is found out.
        most: groups of one job.
        is_waiting: whether groups of this queue only wait for another server. Then a worker gets its whole share; else
            the job has `LEAST_S` to `JOB_S` of work.
    """
    share = max(1, min(most, waiting // workers))
    if is_waiting:
        return share
    if not seconds_a_group:
        return 1
    least = min(most, waiting, math.ceil(LEAST_S / seconds_a_group))
    return max(1, least, min(share, int(JOB_S / seconds_a_group)))


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
