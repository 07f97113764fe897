"""GSPO: the clipped policy gradient on one ratio for a whole segment, the geometric mean of its tokens' ratios.

In: the tokens of one micro-batch. Out: the loss with GRPO's sums, counted in tokens. Runs in every rank of the learner,
once a micro-batch. No state, no communication.
"""

# T tokens of a micro-batch.

from __future__ import annotations

from config.learner.objective import GspoConfig
from learner.objective.clipping import Clip, clipped_loss
from learner.objective.importance_ratio import log_ratio
from learner.objective.objective import Loss, TokenBatch


class Gspo:
    """The objective with the clips of the configuration."""

    needs_start_logprobs = False

    def __init__(self, config: GspoConfig) -> None:
        self._clip = Clip(low=config.clip_low, high=config.clip_high)

    def loss(self, tokens: TokenBatch) -> Loss:
        """Return the clipped policy gradient of one micro-batch.

        Each token has its segment's ratio, with the gradient of its own log-probability: the paper's GSPO-token. The
        paper's sequence is a segment here: an answer of one turn is one, an episode may have several. With one
        advantage for a completion, value and gradient equal those of the sequence form.

        Source: GSPO, arXiv:2507.18071, eq. 5 to 7 and 13 to 14.
        """
        log_ratio_T = log_ratio(tokens.logprobs_T, tokens.sampled_logprobs_T, tokens.loss_mask_T)
        own_T = log_ratio_T - log_ratio_T.detach()  # 0, with the gradient
        ratio_T = (tokens.sequence_means(log_ratio_T) + own_T).exp()
        return clipped_loss(tokens, ratio_T, self._clip)
