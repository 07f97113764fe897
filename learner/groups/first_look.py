"""Compare the first groups of a run with the learner before its first step: do both hold the same model?

In: scored groups as they arrive, whatever their rewards, before any has an outcome. Out: a RunFailed that names each
generator whose log-probabilities differ from the learner's. It catches a head that only one side ties, a folder of
another revision, or an engine that changes the temperature, which would otherwise show as rewards of 0. One forward
pass of the learner; ending the run here writes and acknowledges nothing. A restarted learner checks again: new groups,
and those issued before it, of which it drops groups sampled by another model. Runs in rank 0's own thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

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

# In float32 only the summation order differs: about 1e-5 nats, and 1e-2 at the lowest temperature that an engine
# accepts.
MOST_NATS: Final = 0.5  # at any token
# In 16 bits rounding may change single tokens by any amount, and the mean by 0.02, where `learner.mismatch` warns.
MOST_MEAN: Final = 0.5  # k3, nats a token, where learner.mismatch.stop_above is unset


class FirstLook:
    """Compare, until the first step, the groups of a step and the first group of each further generator.

    Args:
        began: start of this learner, Unix seconds: groups issued earlier are an earlier learner's.
    """

    def __init__(
        self, run: Run, policy: TrainingBackend, journal: Journal, version: PolicyVersion, *, began: float
    ) -> None:
        self._run = run
        self._policy = policy
        self._journal = journal
        self._version = version
        self._began = began
        self._looked: set[str] = set()  # generators whose groups of this learner's time were compared
        self._groups = 0  # number of those groups

    def __call__(self, groups: Sequence[ScoredGroup]) -> dict[str, str]:
        """Compare groups that have arrived.

        Returns:
            The groups to drop, each with the reason: issued by an earlier learner and sampled from another model.
        Raises:
            RunFailed: a generator does not sample from the learner's model.
        """
        if self._journal.ledger.steps or isinstance(self._run.generators.engine, ScriptedEngineConfig):
            return {}
        chosen = [group for group in groups if self._counts(group)]
        return self._compare(chosen) if chosen else {}

    def _counts(self, group: ScoredGroup) -> bool:
        """Return whether to compare this group: of this exact version, sampled as the learner computes."""
        rollout = group.rollout
        is_alike = (
            rollout.prompt.temperature == self._run.sampling.temperature and rollout.prompt.top_p == 1.0
        )
        if not is_alike or rollout.min_version != self._version.trained:
            return False
        if self._is_left(group):
            return True
        names = {rollout.sampler(one) for one in rollout.completions if one.segments}
        if names <= self._looked and self._groups >= self._run.learner.groups_per_step:
            return False
        self._looked |= names
        self._groups += 1
        return True

    def _is_left(self, group: ScoredGroup) -> bool:
        return group.rollout.prompt.issued_at < self._began

    def _compare(self, groups: Sequence[ScoredGroup]) -> dict[str, str]:
        batch = pack(
            groups,
            [[0.0 if one.segments else None for one in group.rollout.completions] for group in groups],
            tokens_per_micro_batch=self._run.learner.tokens_per_micro_batch,
            truncated="keep",
            policy_version=self._version.trained,
            by_length=self._policy.pads,
        )
        found = self._policy.differences(batch)
        is_left_S = np.array([self._is_left(group) for group in groups])[batch.prompts]
        apart = [
            line
            for index in range(len(batch.generators))
            if (
                line := self._line(
                    np.flatnonzero((batch.generator_ids == index) & ~is_left_S), groups, batch, found
                )
            )
        ]
        if apart:
            raise RunFailed(
                f"{'; '.join(apart)}. Generators and learner have to hold the same model before the first step: look "
                f"for another folder or revision of model.path={self._run.model.path} on that machine, weights that "
                "one side ties or leaves out, or another version of a library. No group has an outcome yet: started "
                "again, the run goes on"
            )
        left = {index: group for index, group in enumerate(groups) if self._is_left(group)}
        refused = {
            group.group_id: f"another_model: its log-probabilities are up to {largest:.2f} nats from the learner's"
            for index, group in left.items()
            for largest, _, is_fine in [self._measured(np.flatnonzero(batch.prompts == index), found)]
            if not is_fine
        }
        if refused:
            log.warning(
                "left_of_another_model groups=%d: sampled before this learner began, dropped", len(refused)
            )
        return refused

    def _measured(self, own: NDArray[np.int64], found: Differences) -> tuple[float, float, bool]:
        """Return the largest difference and the mean divergence of completions, and whether both are acceptable."""
        largest = float(found.largest[own].max())
        mean = float(found.k3[own].sum() / max(1, found.tokens[own].sum()))
        if self._run.model.dtype == "float32":
            return largest, mean, largest <= MOST_NATS
        return largest, mean, mean <= self._most_mean

    @property
    def _most_mean(self) -> float:
        return self._run.learner.mismatch.stop_above or MOST_MEAN

    def _line(
        self, own: NDArray[np.int64], groups: Sequence[ScoredGroup], batch: Batch, found: Differences
    ) -> str:
        """Describe how far a generator is from the learner where that is too far; else "", and log it."""
        if not len(own):
            return ""
        name = batch.generators[int(batch.generator_ids[own[0]])]
        largest, mean, is_fine = self._measured(own, found)
        log.info(
            "first_look generator=%s completions=%d largest=%.4f mean=%.5f", name, len(own), largest, mean
        )
        if is_fine:
            return ""
        worst = int(own[np.argmax(found.largest[own])])
        group = groups[int(batch.prompts[worst])]
        sampled = [place for place, one in enumerate(group.rollout.completions) if one.segments]
        place = sampled[int(np.count_nonzero(batch.prompts[:worst] == batch.prompts[worst]))]
        dtype = self._run.model.dtype
        limit = (
            f"{MOST_NATS} at any token in float32"
            if dtype == "float32"
            else f"a mean divergence of {self._most_mean:g} nats a token in {dtype}"
        )
        return (
            f"generator {name} (engine {self._run.generators.engine.type}) does not sample from the learner's model: a "
            f"token of group {group.group_id}, completion {place}, has a log-probability {largest:.2f} nats from the "
            f"learner's at version {self._version.trained}, and the mean divergence is {mean:.3g} nats a token "
            f"(allowed: {limit})"
        )
