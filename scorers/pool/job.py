"""The RQ job scores some groups.

In: entries of the stream `rollouts`, named by the job. Out: each group with its scores on `scored`, or on `dead` where
too few of its completions have one, by a hand-over of its own. Runs in every scorer worker. A crash loses nothing: the
entries are still in the stream, the dispatcher's sweep names them in a new job, and the hand-over makes a second run
harmless. Calls to other servers begin for all groups of a job before the first group is scored. A group of programs
with an answer that takes long is put off: it gets a job of its own in the queue `slow`, and is scored from the start
there. A worker that is told to end finishes its current group and hands the other groups of its job back.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from rq import get_current_job

from broker import codec
from broker.errors import Permanent, PipelineError, Retryable
from broker.joining import Joined
from broker.keys import ROLLOUTS, SCORED
from broker.messages import ScoredGroup
from broker.monitoring.crash_reports import dead_letter_exhausted
from broker.monitoring.heartbeat import Heartbeat
from broker.protocol.leases import Consumer, Renewer, hand_back_within
from broker.protocol.streams import Entry, read_entry
from config.run import API
from config.scorer_kinds import PUT_OFF_FROM, SLOW, WAITING
from scorers.build import queue_of
from scorers.group import GroupScorer
from scorers.pool.patience import Patience
from scorers.pool.rq_queues import RqQueues
from scorers.scorer import TakesLong

log = logging.getLogger(__name__)

CONSUMER = "scorers"  # of all workers: a job says who has an entry, and the hand-over whose result counts
# What time may mend. Every other error is a bug, and comes again the same way.
MACHINE = (PipelineError, OSError, MemoryError)
ERROR_CHARS = 200  # of an error in a line of the log
HAND_BACK_S = 2.0  # for Redis to take back the unfinished entries of a process that must end

_worker: Worker | None = None


class Worker:
    """A worker keeps what a scorer's process needs from job to job.

    Args:
        name: unique, HOST-PID-HEX; crash reports and `tries` know the process by this name.
        stop: set when the process is told to end.
    """

    def __init__(
        self, joined: Joined, scorer: GroupScorer, name: str, heartbeat: Heartbeat, stop: threading.Event
    ) -> None:
        self.joined = joined
        self.scorer = scorer
        self.name = name
        self.heartbeat = heartbeat
        self.stop = stop
        self.rollouts = Consumer(
            joined.link, joined.keys, ROLLOUTS, CONSUMER, lease_s=joined.run.broker.lease_s, worker=name
        )
        self.rest: Sequence[str] = ()  # entries of the current job, from the current one on
        # A client of the reward server waits for each answer: none of them gives way to others.
        self._patience = Patience(joined.run.scorers.patience_s if joined.run.name != API else None)
        self._rq_queues = RqQueues(joined.link.client, joined.keys)
        self._renewer = Renewer([self.rollouts])
        self._groups = 0

    def find(self, entry_id: str) -> Entry | None:
        """Read the entry of `rollouts` with that id; None if the entry is gone."""
        return read_entry(self.joined.link, self.joined.keys, ROLLOUTS, entry_id)

    def prefetch(self, entry_ids: Sequence[str]) -> None:
        """Begin the calls that the groups of a job will wait for, all at once; the groups are scored one by one.

        Nothing is claimed or ended here: an entry that can't be read, or a call that can't begin, fails in its turn.
        """
        for entry_id in entry_ids:
            try:
                if not self.stop.is_set() and (entry := self.find(entry_id)) is not None:
                    self.scorer.prefetch(codec.decode_rollout(entry.raw))
            except Exception as error:  # noqa: BLE001 - the error comes up again when its group is scored
                log.warning("not_begun entry=%s error=%r", entry_id, error)
                if isinstance(error, Retryable):  # Redis is away: one wait is enough
                    return

    def score(self, entry: Entry, *, is_slow: bool = False) -> None:
        """Score one group and hand it over to `scored`, or to `dead` with the reason; or put it off.

        Args:
            entry: the group's.
            is_slow: whether it was put off before, and now has all the time that its limits give it.
        """
        self.rollouts.hold(entry)
        attempts = self.rollouts.begin(entry)
        if attempts == 0:
            self.rollouts.release(entry)
            return
        rollout = self.rollouts.decode(entry, codec.decode_rollout)
        if rollout is None:
            return
        most = self.joined.run.broker.max_attempts
        if attempts > most:
            dead_letter_exhausted(
                self.rollouts, entry, attempts=attempts - 1, most=most, what="scorers began this group"
            )
            return
        self.heartbeat.set_state(f"scoring group {entry.group_id}", groups=str(self._groups))
        may_wait = not is_slow and queue_of(self.joined.run.scorers, rollout.prompt.task) == PUT_OFF_FROM
        try:
            scored = self.scorer.score(
                rollout,
                self.name,
                patience_s=self._patience.seconds if may_wait else None,
                queue=SLOW if is_slow else None,
            )
        except TakesLong as reason:
            self._put_off(entry, str(reason))
            return
        except Permanent as error:
            self.rollouts.dead_letter_entry(
                entry, reason=str(error), attempts=attempts, traceback=traceback.format_exc()
            )
            return
        if may_wait:
            self._patience.scored(len(scored.rewards))
        scored = replace(scored, scored_at=time.time(), attempts=attempts)
        least = self.joined.run.scorers.min_scored
        # A client of the reward server gets every result; nobody trains on them.
        if self.joined.run.name != API and (problem := too_few_scored(scored, least)) is not None:
            self.rollouts.dead_letter_entry(entry, reason=problem, attempts=attempts)
        else:
            counted = self.rollouts.hand_over(entry, SCORED, codec.encode_scored(scored))
            self._groups += counted
            self.heartbeat.meter.count(groups=counted)
        self.scorer.tally.write(self.joined.link.client, self.joined.keys)

    def _put_off(self, entry: Entry, reason: str) -> None:
        """Give the group a job of its own in the queue `slow`. A crash on the way leaves an entry without a job."""
        if self.rollouts.uncount(entry):
            log.info("put_off group=%s reason=%s", entry.group_id, reason)
            self._rq_queues.enqueue(SLOW, [entry.entry_id], entry.group_id)
            if self._patience.put_off():
                log.info("more_patience worker=%s seconds=%s", self.name, self._patience.seconds)
        self.rollouts.release(entry)

    def hand_back(self) -> None:
        """Hand back the current group and the others of its job. Never raises, since the process is about to end."""
        hand_back_within([lambda: self.rollouts.hand_back(self.rest)], HAND_BACK_S)

    def close(self) -> None:
        """Stop renewing leases."""
        self._renewer.stop()


def too_few_scored(group: ScoredGroup, share: float) -> str | None:
    """Say why a group can't be used: fewer than `share` of its completions, or none, have a score. None: it can."""
    total = len(group.rewards)
    scored = sum(reward is not None for reward in group.rewards)
    wanted = max(1, math.ceil(share * total))
    if scored >= wanted:
        return None
    first = next(
        score.reason for score, reward in zip(group.scores, group.rewards, strict=True) if reward is None
    )
    return (
        f"too few scored: {scored} of {total}, and scorers.min_scored={share:g} wants {wanted}; the first one "
        f"without a score: {first}"
    )


