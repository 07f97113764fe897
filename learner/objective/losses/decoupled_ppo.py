"""Decoupled PPO: the clip is around the learner at the start of the step, and a weight corrects for the sampler.

In: the tokens of one micro-batch. Out: the loss with GRPO's sums, whose ratio is to the learner at the start of the
step, and the mean weight. Runs in every rank of the learner, once a micro-batch. No state, no communication.
"""

# T tokens of a micro-batch.

from __future__ import annotations

import torch
from torch import Tensor

from config.learner.objective import CorrectionConfig, DecoupledPpoConfig
from learner.objective.clipping import Clip, clipped_loss
from learner.objective.importance_ratio import LOG_RATIO_LIMIT, log_ratio
from learner.objective.objective import Loss, TokenBatch


class DecoupledPpo:
    """The objective with the clips and the correction of the configuration."""

    needs_start_logprobs = True

    def __init__(self, config: DecoupledPpoConfig) -> None:
        self._clip = Clip(low=config.clip_low, high=config.clip_high, dual=config.dual_clip)
        self._correction = config.correction

    def loss(self, tokens: TokenBatch) -> Loss:
        """Return the clipped and weighted policy gradient of one micro-batch.

        Source: J. Hilton et al., arXiv:2110.00641, eq. 3; for lag in AReaL, arXiv:2505.24298, eq. 5. The truncation is
            verl's `rollout_is`.
        """
        mask_T = tokens.loss_mask_T
        ratio_T = log_ratio(tokens.logprobs_T, tokens.at_start(), mask_T).exp()
        weight_T = _weight(tokens, self._correction)
        loss = clipped_loss(tokens, ratio_T, self._clip, factor_T=weight_T)
        weights = torch.where(mask_T, weight_T, 0.0)
        return Loss(
            value=loss.value, sums={**loss.sums, "importance_weight_mean": weights.sum()}, maxima=loss.maxima
        )


def _weight(tokens: TokenBatch, correction: CorrectionConfig) -> Tensor:
    """Return each token's weight: the learner at the start of the step to the sampler, truncated."""
    log_T = log_ratio(tokens.at_start(), tokens.sampled_logprobs_T, tokens.loss_mask_T)
    if correction.rollout_is is None:
        return torch.ones_like(log_T)
    if correction.rollout_is == "sequence":
        log_T = tokens.sequence_sums(log_T).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return log_T.exp().clamp(max=correction.rollout_is_threshold)
