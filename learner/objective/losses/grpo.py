"""GRPO with clip-higher: the clipped policy gradient on each token's ratio to the policy that sampled it.

In: the tokens of one micro-batch. Out: the loss, the mean ratio, and the share of tokens that each clip stopped. Runs
in every rank of the learner, once a micro-batch. No state, no communication.
"""

# T tokens of a micro-batch.

from __future__ import annotations

from config.learner.objective import GrpoConfig
from learner.objective.clipping import Clip, clipped_loss
from learner.objective.importance_ratio import log_ratio
from learner.objective.objective import Loss, TokenBatch


class Grpo:
    """The objective with the clips of the configuration."""

    needs_start_logprobs = False

    def __init__(self, config: GrpoConfig) -> None:
        self._clip = Clip(low=config.clip_low, high=config.clip_high, dual=config.dual_clip)

    def loss(self, tokens: TokenBatch) -> Loss:
        """Return the clipped policy gradient of one micro-batch.

        The ratio is taken to the policy that sampled, and not to a recomputed one. So the ratio corrects both for lag
        and for the numerical difference between the two engines.

        Source: DeepSeekMath, arXiv:2402.03300, eq. 3 without its KL term; token mean and clip-higher from DAPO,
            arXiv:2503.14476, sec. 3; dual clip from arXiv:1912.09729, eq. 5.
        """
        ratio_T = log_ratio(tokens.logprobs_T, tokens.sampled_logprobs_T, tokens.loss_mask_T).exp()
        return clipped_loss(tokens, ratio_T, self._clip)
