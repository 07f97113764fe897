"""The policy-gradient objective: a pure function of log-probabilities and advantages.

In: log-probabilities of the learner and of the sampler, advantages, a mask. Out: the loss, and detached sums from which
the step's statistics are made. Runs in every rank of the learner, once a micro-batch. No state, no communication.
"""

# B rows of a micro-batch, T tokens of a row.

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LOG_RATIO_LIMIT = 20.0  # e^20 is far beyond any clip, and finite: one broken token must not make the step NaN


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossStatistics:
    """Detached scalars over the trained tokens of one micro-batch. Sums, so that they add up over rows and ranks."""

    tokens: Tensor  # trained tokens
    ratio_sum: Tensor  # of importance ratios
    ratio_max: Tensor  # the largest of them, 0 without a token
    clipped_low: Tensor  # tokens with A < 0 and a ratio below 1 - clip_low: no gradient
    clipped_high: Tensor  # tokens with A > 0 and a ratio above 1 + clip_high: no gradient
    clipped_dual: Tensor  # tokens with A < 0 and a ratio above dual_clip: no gradient


def log_ratio(logprobs_BT: Tensor, sampled_logprobs_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Logarithm of the importance ratio, nats; 0 where the mask is False, limited to what `exp` keeps finite.

    The mask comes before anything else: what stands in an untrained place may be inf or NaN, and inf * 0 is NaN.
    """
    difference_BT = torch.where(mask_BT, logprobs_BT - sampled_logprobs_BT, 0.0)
    return difference_BT.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def k3_divergence(logprobs_BT: Tensor, sampled_logprobs_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Per-token estimate of KL(sampler || learner) from the sampler's own tokens, nats, >= 0, 0 where masked; detached.

    Source: the estimator k3 = r - 1 - ln r of J. Schulman, "Approximating KL Divergence" (2020).
    """
    log_ratio_BT = log_ratio(logprobs_BT.detach(), sampled_logprobs_BT, mask_BT)
    return log_ratio_BT.expm1() - log_ratio_BT


def grpo_loss(
    logprobs_BT: Tensor,
    sampled_logprobs_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
    num_tokens: int,
) -> tuple[Tensor, LossStatistics]:
    """Clipped policy gradient, summed over this micro-batch and divided by the trained tokens of the global batch.

    The ratio is taken to the policy that sampled, not to a recomputed one, so it corrects both for lag and for the
    numerical difference between the two engines.

    Args:
        logprobs_BT: log-probability of each token now, nats, float32, carries the gradient.
        sampled_logprobs_BT: the same when it was sampled, nats; arbitrary where the mask is False.
        advantages_BT: per token, constant along a completion; arbitrary where the mask is False.
        mask_BT: True where a token trains.
        clip_low: no gain below a ratio of 1 - clip_low (for a negative advantage).
        clip_high: no gain beyond a ratio of 1 + clip_high (for a positive advantage).
        dual_clip: bound on the loss of a token with a negative advantage, as a multiple of it; None: no bound.
        num_tokens: trained tokens over all ranks and micro-batches, so that accumulation equals one big batch.
    Returns:
        The loss (a scalar with the gradient) and the detached statistics.
    Raises:
        ValueError: num_tokens < 1.
    Source: DeepSeekMath, arXiv:2402.03300, eq. 3 without its KL term; token mean and clip-higher from DAPO,
        arXiv:2503.14476, sec. 3; dual clip from arXiv:1912.09729, eq. 5.
    """
    if num_tokens < 1:
        raise ValueError(f"num_tokens must be positive, got {num_tokens}")
    advantages_BT = torch.where(mask_BT, advantages_BT, 0.0)
    ratio_BT = log_ratio(logprobs_BT, sampled_logprobs_BT, mask_BT).exp()
    clipped_BT = ratio_BT.clamp(1 - clip_low, 1 + clip_high)
    surrogate_BT = torch.minimum(ratio_BT * advantages_BT, clipped_BT * advantages_BT)
    if dual_clip is not None:
        bounded_BT = torch.maximum(surrogate_BT, dual_clip * advantages_BT)
        surrogate_BT = torch.where(advantages_BT < 0, bounded_BT, surrogate_BT)
    loss = -torch.where(mask_BT, surrogate_BT, 0.0).sum() / num_tokens
    statistics = _statistics(
        ratio_BT.detach(), advantages_BT, mask_BT, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )
    return loss, statistics


def _statistics(
    ratio_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
) -> LossStatistics:
    """Count what the clips cut off, where it mattered: only on the side on which they stop the gradient."""
    negative_BT, positive_BT = advantages_BT < 0, advantages_BT > 0
    trained_ratio_BT = torch.where(mask_BT, ratio_BT, 0.0)
    beyond_dual_BT = ratio_BT > dual_clip if dual_clip is not None else torch.zeros_like(mask_BT)
    return LossStatistics(
        tokens=mask_BT.sum(),
        ratio_sum=trained_ratio_BT.sum(),
        ratio_max=trained_ratio_BT.max() if trained_ratio_BT.numel() else trained_ratio_BT.sum(),
        clipped_low=(negative_BT & (ratio_BT < 1 - clip_low)).sum(),
        clipped_high=(positive_BT & (ratio_BT > 1 + clip_high)).sum(),
        clipped_dual=(negative_BT & beyond_dual_BT).sum(),
    )
