"""Summarize the groups of a step: rewards by task, source and component, lengths, lags, answers.

In: the groups that a step trained on, and their batch. Out: fields of the step's record, listed in
`learner.reporting.keys`. Used by the learner's loop in rank 0; needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broker.messages import FinishReason, ScoredGroup
from learner.groups.facts.answers import repeated_shares, same_answer_share
from learner.groups.facts.episodes import episode_metrics, facts_of, is_episode
from learner.training.batch import Batch

MOST_VALUES = 32  # of a column per step: one with more identifies rows and no category
LENGTH_EDGES = tuple(2**power for power in range(4, 18))  # upper ends of the histogram of lengths, tokens


def reward_mean(groups: Sequence[ScoredGroup]) -> float:
    """Return the mean reward of all completions that have a reward; 0 where none has."""
    rewards = [reward for group in groups for reward in group.rewards if reward is not None]
    return sum(rewards) / len(rewards) if rewards else 0.0


def batch_facts(groups: Sequence[ScoredGroup], batch: Batch) -> dict[str, Any]:
    """Return the summary of a step's groups, by key of its record.

    Args:
        groups: at least one.
        batch: of them.
    """
    completions = [completion for group in groups for completion in group.rollout.completions]
    lengths = np.asarray([completion.num_sampled for completion in completions])
    lags = batch.lags[batch.loss_mask]
    return {
        "groups": len(groups),
        "lag_mean": float(lags.mean()) if len(lags) else 0.0,
        "lag_max": int(lags.max()) if len(lags) else 0,
        "response_tokens_mean": float(lengths.mean()),
        "response_tokens_max": int(lengths.max()),
        "truncated_share": fmean(one.finish_reason is FinishReason.LENGTH for one in completions),
        "repeated_share": fmean(repeated_shares(completions)),
        "same_answer_share": same_answer_share(groups),
        "reward_by_task": _rewards_by(groups, lambda group: group.rollout.prompt.task),
        "reward_by_source": _rewards_by(
            groups, lambda group: group.rollout.prompt.data_source or group.rollout.prompt.task
        ),
        **({"reward_by_column": by_column} if (by_column := _rewards_by_column(groups)) else {}),
        "components": _components(groups),
        **episode_metrics([facts_of(one) for one in completions if is_episode(one)]),
        "histograms": {
            "lag": _histogram(lags, tuple(range(int(lags.max()) + 1)) if len(lags) else ()),
            "response_tokens": _histogram(lengths, LENGTH_EDGES),
        },
    }


def _histogram(values: NDArray[Any], edges: Sequence[int]) -> dict[str, list[int]]:
    """Return `edges`, the upper ends of the bins, and `counts`, with one more bin above the last edge."""
    counts = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    return {"edges": list(edges), "counts": counts.tolist()}


def _rewards_by(groups: Iterable[ScoredGroup], name_of: Any) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for group in groups:
        found.setdefault(name_of(group), []).extend(reward for reward in group.rewards if reward is not None)
    return {name: fmean(rewards) for name, rewards in sorted(found.items()) if rewards}


def _rewards_by_column(groups: Sequence[ScoredGroup]) -> dict[str, dict[str, float]]:
    """Return the mean reward by value, for each column that travels and has few plain values in this step."""
    names = sorted({name for group in groups for name in group.rollout.prompt.columns})
    found: dict[str, dict[str, float]] = {}
    for name in names:
        having = [group for group in groups if name in group.rollout.prompt.columns]
        if any(isinstance(group.rollout.prompt.columns[name], dict | list) for group in having):
            continue
        by_value = _rewards_by(having, lambda group, name=name: str(group.rollout.prompt.columns[name])[:60])
        if 0 < len(by_value) <= MOST_VALUES:
            found[name] = by_value
    return found


def _components(groups: Iterable[ScoredGroup]) -> Mapping[str, float]:
    """Return the mean of each part of the scores, over the completions that have it."""
    found: dict[str, list[float]] = {}
    for group in groups:
        for score in group.scores:
            for name, value in score.components.items():
                found.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in sorted(found.items())}
