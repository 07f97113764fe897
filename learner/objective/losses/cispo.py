"""CISPO: a policy gradient on every token, whose importance weight is clipped and carries no gradient.

In: the tokens of one micro-batch. Out: the loss, the mean ratio, and the share of tokens whose weight was clipped. Runs
in every rank of the learner, once a micro-batch. No state, no communication. No token loses its gradient.
"""

# T tokens of a micro-batch.

from __future__ import annotations

import torch

from config.learner.objective import CispoConfig
from learner.objective.clipping import ratio_metrics
from learner.objective.importance_ratio import log_ratio
from learner.objective.objective import Loss, TokenBatch


class Cispo:
    """The objective with the bounds of the configuration."""

    needs_start_logprobs = False

    def __init__(self, config: CispoConfig) -> None:
        self._smallest = 0.0 if config.clip_low is None else 1 - config.clip_low
        self._largest = 1 + config.clip_high

    def loss(self, tokens: TokenBatch) -> Loss:
        """Return the weighted policy gradient of one micro-batch.

        Returns:
            The loss, with the sums `ratio_mean`, `clip_fraction_low` and `clip_fraction_high`, and `ratio_max`.
        Source: MiniMax-M1, arXiv:2506.13585, eq. 4 and 5.
        """
        mask_T = tokens.loss_mask_T
        ratio_T = log_ratio(tokens.logprobs_T.detach(), tokens.sampled_logprobs_T, mask_T).exp()
        weight_T = ratio_T.clamp(self._smallest, self._largest)
        advantages_T = torch.where(mask_T, tokens.advantages_T, 0.0)
        sums, maxima = ratio_metrics(ratio_T, mask_T)
        sums |= {
            "clip_fraction_low": (mask_T & (ratio_T < self._smallest)).sum(),
            "clip_fraction_high": (mask_T & (ratio_T > self._largest)).sum(),
        }
        return Loss(
            value=-tokens.aggregate(weight_T * advantages_T * tokens.logprobs_T), sums=sums, maxima=maxima
        )
