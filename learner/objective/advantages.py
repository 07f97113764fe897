"""Compute advantages from the rewards of a step's groups, one number for each completion.

In: the rewards of each `ScoredGroup`, None where unscorable. Out: one number for each completion, None where the
completion must not train. Runs in the learner's rank 0, between intake and packing. Pure; fails only for invalid
arguments.
"""

# G completions of one group.

from __future__ import annotations

import math
from collections.abc import Sequence

from config.learner.objective import AdvantageBaseline, AdvantageConfig, AdvantageScale

SAME_REWARD = 1e-9  # rewards closer than this are equal: dividing by std must not amplify rounding


def has_variance(rewards: Sequence[float | None]) -> bool:
    """Return whether the scored completions of a group differ; without a difference there is nothing to learn.

    Args:
        rewards: [G], None where unscorable.
    """
    scored = [reward for reward in rewards if reward is not None]
    return bool(scored) and max(scored) - min(scored) > SAME_REWARD


def batch_advantages(
    rewards: Sequence[Sequence[float | None]], config: AdvantageConfig
) -> list[list[float | None]]:
    """Return the advantages of a step's groups.

    Args:
        rewards: a list per group, a number per completion, None where unscorable.
        config: the baseline and the scale.
    Source: `batch_std`: arXiv:2508.08221, sec. 4.1: the group's mean with the batch's deviation.
    """
    advantages = [group_advantages(group, config.scale, config.baseline) for group in rewards]
    if config.scale != "batch_std":
        return advantages
    deviation = _deviation([reward for group in rewards for reward in group if reward is not None])
    if deviation <= SAME_REWARD:
        return advantages
    return [[None if one is None else one / deviation for one in group] for group in advantages]


def group_advantages(
    rewards: Sequence[float | None], scale: AdvantageScale, baseline: AdvantageBaseline = "mean"
) -> list[float | None]:
    """Centre the rewards of a group on the mean of its scored completions.

    Args:
        rewards: [G], None where unscorable.
        scale: `none`, and `batch_std` within a group: the difference itself. `std`: divided by the standard deviation
            of the scored rewards, with Bessel's correction, as verl and TRL do, so that learning rates carry over.
        baseline: `mean`: of all scored completions. `leave_one_out`: of the others, for each completion.
    Returns:
        [G]; None where the reward is None, and all zeros where the rewards are equal.
    Source: GRPO, DeepSeekMath, arXiv:2402.03300, sec. 4.1.2; without the division: Dr. GRPO, arXiv:2503.20783; the
        others' mean: RLOO, arXiv:2402.14740, eq. 9.
    """
    scored = [reward for reward in rewards if reward is not None]
    if not has_variance(rewards):
        return [None if reward is None else 0.0 for reward in rewards]
    mean = math.fsum(scored) / len(scored)
    divisor = _deviation(scored) if scale == "std" else 1.0
    if baseline == "leave_one_out":
        divisor *= (len(scored) - 1) / len(scored)  # r - mean of the others = (r - mean) n / (n - 1)
    return [None if reward is None else (reward - mean) / divisor for reward in rewards]


def _deviation(rewards: Sequence[float]) -> float:
    """Return the standard deviation with Bessel's correction; 0 for fewer than two rewards."""
    if len(rewards) < 2:
        return 0.0
    mean = math.fsum(rewards) / len(rewards)
    return math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1))
