"""Decide which groups train, and give a reason for each dropped group.

In: a scored group. Out: the reason to drop it, or none. The text of a reason up to the colon is its kind, by which the
audit and the metrics count. Used by `learner.groups.intake`.
"""

from __future__ import annotations

import math

import numpy as np

from broker.messages import ScoredGroup
from config.learner import LearnerConfig
from learner.objective.advantages import has_variance


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


def why_late(group: ScoredGroup, learner: LearnerConfig, version: int) -> str | None:
    """Return why a group is too old for policy `version`, where `late_groups` says to drop it; None if it is not."""
    lag = version - group.rollout.min_version
    if learner.late_groups != "drop" or lag <= learner.max_lag:
        return None
    return (
        f"late: sampled by version {group.rollout.min_version}, {lag} before {version}; learner.max_lag="
        f"{learner.max_lag}"
    )
