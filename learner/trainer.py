"""The learner's loop: take, journal, step, gather; the version is published during the next step.

In: scored groups. Out: new weights. Rank 0 runs it, and the other ranks get their shards through the `TrainingBackend`.
A crash between any two of these leaves a batch in Redis, in the journal, or in both, and it can be trained from either.
The publisher's thread announces a version before it frees slots for groups that must start from it. Where Redis turns
out to have lost data, the current action is repeated after `learner.resume.recovery`.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from typing import TYPE_CHECKING, Literal

from broker.errors import WentBack
from broker.group_ids import ordinal_of, retry_of
from broker.messages import ScoredGroup
from learner.assembly import Parts
from learner.groups.filters import Filters
from learner.incarnation import DRAINED, FINISHED, STOPPED
from learner.journal.payloads import Advantages
from learner.objective.advantages import batch_advantages
from learner.objective.kl_coefficient import KlCoefficient, penalized
from learner.reporting.curves import load_ahead
from learner.reporting.generators import as_record, by_generator, check_mismatch, merged
from learner.reporting.group_facts import batch_facts, reward_mean
from learner.reporting.latency import ages_of, latency_facts
from learner.reporting.metrics import Clock, Metrics
from learner.training.batch import Batch, pack
from learner.training.checkpoint import Checkpoints, Progress
from learner.training.skipped_steps import SkippedSteps

if TYPE_CHECKING:
    from learner.training.backend import TrainingBackend

log = logging.getLogger(__name__)


class TrainingLoop:
    """Train in one incarnation of the learner. `learner.session` provides all parts.

    Args:
        filters: count the groups that return between two steps.
        start: the current progress: version 0, or the result of a checkpoint and the journal's later steps.
    """

    def __init__(
        self,
        parts: Parts,
        policy: TrainingBackend,
        filters: Filters,
        *,
        checkpoints: Checkpoints,
        metrics: Metrics,
        start: Progress,
    ) -> None:
        self.parts = parts
        self.run = parts.claimed.run
        self.run_owner = parts.claimed.run_owner
        self.journal = parts.claimed.journal
        self.policy_version = parts.claimed.version
        self.policy = policy
        self.filters = filters
        self.intake = parts.intake
        self.outcomes = parts.intake.outcomes
        self.evaluation = parts.intake.evaluation
        self.selection = parts.selection
        self.feeder = parts.feeder
        self.recovery = parts.recovery
        self.publisher = parts.publisher
        self.metrics = metrics
        self.checkpoints = checkpoints
        self._start = start
        self._kl = KlCoefficient(self.run.learner.objective.kl, start.kl)
        self._clock = Clock()
        self._skipped = SkippedSteps(self.run.learner.max_skipped_steps)

    @property
    def version(self) -> int:
        """Optimizer steps done."""
        return self.policy_version.trained

    def train(self) -> str:
        """Train until the last step, or until an operator or a signal ends the run: finished, drained or stopped."""
        surviving = self.recovery.surviving
        self.recovery.recover()
        if self.version < self.run.learner.steps:
            self.outcomes.retry_the_rest()
        # Before the feeder starts: a drained or paused run issues nothing.
        surviving(self.selection.poll_operator)
        self.feeder.start()
        surviving(self._evaluate_what_is_due)
        while self.version < self.run.learner.steps:
            groups = surviving(lambda: self.selection.take(self.version))  # waits, and reports for whom
            if groups is None:
                break
            self._step(groups)
        return surviving(self._finish)

    def _step(self, groups: list[ScoredGroup]) -> None:
        """Take one optimizer step on `groups`."""
        self._clock.lap("wait")
        ages = ages_of(groups, now=time.time())
        learner = self.run.learner
        rewards, kl = self._penalized_rewards(groups)
        advantages = batch_advantages(rewards, learner.advantage)
        batch = self._pack(groups, advantages, truncated=learner.filters.truncated)
        self._clock.lap("train")
        self.journal.append(
            self.version, groups, advantages, published=self.publisher.take_checksums(), kl=kl
        )
        self.selection.buffer.discard(group.group_id for group in groups)
        self._drop_what_is_over()
        self._clock.lap("journal")  # the step counts, whatever happens now
        # Only the read data give the number of steps of the epochs, which the backend does not know.
        stepped = self.policy.step(batch, learner if learner.epochs else None)
        if kl is not None:
            stepped = self._adapt(kl, batch, stepped)
        self.policy_version.trained += 1
        self._clock.lap("train")
        self.recovery.surviving(self._publish_behind)
        self.selection.meter.count(steps=1, groups=len(groups), **ages)
        self._report(groups, batch, stepped, ages)
        self._skipped.count(self.version, stepped)
        check_mismatch(self.run.learner.mismatch, by_generator(stepped))
        self.recovery.surviving(self._after_step)

    def _drop_what_is_over(self) -> None:
        """Drop what a later step can't train, once this step is recorded: generators need not sample it.

        A Redis that went back is noticed again when the step is published, and the recovery then drops as much.
        """
        following = self.policy_version.taken = self.version + 1  # the feeder issues no more for this step
        with contextlib.suppress(WentBack):
            if following >= self.run.learner.steps:
                self.outcomes.drop_the_rest()
            else:
                self.outcomes.drop_surplus(following)

    def _pack(
        self, groups: list[ScoredGroup], advantages: Advantages, *, truncated: Literal["mask", "keep"] | None
    ) -> Batch:
        return pack(
            groups,
            advantages,
            tokens_per_micro_batch=self.run.learner.tokens_per_micro_batch,
            truncated=truncated,
            policy_version=self.version,
            mini_batches=self.run.learner.mini_batches,
            kl_coef=self._kl.value,
            by_length=self.policy.pads,
        )

    def _penalized_rewards(
        self, groups: list[ScoredGroup]
    ) -> tuple[list[list[float | None]], dict[str, float] | None]:
        """Return the groups' rewards, minus the divergence to the reference where it is part of the reward.

        Returns:
            The rewards, and the journal's record of the divergence; None where there is no reference.
        """
        rewards = [list(group.rewards) for group in groups]
        kl = self.run.learner.objective.kl
        if not kl.coef:
            return rewards, None
        if kl.place == "loss":
            return rewards, {"coef": self._kl.value}
        # Truncated completions count in the baseline, so they are measured, too.
        scored = [[None if reward is None else 0.0 for reward in group] for group in rewards]
        batch = self._pack(groups, scored, truncated="keep")
        divergences = self.policy.divergences(batch)
        return penalized(rewards, divergences, self._kl.value), {
            "coef": self._kl.value,
            "divergence": math.fsum(divergences) / max(1, batch.num_tokens),
        }

    def _adapt(self, kl: dict[str, float], batch: Batch, stepped: dict[str, float]) -> dict[str, float]:
        """Adapt the coefficient after a step, and return the step's metrics with the coefficient it used."""
        divergence = kl.get("divergence", stepped.get("reference_kl", 0.0))
        self._kl.update(divergence=divergence, completions=len(batch.prompts))
        return {**stepped, "reference_kl": divergence, "kl_coef": kl["coef"]}

    def _publish_behind(self) -> None:
        """Gather the new version if it is to be published: the publisher announces it during the next step."""
        if self._is_published(self.version):
            self.selection.meter.hold(0.0, "publishing")
            self.publisher.settle()
            self.selection.meter.hold(1.0)
            self.publisher.begin(self.policy, self.version)
        self._clock.lap("publish")

    def _is_published(self, version: int) -> bool:
        """Return whether a version is published: every nth, the last, and those with an evaluation or a checkpoint."""
        return (
            version % self.run.learner.weights.every == 0
            or version >= self.run.learner.steps
            or self.evaluation.is_due(version)
            or self.checkpoints.is_due(version)
        )

    def _after_step(self) -> None:
        self._record_rounds()
        if self.version < self.run.learner.steps:
            self._evaluate_what_is_due()
        self.evaluation.enforce_deadlines()
        if self.checkpoints.is_due(self.version) and self.version < self.run.learner.steps:
            self._save()
        self._clock.lap("other")

    def _finish(self) -> str:
        """Make the last evaluation, checkpoint and model; give up and log the rounds that have not ended.

        After a signal nothing is given up: groups in flight stay in Redis, and the next learner continues.
        """
        self.publisher.begin(self.policy, self.version)  # however it ended, the last version is published
        self.publisher.settle()
        if self.version >= self.run.learner.steps:
            with self.feeder.held():  # the feeder issues no more: the last version is announced
                self.outcomes.drop_the_rest()
        is_done = self.version >= self.run.learner.steps or (
            self.selection.has_run_dry() and not self.selection.has_drained()
        )
        is_last = is_done or self.selection.has_drained()
        if is_last:
            if self.evaluation.has_rounds:
                load_ahead()
            self._evaluate(wait=True)
            if not self.selection.is_stopped:
                self._give_up_rounds()
        self._record_rounds()
        self.feeder.stop()  # not earlier: a Redis that goes back needs open rounds issued again
        self._save()
        if not is_last or self.evaluation.rounds.open:
            return STOPPED
        self.policy.save_model(self.run.folder / "model")
        return FINISHED if is_done else DRAINED

    def _give_up_rounds(self) -> None:
        """Give up the older rounds that are still open, with the groups returned so far."""
        while self.evaluation.rounds.open and self.intake.read(block_s=0):
            pass
        self.evaluation.give_up()

    def _save(self) -> None:
        """Save a checkpoint; then the journal may remove payloads that all checkpoints cover."""
        self.journal.check_fence()  # an older learner must not touch the newer one's checkpoints
        self.metrics.flush()
        self.checkpoints.save(self.policy, self.progress())
        self.journal.retain(self.checkpoints.oldest_version() or 0)

    def progress(self) -> Progress:
        """Return where a run from here would begin: at the oldest group without an outcome, or over at the end."""
        not_ended = [group_id for group_id in self.run_owner.slots() if not self.journal.has(group_id)]
        waiting = (*not_ended, *self.journal.ledger.over)
        ordinals = (ordinal_of(group_id) for group_id in waiting if retry_of(group_id) == 0)
        oldest = min(ordinals, default=self.feeder.position)
        steps = self.journal.ledger.steps
        return Progress(
            version=self.version,
            first_row=self._start.first_row + oldest,
            fingerprint=self.feeder.train.fingerprint,
            fence=steps[-1]["fence"] if steps else 0,
            kl=self._kl.state,
        )

    def _evaluate_what_is_due(self) -> None:
        """Evaluate the first version, whose round training may wait for, and then each version that is due."""
        if self.evaluation.is_due(self.version):
            self._evaluate(wait=self.version == 0 and self.run.evaluation.first_round == "before")

    def _evaluate(self, *, wait: bool) -> None:
        """Request a round of the current version, unless the ledger has it."""
        if not self.evaluation.has_rounds or self.evaluation.is_recorded(self.version):
            return
        if self.version not in self.evaluation.rounds.open:
            self.evaluation.request(self.version)
            self.feeder.wake()
        if wait:
            self.selection.wait_for_round(self.version)
            self._record_rounds()
            self._clock.lap("evaluate")

    def _record_rounds(self) -> None:
        """Record the rounds that have ended."""
        self.evaluation.record_ended(self.metrics.evaluation)

    def _report(
        self, groups: list[ScoredGroup], batch: Batch, stepped: dict[str, float], ages: dict[str, float]
    ) -> None:
        """Report the step that was just trained, in one line."""
        seconds = self._clock.take()
        arrivals = self.filters.take_arrivals()
        trained = reward_mean(groups)
        recorded = {name: value for name, value in as_record(stepped, batch).items() if name != "seconds"}
        facts = batch_facts(groups, batch)
        self.metrics.step(
            {
                "step": self.version,
                "reward_mean": trained if arrivals.reward_mean is None else arrivals.reward_mean,
                "reward_mean_trained": trained,
                **merged(facts, recorded),
                **({"arrived": arrivals.facts} if arrivals.facts else {}),
                "tokens": int(stepped["tokens"]),
                "dropped": sum(arrivals.dropped.values()),
                "dropped_by_reason": arrivals.dropped,
                "dropped_by_source": arrivals.dropped_by_source,
                "late_wait_seconds": round(self.selection.late_wait_s, 3),
                "lag_breaches": self.selection.breaches,
                "late_groups": self.selection.late,
                **latency_facts(ages, groups=len(groups), lag_mean=facts["lag_mean"]),
                "queues": self.run_owner.depths(),
                "at": time.time(),
                "seconds": sum(seconds.values()),
                **{f"seconds_{name}": round(value, 4) for name, value in seconds.items()},
                "publish_behind_seconds": round(self.publisher.behind_s, 4),
            },
            groups,
        )
        every = self.run.learner.samples_every
        if every and (self.version % every == 0 or self.version == 1):
            self.metrics.sample(self.version, groups[0])
