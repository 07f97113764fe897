"""REINFORCE with a truncated importance weight: a policy gradient that tolerates lag of the sampler.

In: the tokens of one micro-batch. Out: the loss, the mean ratio, and the share of tokens whose weight was truncated.
Runs in every rank of the learner, once a micro-batch. No state, no communication.
"""

# T tokens of a micro-batch.

from __future__ import annotations

import torch

from config.learner.objective import ReinforceConfig
from learner.objective.clipping import ratio_metrics
from learner.objective.importance_ratio import log_ratio
from learner.objective.objective import Loss, TokenBatch


class Reinforce:
    """The objective with the bound of the configuration."""

    needs_start_logprobs = False

    def __init__(self, config: ReinforceConfig) -> None:
        self._max_weight = config.max_weight

    def loss(self, tokens: TokenBatch) -> Loss:
        """Return the weighted policy gradient of one micro-batch.

        Returns:
            The loss, with the sums `ratio_mean` and `clip_fraction_high`, and the maximum `ratio_max`.
        Source: REINFORCE, R. J. Williams, Machine Learning 8 (1992); a weight truncated from above as in IMPALA,
            arXiv:1802.01561.
        """
        mask_T = tokens.loss_mask_T
        ratio_T = log_ratio(tokens.logprobs_T.detach(), tokens.sampled_logprobs_T, mask_T).exp()
        gain_T = torch.where(mask_T, tokens.advantages_T, 0.0) * tokens.logprobs_T
        truncated_T = torch.zeros_like(mask_T)
        if self._max_weight is not None:
            gain_T = gain_T * ratio_T.clamp(max=self._max_weight)
            truncated_T = mask_T & (ratio_T > self._max_weight)
        sums, maxima = ratio_metrics(ratio_T, mask_T)
        return Loss(
            value=-tokens.aggregate(gain_T),
            sums=sums | {"clip_fraction_high": truncated_T.sum()},
            maxima=maxima,
        )
