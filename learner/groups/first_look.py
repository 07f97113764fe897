"""The first groups of a run, compared with the learner before its first step: do both hold the same model?

In: scored groups as they arrive, whatever their rewards are, before any of them has an outcome. Out: nothing, or a
RunFailed that names each generator whose log-probabilities are not the learner's. A head that one side ties, a folder
of another revision, or a temperature that an engine changes shows here, and would else show as rewards of 0. One pass
of the learner without a gradient; nothing is written, acknowledged or dropped, and a learner that is started again
looks again. Runs in rank 0's own thread.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from broker.errors import RunFailed
from broker.messages import ScoredGroup
from config.generators import ScriptedEngineConfig
from config.run import Run
from learner.journal.writer import Journal
from learner.policy_version import PolicyVersion
from learner.training.batch import Batch, pack

if TYPE_CHECKING:
    from learner.training.backend import Differences, TrainingBackend

log = logging.getLogger(__name__)

# In float32 only the order of sums differs: about 1e-5 nats, and 1e-2 at the lowest temperature that an engine takes.
MOST_NATS: Final = 0.5  # at any token
# In 16 bits rounding reaches single tokens of any size, and 0.02 a token in the mean, where `learner.mismatch` warns.
MOST_MEAN: Final = 0.5  # k3, nats a token, where learner.mismatch.stop_above is unset


class FirstLook:
    """Compares, until the first step, the groups of a step and the first one of each further generator."""

    def __init__(self, run: Run, policy: TrainingBackend, journal: Journal, version: PolicyVersion) -> None:
        self._run = run
        self._policy = policy
        self._journal = journal
        self._version = version
        self._looked: Counter[str] = Counter()  # groups by generator

    def __call__(self, groups: Sequence[ScoredGroup]) -> None:
        """Look at groups that have arrived.

        Raises:
            RunFailed: a generator does not sample from the learner's model.
        """
        if self._journal.ledger.steps or isinstance(self._run.generators.engine, ScriptedEngineConfig):
            return
        if chosen := [group for group in groups if self._counts(group)]:
            self._compare(chosen)

    def _counts(self, group: ScoredGroup) -> bool:
        """Return whether a group is one to look at: of this very version, sampled as the learner computes."""
        rollout, name = group.rollout, group.rollout.generator
        is_alike = (
            rollout.prompt.temperature == self._run.sampling.temperature and rollout.prompt.top_p == 1.0
        )
        has_room = not self._looked[name] or self._looked.total() < self._run.learner.groups_per_step
        if is_alike and has_room and rollout.min_version == self._version.trained:
            self._looked[name] += 1
            return True
        return False

    def _compare(self, groups: Sequence[ScoredGroup]) -> None:
        batch = pack(
            groups,
            [[0.0] * len(group.rollout.completions) for group in groups],
            tokens_per_micro_batch=self._run.learner.tokens_per_micro_batch,
            truncated="keep",
            policy_version=self._version.trained,
            by_length=self._policy.pads,
        )
        found = self._policy.differences(batch)
        if apart := [
            line
            for index in range(len(batch.generators))
            if (line := self._line(index, groups, batch, found))
        ]:
            raise RunFailed(
                f"{'; '.join(apart)}. Generators and learner have to hold the same model before the first step: look "
                f"for another folder or revision of model.path={self._run.model.path} on that machine, weights that "
                "one side ties or leaves out, or another version of a library. No group has an outcome yet: started "
                "again, the run goes on"
            )

    def _line(self, index: int, groups: Sequence[ScoredGroup], batch: Batch, found: Differences) -> str:
        """Say how far a generator is from the learner where that is too far; else "", and in the log."""
        name, own = batch.generators[index], np.flatnonzero(batch.generator_ids == index)
        worst = int(own[np.argmax(found.largest[own])])
        largest = float(found.largest[worst])
        mean = float(found.k3[own].sum() / max(1, found.tokens[own].sum()))
        log.info(
            "first_look generator=%s completions=%d largest=%.4f mean=%.5f", name, len(own), largest, mean
        )
        bound = self._run.learner.mismatch.stop_above or MOST_MEAN
        if self._run.model.dtype == "float32":
            limit, is_fine = f"{MOST_NATS} at any token in float32", largest <= MOST_NATS
        else:
            limit, is_fine = (
                f"a mean divergence of {bound:g} nats a token in {self._run.model.dtype}",
                mean <= bound,
            )
        if is_fine:
            return ""
        group = groups[int(batch.prompts[worst])]
        place = int(np.count_nonzero(batch.prompts[:worst] == batch.prompts[worst]))
        return (
            f"generator {name} (engine {self._run.generators.engine.type}) does not sample from the learner's model: a "
            f"token of group {group.group_id}, completion {place}, has a log-probability {largest:.2f} nats from the "
            f"learner's at version {self._version.trained}, and the mean divergence is {mean:.3g} nats a token "
            f"(allowed: {limit})"
        )
