"""DPPO: a policy gradient on tokens whose probability has not moved too far, whatever their ratio.

In: the tokens of one micro-batch. Out: the loss, the mean ratio, and the share of tokens that the mask stopped. Runs in
every rank of the learner, once a micro-batch. No state, no communication.
"""

# T tokens of a micro-batch.

from __future__ import annotations

import torch
from torch import Tensor

from config.learner.objective import DppoConfig
from learner.objective.clipping import ratio_metrics
from learner.objective.importance_ratio import log_ratio
from learner.objective.objective import Loss, TokenBatch

SMALLEST = 1e-8  # added to a probability before its logarithm


class Dppo:
    """The objective with the bounds of the configuration."""

    needs_start_logprobs = False

    def __init__(self, config: DppoConfig) -> None:
        self._config = config

    def loss(self, tokens: TokenBatch) -> Loss:
        """Return the masked policy gradient of one micro-batch.

        A token with a positive advantage is masked where its probability has risen too far, one with a negative
        advantage where it has fallen too far.

        Returns:
            The loss, with the sums `ratio_mean`, `clip_fraction_low` and `clip_fraction_high`, and `ratio_max`.
        Source: DPPO, arXiv:2602.04879, with its binary total variation or binary KL divergence, and the truncated
            weight of sec. 5.4.
        """
        config, mask_T = self._config, tokens.loss_mask_T
        now_T = torch.where(mask_T, tokens.logprobs_T.detach(), 0.0)
        then_T = torch.where(mask_T, tokens.sampled_logprobs_T, 0.0)
        moved_T = _total_variation(now_T, then_T) if config.divergence == "tv" else _kl(now_T, then_T)
        advantages_T = torch.where(mask_T, tokens.advantages_T, 0.0)
        too_high_T = (advantages_T > 0) & (now_T > then_T) & (moved_T > config.max_high)
        too_low_T = (advantages_T < 0) & (now_T < then_T) & (moved_T > config.max_low)
        ratio_T = log_ratio(now_T, then_T, mask_T).exp()
        weight_T = torch.where(too_high_T | too_low_T, 0.0, ratio_T.clamp(max=config.max_weight))
        sums, maxima = ratio_metrics(ratio_T, mask_T)
        sums |= {"clip_fraction_low": too_low_T.sum(), "clip_fraction_high": too_high_T.sum()}
        return Loss(
            value=-tokens.aggregate(weight_T * advantages_T * tokens.logprobs_T), sums=sums, maxima=maxima
        )


def _total_variation(now_T: Tensor, then_T: Tensor) -> Tensor:
    """Return the total variation between two binary distributions: this token, or any other."""
    return (now_T.exp() - then_T.exp()).abs()


def _kl(now_T: Tensor, then_T: Tensor) -> Tensor:
    """Return KL(then || now) between two binary distributions, nats: this token, or any other."""
    now_p_T, then_p_T = now_T.exp(), then_T.exp()
    others_T = ((1 - then_p_T + SMALLEST) / (1 - now_p_T + SMALLEST)).log()
    return then_p_T * (then_T - now_T) + (1 - then_p_T) * others_T
