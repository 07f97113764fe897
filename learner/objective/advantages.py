"""This module turns the rewards of one group into advantages, one number for each completion.

In: the rewards of a `ScoredGroup`, None where unscorable. Out: one number for each completion, None where the
completion must not train. Runs in the learner's rank 0, between the intake and the packing. Pure: only a wrong call
fails.
"""

# G completions of one group.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

SAME_REWARD = 1e-9  # rewards closer than this are equal: 1 / std must not blow rounding up to a signal


def has_variance(rewards: Sequence[float | None]) -> bool:
    """Return whether the scored completions of a group differ: without a difference a step learns nothing.

    Args:
        rewards: [G], None where unscorable.
    """
    scored = [reward for reward in rewards if reward is not None]
    return bool(scored) and max(scored) - min(scored) > SAME_REWARD


def group_advantages(rewards: Sequence[float | None], scale: Literal["none", "std"]) -> list[float | None]:
    """Centre the rewards of a group on the mean of its scored completions.

    Args:
        rewards: [G], None where unscorable.
        scale: `none`: the difference itself. `std`: divided by the standard deviation of the scored rewards, with
            Bessel's correction, as verl and TRL do, so that learning rates carry over.
    Returns:
        [G]; None where the reward is None, and all zeros where the rewards are equal.
    Source: GRPO, DeepSeekMath, arXiv:2402.03300, sec. 4.1.2; without the division: Dr. GRPO, arXiv:2503.20783.
    """
    scored = [reward for reward in rewards if reward is not None]
    if not has_variance(rewards):
        return [None if reward is None else 0.0 for reward in rewards]
    mean = math.fsum(scored) / len(scored)
    divisor = 1.0
    if scale == "std":
        divisor = math.sqrt(math.fsum((reward - mean) ** 2 for reward in scored) / (len(scored) - 1))
    return [None if reward is None else (reward - mean) / divisor for reward in rewards]