def bind(worker: Worker) -> None:
    """Give this process's jobs their worker: RQ calls a function by its name and can't hand one in."""
    global _worker  # noqa: PLW0603
    _worker = worker


def score_entries(entry_ids: Sequence[str]) -> None:
    """Score the groups of one job. One group's failure is no other's."""
    if _worker is None:
        raise RuntimeError(
            "this process runs scoring jobs without being a scorer: start it with python -m scorers"
        )
    job = get_current_job()
    origin = None if job is None else job.origin
    if len(entry_ids) > 1 and origin in [_worker.joined.keys.queue(queue) for queue in WAITING]:
        _worker.prefetch(entry_ids)
    is_slow = origin == _worker.joined.keys.queue(SLOW)
    for place, entry_id in enumerate(entry_ids):
        _worker.rest = entry_ids[place:]
        if _worker.stop.is_set():
            _worker.hand_back()
            break
        _score_entry(_worker, entry_id, is_slow=is_slow)
    _worker.rest = ()
    _worker.scorer.tally.write(_worker.joined.link.client, _worker.joined.keys, is_due=True)
    _worker.heartbeat.set_state("waiting for rollouts")


def _score_entry(worker: Worker, entry_id: str, *, is_slow: bool) -> None:
    """Score one entry of a job. Whatever goes wrong, even with Redis away, the next entry has its turn."""
    entry = None
    try:
        if (entry := worker.find(entry_id)) is not None:
            worker.score(entry, is_slow=is_slow)
    except Exception as error:
        is_bug = not isinstance(error, MACHINE)
        log.exception(
            "score_failed group=%s entry=%s error=%s; it is tried again %s",
            "?" if entry is None else entry.group_id,
            entry_id,
            _where(error),  # noqa: TRY401 - consoles show the first line alone
            "at once" if is_bug else "when its lease runs out",
        )
        if entry is not None:
            with contextlib.suppress(PipelineError):  # Redis is away: a dead letter would say a little less
                worker.rollouts.note_failure(entry, traceback.format_exc())
                if is_bug:
                    worker.rollouts.give_up(entry)
            worker.rollouts.release(entry)


def _where(error: Exception) -> str:
    """Write what an error says, and the file and line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:ERROR_CHARS]}{place}"
