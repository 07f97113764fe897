"""Decide which groups train, and give a reason for each dropped group.

In: a scored group. Out: the reason to drop it, or none. The text of a reason up to the colon is its kind, by which the
audit and the metrics count. Used by `learner.groups.intake`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from broker.messages import ScoredGroup
from broker.protocol.streams import Entry
from config.learner import LearnerConfig
from learner.groups.arrival_statistics import ArrivalCounter, Arrivals
from learner.groups.facts.same_reward import SameRewardWatch
from learner.groups.kept_share import KeptShare
from learner.objective.advantages import has_variance


class Filters:
    """Admit the groups that can train, as `learner.filters` says: an `Admission`.

    Args:
        arrivals: counts the groups that return.
        advise: receives advice for the operator about the groups.
    """

    def __init__(
        self,
        learner: LearnerConfig,
        arrivals: ArrivalCounter,
        *,
        advise: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.kept_share = KeptShare()
        self._learner = learner
        self._arrivals = arrivals
        self._same_reward = SameRewardWatch(advise)
        self._replaced = 0  # groups dropped since the last step

    def why_dropped(self, group: ScoredGroup) -> str:
        """Return why a group has nothing to learn from; "" if it has."""
        most = self._learner.filters.max_replaced
        may_replace = most is None or self._replaced < most
        reason = why_empty(group, self._learner, may_replace=may_replace)
        self._replaced += bool(reason)
        return reason or ""

    def held_of_dead(self, _entry: Entry, /) -> ScoredGroup | None:
        """Return None: a dead group never trains."""
        return None

    def note(self, group: ScoredGroup, why_dropped: str) -> None:
        """Count a scored group in the statistics of the next step."""
        self._arrivals.add(group)
        self._same_reward.take(group, has_variance=has_variance(group.rewards))
        self.kept_share.note(kept=not why_dropped)

    def take_arrivals(self) -> Arrivals:
        """Return the sums of the groups returned since the last call: since the last step."""
        self._replaced = 0
        return self._arrivals.take()


def why_impossible(group: ScoredGroup, *, version: int, vocabulary: float) -> str | None:
    """Return why this policy can't have sampled a group; None if it can. Training on such a group would fail.

    Args:
        version: of the learner's policy.
        vocabulary: its number of tokens.
    """
    newest = group.rollout.max_version
    if newest > version:
        return (
            f"sampled by version {newest}, and the learner is at {version}: a generator follows another learner's "
            "weights, or this run's folder was set back by hand"
        )
    ids = [group.rollout.prompt.token_ids]
    for completion in group.rollout.completions:
        for segment in completion.segments:
            ids += [segment.prompt_ids, segment.token_ids]
    largest = int(np.concatenate(ids).max(initial=0))
    if largest >= vocabulary:
        return (
            f"token id {largest}, and the policy has {vocabulary:.0f} tokens: the generator has another model or "
            "tokenizer"
        )
    return None


def why_empty(group: ScoredGroup, learner: LearnerConfig, *, may_replace: bool = True) -> str | None:
    """Return why a group has nothing to learn from; None if it has.

    Args:
        group: a scored one.
        learner: the section with the filters.
        may_replace: False: a group with rewards trains, whatever they are.
    """
    scored = [reward for reward in group.rewards if reward is not None]
    if not scored:  # scorers dead-letter such a group, and one with too few scores: scorers.min_scored
        return f"unscorable: none of {len(group.rewards)} scored; {group.scores[0].reason}"
    if not may_replace:
        return None
    if learner.filters.zero_variance == "replace" and not has_variance(group.rewards):
        return f"zero_variance: every reward is {scored[0]:g}"
    return _why_outside(group, learner.filters.pass_rate)


def _why_outside(group: ScoredGroup, bounds: tuple[float, float]) -> str | None:
    """Return why a group's mean score is outside the bounds; None if it is inside."""
    values = [score.value for score in group.scores if score.value is not None]
    low, high = bounds
    rate = math.fsum(values) / len(values) if values else low
    if rate > high:
        return f"too_easy: the mean score is {rate:.3g}, above learner.filters.pass_rate's {high:g}"
    if rate < low:
        return f"too_hard: the mean score is {rate:.3g}, below learner.filters.pass_rate's {low:g}"
    return None
