"""Reject tokens and segments on which the learner and the sampler disagree too much.

In: log-probabilities of the learner at the start of a step, and of the sampler. Out: which of the trained tokens are
kept. Pure; used by the backend before a step, since rejected tokens must not be in any denominator of the global batch.

Source: the names are those of verl's rollout correction. `token_k1` is IcePop's band, arXiv:2510.18855, sec. 3;
`seq_sum_k1` with an upper bound is TRL's `sequence_mask`; `seq_mean_k1` is the geometric mean.
"""

# T tokens of a micro-batch.

from __future__ import annotations

import math
from typing import assert_never

from torch import Tensor

from config.learner.objective import CorrectionConfig
from learner.objective.importance_ratio import log_ratio
from learner.objective.objective import TokenBatch


def kept_tokens(tokens: TokenBatch, correction: CorrectionConfig) -> Tensor:
    """Return [T], True where a token trains and every rule of `rollout_rs` keeps it.

    Args:
        tokens: the micro-batch, with the learner's log-probabilities at the start of the step.
        correction: the rules, each with its band of ratios. The bands include their bounds.
    """
    log_T = log_ratio(tokens.at_start(), tokens.sampled_logprobs_T, tokens.loss_mask_T)
    kept_T = tokens.loss_mask_T
    for rule in correction.rollout_rs:
        match rule:
            case "token_k1":
                kept_T = kept_T & _within(log_T, correction.token_k1)
            case "seq_sum_k1":
                kept_T = kept_T & _within(tokens.sequence_sums(log_T), correction.seq_sum_k1)
            case "seq_mean_k1":
                kept_T = kept_T & _within(tokens.sequence_means(log_T), correction.seq_mean_k1)
            case _:
                assert_never(rule)
    return kept_T


def _within(log_T: Tensor, band: tuple[float, float]) -> Tensor:
    low, high = band
    lowest = math.log(low) if low > 0 else -math.inf
    return (log_T >= lowest) & (log_T <= math.log(high))
