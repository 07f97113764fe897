"""Compute a token's importance ratio: the current policy to the policy that sampled the token.

In: log-probabilities of the learner and of the sampler, and the loss mask. Out: the logarithm of the ratio, and a
divergence estimate from it. Pure; used by the losses and by the step's statistics.
"""

# B micro-batches or none, T tokens.

from __future__ import annotations

import torch
from torch import Tensor

LOG_RATIO_LIMIT = 20.0  # e^20 is far beyond any clip, and finite: one broken token must not make the step NaN


def log_ratio(logprobs_BT: Tensor, sampled_logprobs_BT: Tensor, loss_mask_BT: Tensor) -> Tensor:
    """Return the logarithm of the importance ratio, nats, clamped so that `exp` is finite; 0 where the mask is False.

    The mask is applied first: a masked position may hold inf or NaN, and inf * 0 is NaN.
    """
    difference_BT = torch.where(loss_mask_BT, logprobs_BT - sampled_logprobs_BT, 0.0)
    return difference_BT.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def k3_divergence(logprobs_BT: Tensor, sampled_logprobs_BT: Tensor, loss_mask_BT: Tensor) -> Tensor:
    """Estimate KL(sampler || learner) at each token from the sampled tokens, nats, >= 0, detached.

    The estimate is 0 where the mask is False.

    Source: the estimator k3 = r - 1 - ln r of J. Schulman, "Approximating KL Divergence" (2020).
    """
    log_ratio_BT = log_ratio(logprobs_BT.detach(), sampled_logprobs_BT, loss_mask_BT)
    return log_ratio_BT.expm1() - log_ratio_BT
