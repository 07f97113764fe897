"""Dr. GRPO: GRPO's clipped policy gradient, whose sum over tokens is divided by a constant and not by lengths.

In: the tokens of one micro-batch. Out: the loss with GRPO's sums. Runs in every rank of the learner, once a
micro-batch. The constant is the section's `aggregate: constant`, with `constant_length` tokens a completion.
"""

# T tokens of a micro-batch.

from __future__ import annotations

from config.learner.objective import DrGrpoConfig
from learner.objective.clipping import Clip, clipped_loss
from learner.objective.importance_ratio import log_ratio
from learner.objective.objective import Loss, TokenBatch


class DrGrpo:
    """The objective with the clips of the configuration."""

    needs_start_logprobs = False

    def __init__(self, config: DrGrpoConfig) -> None:
        self._clip = Clip(low=config.clip_low, high=config.clip_high)

    def loss(self, tokens: TokenBatch) -> Loss:
        """Return the clipped policy gradient of one micro-batch.

        Source: Dr. GRPO, arXiv:2503.20783, sec. 3.2: eq. 3 of GRPO without `1 / |o_i|` and without the division of the
            advantage by the group's deviation.
        """
        ratio_T = log_ratio(tokens.logprobs_T, tokens.sampled_logprobs_T, tokens.loss_mask_T).exp()
        return clipped_loss(tokens, ratio_T, self._clip)
