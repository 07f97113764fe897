"""Estimate the KL divergence of the policy to a reference model.

In: log-probabilities of the sampled tokens under both. Out: one estimate per token, with the gradient. Pure; used by
every loss, and for rewards.

Source: J. Schulman, "Approximating KL Divergence" (2020), for k1, k2 and k3.
"""

# T tokens of a micro-batch.

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor

from config.learner.objective import KlEstimator
from learner.objective.importance_ratio import log_ratio


def kl_estimate(logprobs_T: Tensor, reference_T: Tensor, mask_T: Tensor, estimator: KlEstimator) -> Tensor:
    """Estimate KL(policy || reference) at each token from the token itself, nats; 0 where the mask is False.

    Args:
        logprobs_T: log-probability under the policy, nats, with the gradient.
        reference_T: log-probability under the reference, nats.
        mask_T: True where a token trains.
        estimator: `k1`: the difference of logarithms, unbiased and of either sign. `k2`: half its square. `k3`:
            unbiased and never negative. `abs`: the size of k1.
    """
    difference_T = log_ratio(logprobs_T, reference_T, mask_T)
    match estimator:
        case "k1":
            return difference_T
        case "k2":
            return difference_T.square() / 2
        case "k3":
            return torch.expm1(-difference_T) + difference_T
        case "abs":
            return difference_T.abs()
        case _:
            assert_never(estimator)
