"""The learner's loop: take, journal, step, announce, commit.

In: scored groups. Out: new weights. Rank 0 runs it, and the other ranks get their shards through the
`TrainingBackend`. A crash between any two of these leaves a batch in Redis, in the journal, or in both, and it can be
trained from either. What the next groups have to start from is told before there is room for them. Where Redis turns
out to have forgotten something, whatever was being done is done again after `learner.resume.recovery`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from broker.errors import WentBack
from broker.group_ids import ordinal_of, retry_of
from broker.messages import ScoredGroup
from broker.protocol.run_owner import RunOwner
from config.run import Run
from learner.groups.collector import Collector
from learner.groups.evaluation import result_of
from learner.groups.feeder import Feeder
from learner.groups.intake import Intake
from learner.journal.writer import Journal
from learner.objective.advantages import group_advantages
from learner.reporting.latency import ages_of
from learner.reporting.metrics import Clock, Metrics, batch_facts, reward_mean
from learner.resume.recovery import Recovery
from learner.training.batch import Batch, pack
from learner.training.checkpoint import Checkpoints, Progress
from learner.training.skipped_steps import SkippedSteps
from learner.weight_sync.publisher import Publisher

if TYPE_CHECKING:
    from learner.training.backend import TrainingBackend

log = logging.getLogger(__name__)
T = TypeVar("T")

FINISHED, DRAINED, STOPPED = "finished", "drained", "stopped"


class TrainingLoop:
    """One life of the learner. Everything it needs is handed in; `learner.session` puts it together.

    Args:
        start: where training stands: version 0, or what a checkpoint and the journal's later steps make.
    """

    def __init__(
        self,
        run: Run,
        policy: TrainingBackend,
        *,
        ledger: Journal,
        intake: Intake,
        collector: Collector,
        feeder: Feeder,
        recovery: Recovery,
        checkpoints: Checkpoints,
        metrics: Metrics,
        publisher: Publisher,
        start: Progress,
    ) -> None:
        self.run_config = run
        self.policy = policy
        self.run_owner: RunOwner = intake.run_owner
        self.journal = ledger
        self.intake = intake
        self.collector = collector
        self.feeder = feeder
        self.recovery = recovery
        self.metrics = metrics
        self.publisher = publisher
        self.checkpoints = checkpoints
        self.version = start.version
        self._start = start
        self._clock = Clock()
        self._skipped = SkippedSteps(run.learner.max_skipped_steps)

    def train(self) -> str:
        """Train until the last step, or until an operator or a signal ends it: finished, drained or stopped."""
        self._recover()
        self._surviving(
            self.collector.hear
        )  # before the feeder: a run that is drained or paused lets nothing in
        self.feeder.start()
        self._surviving(self._evaluate_what_is_due)
        while self.version < self.run_config.learner.steps:
            groups = self._surviving(lambda: self.collector.take(self.version))  # waits; says for whom
            if groups is None:
                break
            self._step(groups)
        return self._surviving(self._finish)

    def _step(self, groups: list[ScoredGroup]) -> None:
        """One optimizer step on `groups`."""
        self._clock.lap("wait")
        ages = ages_of(groups, now=time.time())
        learner = self.run_config.learner
        advantages = [group_advantages(group.rewards, learner.advantage.scale) for group in groups]
        batch = pack(
            groups,
            advantages,
            tokens_per_micro_batch=learner.tokens_per_micro_batch,
            truncated=learner.filters.truncated,
            policy_version=self.version,
        )
        self._clock.lap("train")
        self.journal.append(self.version, groups, advantages, weights=self.publisher.checksum)
        self._clock.lap("journal")  # the step stands, whatever happens now
        stepped = self.policy.step(batch)
        self.version = self.intake.version = self.version + 1
        self._clock.lap("train")
        self._surviving(lambda: self._commit(groups))
        self.collector.meter.count(steps=1, groups=len(groups), **ages)
        self._report(groups, batch, stepped, ages)
        self._skipped.count(self.version, stepped)
        self._surviving(self._after_step)

    def _commit(self, groups: list[ScoredGroup]) -> None:
        """Announce the new version, then free the slots of what it was trained on."""
        self.journal.check_fence()
        self.publisher.publish_again(self.policy, self.version)  # before there is room for new groups
        self._clock.lap("publish")
        self.feeder.advance(self.version)  # and this, or more is issued than the rest can train
        self.collector.commit(groups)
        self.feeder.wake()

    def _surviving(self, act: Callable[[], T]) -> T:
        """Do `act`; where Redis turns out to have gone back, recover and do it again. So it must bear repeating."""
        while True:
            try:
                return act()
            except WentBack as error:
                log.warning("recovering reason=%s", error)
                self._recover()

    def _recover(self) -> None:
        """Bring Redis and the ledger together, however often Redis goes back meanwhile."""
        while True:
            self.journal.check_fence()
            try:
                self.recovery.recover(
                    self.version, lambda: self.publisher.publish_again(self.policy, self.version)
                )
            except WentBack as error:
                log.warning("recovering again reason=%s", error)
            else:
                return

    def _after_step(self) -> None:
        self._record_rounds()
        if self.version < self.run_config.learner.steps:
            self._evaluate_what_is_due()
        self._ask_again()
        if self.checkpoints.is_due(self.version) and self.version < self.run_config.learner.steps:
            self._save()
        self._clock.lap("other")

    def _finish(self) -> str:
        """The last evaluation, checkpoint and model; rounds that have not ended are given up, saying so.

        Where a signal comes first nothing is given up: what is out stays in Redis, and the next learner goes on.
        """
        is_done = self.version >= self.run_config.learner.steps
        is_last = is_done or self.collector.has_drained()
        if is_last:
            self._evaluate(wait=True)
            if not self.collector.is_stopped:
                self._give_up_rounds()
        self._record_rounds()
        self.feeder.stop()  # not earlier: a Redis that goes back wants open rounds issued again
        self._save()
        if not is_last or self.intake.rounds.open:
            return STOPPED
        self.policy.save_model(self.run_config.folder / "model")
        return FINISHED if is_done else DRAINED

    def _give_up_rounds(self) -> None:
        """Older rounds that are still open, with what has come by now."""
        while self.intake.rounds.open and self.intake.read(block_s=0):
            pass
        for current in self.intake.rounds.open.values():
            current.is_given_up = True

    def _save(self) -> None:
        """A checkpoint; what all checkpoints cover the journal may let go."""
        self.journal.check_fence()  # an older learner that wakes touches no checkpoint of the newer one
        self.metrics.flush()
        self.checkpoints.save(self.policy, self.progress())
        self.journal.retain(self.checkpoints.oldest_version() or 0)

    def progress(self) -> Progress:
        """Where a run from here would begin: with the oldest group that has no outcome."""
        oldest = min(
            (ordinal_of(group_id) for group_id in self.run_owner.slots() if retry_of(group_id) == 0),
            default=self.feeder.position,
        )
        steps = self.journal.ledger.steps
        return Progress(
            version=self.version,
            first_row=self._start.first_row + oldest,
            fingerprint=self.feeder.train.fingerprint,
            fence=steps[-1]["fence"] if steps else 0,
        )

    def _evaluate_what_is_due(self) -> None:
        """The first version, for whose round training waits, and then every so many."""
        every = self.run_config.evaluation.every
        if every and self.version % every == 0:
            self._evaluate(wait=self.version == 0)

    def _evaluate(self, *, wait: bool) -> None:
        """Ask for a round of the current version, unless the ledger has it."""
        if not self.run_config.evaluation.every or self.version in self.journal.ledger.evaluations:
            return
        if self.version not in self.intake.rounds.open:
            self.intake.rounds.begin(self.version, self.feeder.evaluation_ids(self.version))
            self.feeder.evaluate(self.version)
        if wait:
            self.collector.wait_for_round(self.version, self.feeder.evaluate)
            self._record_rounds()
            self._clock.lap("evaluate")

    def _ask_again(self) -> None:
        """A round past its deadline is asked for once more, then given up."""
        for current in list(self.intake.rounds.open.values()):
            if self.collector.overdue(current):
                if current.asked_again:
                    current.is_given_up = True
                else:
                    self.collector.ask_again(current, self.feeder.evaluate)

    def _record_rounds(self) -> None:
        """A round's record is its groups' outcome, so it is written before they are retired."""
        for current in self.intake.rounds.ended():
            if current.version not in self.journal.ledger.evaluations:
                result = result_of(current)
                if current.missing:
                    log.error(
                        "evaluation_incomplete version=%d missing=%d", current.version, len(current.missing)
                    )
                self.journal.evaluation(current.version, result)
                self.metrics.evaluation(current.version, result)
            self.run_owner.retire(current.ids)
            self.intake.rounds.close(current.version)

    def _report(
        self, groups: list[ScoredGroup], batch: Batch, stepped: dict[str, float], ages: dict[str, float]
    ) -> None:
        """One line for the step that was just committed."""
        seconds = self._clock.take()
        arrived, dropped = self.intake.take_arrivals()
        trained = reward_mean(groups)
        self.metrics.step(
            {
                "step": self.version,
                "reward_mean": trained if arrived is None else arrived,
                "reward_mean_trained": trained,
                **batch_facts(groups, batch),
                **{name: value for name, value in stepped.items() if name != "seconds"},
                "tokens": int(stepped["tokens"]),
                "dropped": sum(dropped.values()),
                "dropped_by_reason": dropped,
                "late_wait_seconds": round(self.collector.late_wait_s, 3),
                "lag_breaches": self.collector.breaches,
                "late_groups": self.collector.late,
                **{name: round(total / len(groups), 3) for name, total in ages.items()},
                "queues": self.run_owner.depths(),
                "at": time.time(),
                "seconds": sum(seconds.values()),
                **{f"seconds_{name}": round(value, 4) for name, value in seconds.items()},
            }
        )
        every = self.run_config.learner.samples_every
        if every and (self.version % every == 0 or self.version == 1):
            self.metrics.sample(self.version, groups[0])
