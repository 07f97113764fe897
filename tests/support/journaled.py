"""A run's folder as a learner leaves it, made without Redis: a journal of several lives, checkpoints, weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from config.loading import to_yaml
from config.run import Run
from learner.journal.writer import Journal
from learner.objective.advantages import group_advantages
from learner.training.batch import pack
from learner.training.checkpoint import Checkpoints, Progress
from learner.weight_sync.transport import SavedWeights
from learner.weight_sync.version_folder import published
from tests.support.tiny import random_groups


class JournaledRun:
    """Lives of a learner, one after the other.

    Args:
        run: as it is now.
        policy: trained by them; its methods are those of `learner.training.engines.deepspeed.DeepSpeedBackend`.
        version: of the policy.
        start: the checkpoint that the run began from.
    """

    def __init__(self, run: Run, policy: Any, *, version: int = 0, start: Path | None = None) -> None:
        self.run = run
        self.policy = policy
        self.version = version
        self._start = start
        self._fence = 0

    @property
    def journal(self) -> Path:
        return self.run.folder / "journal"

    def live(self, steps: int, *, checkpoints: tuple[int, ...] = (), **learner: Any) -> None:
        """One life of so many steps, with these settings of the learner; checkpoints at these versions."""
        settings = self.run.learner.model_validate(self.run.learner.model_dump() | learner)
        run = self.run = self.run.model_copy(update={"learner": settings})
        self._fence += 1
        facts = {"config": to_yaml(run), "start": str(self._start) if self._start else None}
        journal = Journal(self.journal, self._fence, run=run.name, facts=facts, config=settings.journal)
        (run.folder / "config.yaml").write_text(to_yaml(run))
        checksum = self._publish()
        for step in range(self.version, self.version + steps):
            groups = random_groups(step, policy_version=step, first_id=3 * step)
            advantages = [group_advantages(group.rewards, settings.advantage.scale) for group in groups]
            batch = pack(
                groups,
                advantages,
                tokens_per_micro_batch=settings.tokens_per_micro_batch,
                truncated=settings.filters.truncated,
                policy_version=step,
            )
            journal.append(step, groups, advantages, published={step: checksum})
            self.policy.step(batch, settings)
            self.version = step + 1
            checksum = self._publish()
            if self.version in checkpoints:
                Checkpoints(run).save(
                    self.policy,
                    Progress(version=self.version, first_row=0, fingerprint="f", fence=self._fence),
                )
        journal.close()

    def _publish(self) -> str:
        folder = published(self.run) / f"v{self.version:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        saved: SavedWeights = self.policy.gather_weights().save_weights(folder)
        return saved.checksum
