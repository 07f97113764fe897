"""The learner's loop: take, journal, step, announce, commit.

In: scored groups. Out: new weights. Rank 0 runs it: it alone speaks to Redis and writes the journal, and hands the
packed batch to the other ranks through `Policy`. The order of a step is what makes every crash recoverable: what is in
the journal can be trained again, what is not is still in Redis, and no slot is freed before the next version is
announced, so that new groups start from it.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from broker.messages import ScoredGroup
from broker.ownership import Ownership
from config.run import Run
from learner.advantages import group_advantages
from learner.batching import Batch, pack
from learner.checkpoint import Checkpoints, Progress
from learner.collector import Collector
from learner.evaluation import Round, result_of
from learner.feeder import Feeder
from learner.intake import Intake
from learner.journal import Journal
from learner.metrics import Clock, Metrics, batch_facts, reward_mean
from learner.weights import Publisher

if TYPE_CHECKING:
    from learner.policy import Policy

log = logging.getLogger(__name__)


class Trainer:
    """One life of the learner. Everything it needs is handed in; `learner.session` puts it together.

    Args:
        start: where training stands: version 0, or a checkpoint's.
    """

    def __init__(self, run: Run, policy: Policy, *, ownership: Ownership, ledger: Journal, intake: Intake,
                 collector: Collector, feeder: Feeder, metrics: Metrics, start: Progress) -> None:
        self.run_config = run
        self.policy = policy
        self.ownership = ownership
        self.journal = ledger
        self.intake = intake
        self.collector = collector
        self.feeder = feeder
        self.metrics = metrics
        self.publisher = Publisher(run, ownership)
        self.checkpoints = Checkpoints(run)
        self.version = start.version
        self._start = start
        self._clock = Clock()

    def train(self) -> bool:
        """Train until the last step. False: a signal ended it before."""
        learner = self.run_config.learner
        self.publisher.publish(self.policy, version=self.version)
        self.feeder.start(self.version)
        self._evaluate(wait=True)
        for step in range(self.version, learner.steps):
            groups = self.collector.take(step)              # waits; says for whom
            if groups is None:
                break
            self._clock.lap("wait")
            advantages = [group_advantages(group.rewards, learner.advantage.scale) for group in groups]
            batch = pack(groups, advantages, tokens_per_row=learner.tokens_per_row, truncated=learner.filters.truncated,
                         policy_version=step)
            self.journal.append(step, groups, advantages, weights=self.publisher.checksum)
            self._clock.lap("journal")                      # from here on the step can be replayed
            stepped = self.policy.step(batch)
            self._clock.lap("train")
            self.journal.check_fence()
            self.publisher.publish(self.policy, version=step + 1)   # before the slots: new groups start from it
            self.version = step + 1
            self._clock.lap("publish")
            self.feeder.advance(self.version)       # before the slots too: no more is issued than the rest can train
            self.collector.commit(groups)
            self.feeder.wake()
            self._report(groups, batch, stepped)
            self._after_step()
        return self._finish()

    def _after_step(self) -> None:
        self._record_rounds(self.intake.rounds.complete())
        every = self.run_config.evaluation.every
        if every and self.version % every == 0 and self.version < self.run_config.learner.steps:
            self._evaluate(wait=False)
        self._ask_again()
        if self.checkpoints.is_due(self.version) and self.version < self.run_config.learner.steps:
            self.checkpoints.save(self.policy, self.progress())
        self._clock.lap("other")

    def _finish(self) -> bool:
        """The last evaluation, checkpoint and model; the rounds that never ended are given up, saying so."""
        done = self.version >= self.run_config.learner.steps
        if done:
            self._evaluate(wait=True)
        self.feeder.stop()
        self._record_rounds([*self.intake.rounds.complete(), *self.intake.rounds.open.values()])
        self.checkpoints.save(self.policy, self.progress())
        if done:
            self.policy.save_model(self.run_config.folder / "model")
        return done

    def progress(self) -> Progress:
        """Where a run from here would begin: with the oldest group that has no outcome."""
        out: Any = self.ownership.link(lambda client: client.zrange(self.ownership.keys("slots"), 0, -1))
        oldest = min((int(group_id) for group_id in out), default=self.feeder.position)
        return Progress(version=self.version, first_row=self._start.first_row + oldest,
                        fingerprint=self.feeder.train.fingerprint)

    def _evaluate(self, *, wait: bool) -> None:
        """Ask for a round of the current version."""
        if not self.run_config.evaluation.every:
            return
        self.intake.rounds.begin(self.version, self.feeder.evaluation_ids(self.version))
        self.feeder.evaluate(self.version)
        if wait:
            self._record_rounds(self.collector.wait_for_round(self.version, self.feeder.evaluate))
            self._clock.lap("evaluate")

    def _ask_again(self) -> None:
        """A round past its deadline is asked for once more, then given up."""
        for current in list(self.intake.rounds.open.values()):
            if not self.collector.overdue(current):
                continue
            if current.asked_again:
                del self.intake.rounds.open[current.version]
                self._record_rounds([current])
            else:
                self.collector.ask_again(current, self.feeder.evaluate)

    def _record_rounds(self, rounds: list[Round]) -> None:
        """A round's record is its groups' outcome, so it is written before they are retired."""
        for current in rounds:
            result = result_of(current)
            if current.missing:
                log.error("evaluation_incomplete version=%d missing=%d", current.version, len(current.missing))
            self.journal.evaluation(current.version, result)
            self.ownership.retire(current.ids)
            self.metrics.evaluation(current.version, result)

    def _report(self, groups: list[ScoredGroup], batch: Batch, stepped: dict[str, float]) -> None:
        """One line for the step that was just committed."""
        seconds = self._clock.take()
        arrived, dropped = self.intake.take_arrivals()
        trained = reward_mean(groups)
        self.metrics.step({
            "step": self.version, "reward_mean": trained if arrived is None else arrived,
            "reward_mean_trained": trained, **batch_facts(groups, batch),
            **{name: value for name, value in stepped.items() if name != "seconds"}, "tokens": int(stepped["tokens"]),
            "dropped": sum(dropped.values()), "dropped_by_reason": dropped,
            "late_wait_seconds": round(self.collector.late_wait_s, 3), "lag_breaches": self.collector.breaches,
            "queues": self.intake.depths(), "at": time.time(), "seconds": sum(seconds.values()),
            **{f"seconds_{name}": round(value, 4) for name, value in seconds.items()}})
        every = self.run_config.learner.samples_every
        if every and (self.version % every == 0 or self.version == 1):
            self.metrics.sample(self.version, groups[0])
