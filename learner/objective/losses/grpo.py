"""GRPO with clip-higher and a token mean over the global batch: a pure function of log-probabilities and advantages.

In: the tokens of one micro-batch. Out: the loss, the mean ratio, and the share of tokens that each clip stopped. Runs
in every rank of the learner, once a micro-batch. No state, no communication.
"""

# B micro-batches or none, T tokens.

from __future__ import annotations

import torch
from torch import Tensor

from config.learner import GrpoConfig
from learner.objective.importance_ratio import log_ratio
from learner.objective.objective import Loss, TokenBatch


class Grpo:
    """The objective with the clips of the configuration."""

    def __init__(self, config: GrpoConfig) -> None:
        self._config = config

    def loss(self, tokens: TokenBatch) -> Loss:
        """Return the clipped policy gradient of one micro-batch."""
        return grpo_loss(
            tokens.logprobs_T,
            tokens.sampled_logprobs_T,
            tokens.advantages_T,
            tokens.loss_mask_T,
            clip_low=self._config.clip_low,
            clip_high=self._config.clip_high,
            dual_clip=self._config.dual_clip,
            num_tokens=tokens.num_tokens,
        )


def grpo_loss(
    logprobs_BT: Tensor,
    sampled_logprobs_BT: Tensor,
    advantages_BT: Tensor,
    loss_mask_BT: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
    num_tokens: int,
) -> Loss:
    """Return the clipped policy gradient: this micro-batch's sum, divided by the trained tokens of the global batch.

    The ratio is taken to the policy that sampled, and not to a recomputed one. So the ratio corrects both for lag and
    for the numerical difference between the two engines.

    Args:
        logprobs_BT: log-probability of each token now, nats, float32, carries the gradient.
        sampled_logprobs_BT: the same when the token was sampled, nats; arbitrary where the mask is False.
        advantages_BT: per token, constant along a completion; arbitrary where the mask is False.
        loss_mask_BT: True where a token trains.
        clip_low: no gain below a ratio of 1 - clip_low (for a negative advantage).
        clip_high: no gain beyond a ratio of 1 + clip_high (for a positive advantage).
        dual_clip: bound on the loss of a token with a negative advantage, as a multiple of that advantage; None: no
            bound.
        num_tokens: trained tokens over all ranks and micro-batches, so that accumulation equals one big batch.
    Returns:
        The loss, with the sums `ratio_mean`, `clip_fraction_low`, `clip_fraction_high` and `clip_fraction_dual`, and
        the maximum `ratio_max`. A clip is counted only where it stops the gradient.
    Raises:
        ValueError: num_tokens < 1.
    Source: DeepSeekMath, arXiv:2402.03300, eq. 3 without its KL term; token mean and clip-higher from DAPO,
        arXiv:2503.14476, sec. 3; dual clip from arXiv:1912.09729, eq. 5.
    """
    if num_tokens < 1:
        raise ValueError(f"num_tokens must be positive, got {num_tokens}")
    advantages_BT = torch.where(loss_mask_BT, advantages_BT, 0.0)
    ratio_BT = log_ratio(logprobs_BT, sampled_logprobs_BT, loss_mask_BT).exp()
    clipped_BT = ratio_BT.clamp(1 - clip_low, 1 + clip_high)
    surrogate_BT = torch.minimum(ratio_BT * advantages_BT, clipped_BT * advantages_BT)
    if dual_clip is not None:
        bounded_BT = torch.maximum(surrogate_BT, dual_clip * advantages_BT)
        surrogate_BT = torch.where(advantages_BT < 0, bounded_BT, surrogate_BT)
    ratio_BT = ratio_BT.detach()
    trained_ratio_BT = torch.where(loss_mask_BT, ratio_BT, 0.0)
    negative_BT, positive_BT = advantages_BT < 0, advantages_BT > 0
    beyond_dual_BT = ratio_BT > dual_clip if dual_clip is not None else torch.zeros_like(loss_mask_BT)
    return Loss(
        value=-torch.where(loss_mask_BT, surrogate_BT, 0.0).sum() / num_tokens,
        sums={
            "ratio_mean": trained_ratio_BT.sum(),
            "clip_fraction_low": (negative_BT & (ratio_BT < 1 - clip_low)).sum(),
            "clip_fraction_high": (positive_BT & (ratio_BT > 1 + clip_high)).sum(),
            "clip_fraction_dual": (negative_BT & beyond_dual_BT).sum(),
        },
        maxima={"ratio_max": trained_ratio_BT.max() if trained_ratio_BT.numel() else trained_ratio_BT.sum()},
    )
