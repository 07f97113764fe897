"""Clip a policy gradient by its importance ratio, for the losses of PPO's family.

In: each token's ratio and advantage. Out: the clipped loss, and the shares of tokens that each clip stopped. Pure; used
by the losses.
"""

# T tokens of a micro-batch.

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from learner.objective.objective import Loss, TokenBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """The bounds of PPO's clip.

    Attributes:
        low: the gain is clipped below a ratio of 1 - low (for a negative advantage).
        high: the gain is clipped above a ratio of 1 + high (for a positive advantage).
        dual: bound on the loss of a token with a negative advantage, as a multiple of that advantage; None: no bound.
    """

    low: float
    high: float
    dual: float | None = None


def clipped_loss(tokens: TokenBatch, ratio_T: Tensor, clip: Clip, *, factor_T: Tensor | None = None) -> Loss:
    """Return the clipped policy gradient of one micro-batch.

    Args:
        tokens: the micro-batch.
        ratio_T: importance ratio of each token, with the gradient; finite where the mask is False.
        clip: the bounds.
        factor_T: weight of each token's loss, detached; None: 1.
    Returns:
        The loss, with the sums `ratio_mean`, `clip_fraction_low`, `clip_fraction_high` and `clip_fraction_dual`, and
        the maximum `ratio_max`. A clip is counted only where it stops the gradient.
    Source: PPO, arXiv:1707.06347, eq. 7; dual clip from arXiv:1912.09729, eq. 5.
    """
    mask_T = tokens.loss_mask_T
    advantages_T = torch.where(mask_T, tokens.advantages_T, 0.0)
    clipped_T = ratio_T.clamp(1 - clip.low, 1 + clip.high)
    surrogate_T = torch.minimum(ratio_T * advantages_T, clipped_T * advantages_T)
    if clip.dual is not None:
        bounded_T = torch.maximum(surrogate_T, clip.dual * advantages_T)
        surrogate_T = torch.where(advantages_T < 0, bounded_T, surrogate_T)
    if factor_T is not None:
        surrogate_T = surrogate_T * factor_T
    sums, maxima = _metrics(ratio_T.detach(), advantages_T, mask_T, clip)
    return Loss(value=-tokens.aggregate(surrogate_T), sums=sums, maxima=maxima)


def _metrics(
    ratio_T: Tensor, advantages_T: Tensor, mask_T: Tensor, clip: Clip
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    sums, maxima = ratio_metrics(ratio_T, mask_T)
    negative_T, positive_T = advantages_T < 0, advantages_T > 0
    beyond_dual_T = ratio_T > clip.dual if clip.dual is not None else torch.zeros_like(mask_T)
    sums |= {
        "clip_fraction_low": (negative_T & (ratio_T < 1 - clip.low)).sum(),
        "clip_fraction_high": (positive_T & (ratio_T > 1 + clip.high)).sum(),
        "clip_fraction_dual": (negative_T & beyond_dual_T).sum(),
    }
    return sums, maxima


def ratio_metrics(ratio_T: Tensor, mask_T: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the sum `ratio_mean` and the maximum `ratio_max` of the trained tokens.

    Args:
        ratio_T: each token's ratio, detached.
        mask_T: True where a token trains.
    """
    trained_T = torch.where(mask_T, ratio_T, 0.0)
    return {"ratio_mean": trained_T.sum()}, {
        "ratio_max": trained_T.max() if trained_T.numel() else trained_T.sum()
    }
