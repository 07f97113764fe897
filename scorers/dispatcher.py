"""Deliver: lease entries of `rollouts` and put RQ jobs for them on the queue.

In: new entries, and entries whose job is no more. Out: jobs that name one to `groups_per_job` entries. A process of its
own beside the workers; any number may run at once, in one consumer group under one name. The entry stays where it is
until its hand-over, so a dispatcher's death loses nothing and the generators know nothing of RQ.

The sweep asks about what has been pending longer than the lease: in the queue's list, or a living worker's current job:
its lease begins anew; anything else: the next attempt.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from broker.alive import Heartbeat
from broker.joining import Joined
from broker.keys import ROLLOUTS
from broker.streams import Consumer, Entry
from scorers.delivery import Delivery
from scorers.jobs import CONSUMER

log = logging.getLogger(__name__)

BLOCK_S = 0.25
COUNT = 64
SAY_EVERY_S = 10.0
HARD_AGE_S = 3600.0         # a job this old is not believed in any more, whoever seems to have it


class Dispatcher:
    """One dispatcher."""

    def __init__(self, joined: Joined, heartbeat: Heartbeat) -> None:
        self.joined = joined
        self.heartbeat = heartbeat
        self.config = joined.run.scorers
        self.rollouts = Consumer(joined.link, joined.keys, ROLLOUTS, CONSUMER, lease_s=joined.run.broker.lease_s)
        self.delivery = Delivery(joined.link.client, joined.keys)
        self._swept = 0.0
        self._said = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Deliver until `stop` is set."""
        every = self.joined.run.broker.lease_s / 3
        while not stop.is_set():
            if time.monotonic() - self._swept > every:
                self._swept = time.monotonic()
                self.sweep()
                self._say_aloud()
            entries = self.rollouts.read_new(COUNT, block_s=BLOCK_S)
            self._deliver(entries)
            self.heartbeat.say("delivering" if entries else "waiting for rollouts")

    def sweep(self) -> None:
        """Put entries whose job is gone on the queue again, and forget jobs whose entry is gone."""
        link = self.joined.link
        carriers = link(lambda _: self.delivery.carriers())
        believed = link(lambda _: self.delivery.waiting())
        believed |= {job for job in link(lambda _: self.delivery.current(self.delivery.living_workers()))
                     if self.delivery.age_s(job) < HARD_AGE_S}
        while idle := self.rollouts.take_over(COUNT):
            again = [entry for entry in idle if carriers.get(entry.entry_id) not in believed]
            for entry in again:
                log.warning("delivering_again group=%s job=%s", entry.group_id, carriers.get(entry.entry_id, "none"))
            self._deliver(again)
        doubtful = [entry_id for entry_id, job in carriers.items() if job not in believed]
        link(lambda _: self.delivery.forget_gone(doubtful))

    def _deliver(self, entries: Sequence[Entry]) -> None:
        """One job for each handful of entries: fewer a job where few are waiting, so that no worker is idle."""
        size = max(1, min(self.config.groups_per_job, len(entries) // self.config.workers))
        for start in range(0, len(entries), size):
            self._enqueue(entries[start:start + size])

    def _enqueue(self, entries: Sequence[Entry]) -> None:
        ids = [entry.entry_id for entry in entries]
        self.joined.link(lambda _: self.delivery.enqueue(ids, entries[0].group_id))

    def _say_aloud(self) -> None:
        if time.monotonic() - self._said < SAY_EVERY_S:
            return
        self._said = time.monotonic()
        waiting = self.joined.link(lambda _: len(self.delivery.queue))
        if waiting and not self.joined.link(lambda _: self.delivery.living_workers()):
            log.warning("no_worker queue=%s jobs=%d: start some with python -m scorers --run %s",
                        self.delivery.queue.name, waiting, self.joined.run.name)


def run_dispatcher(joined: Joined, name: str, stop: threading.Event) -> int:
    """Deliver until stopped. Returns the exit code."""
    heartbeat = Heartbeat(joined.link, joined.keys, "dispatcher", name)
    try:
        Dispatcher(joined, heartbeat).run(stop)
    finally:
        heartbeat.stop()
    return 0
