"""Add the terms that any objective may have to its loss: a KL term, and an entropy bonus.

In: an objective, and the tokens of one micro-batch. Out: its loss with both terms, aggregated as the loss is. Runs in
every rank of the learner, once a micro-batch. No state, no communication.
"""

# T tokens of a micro-batch.

from __future__ import annotations

from config.learner.objective import AnyObjectiveConfig
from learner.objective.kl import kl_estimate
from learner.objective.objective import Loss, Objective, TokenBatch, needs_start_logprobs


class Regularized:
    """An objective with a KL term and an entropy bonus."""

    def __init__(self, objective: Objective, config: AnyObjectiveConfig) -> None:
        self._objective = objective
        self._config = config

    @property
    def needs_start_logprobs(self) -> bool:
        """As of the objective itself; neither term needs them."""
        return needs_start_logprobs(self._objective)

    def loss(self, tokens: TokenBatch) -> Loss:
        """Return the objective's loss with both terms, and the sum `reference_kl` where there is a reference."""
        loss = self._objective.loss(tokens)
        value, sums = loss.value, dict(loss.sums)
        if tokens.reference_logprobs_T is not None:
            kl_T = kl_estimate(
                tokens.logprobs_T, tokens.reference_logprobs_T, tokens.loss_mask_T, self._config.kl.estimator
            )
            value = value + tokens.kl_coef * tokens.aggregate(kl_T)
            sums["reference_kl"] = kl_T.detach().sum()
        if self._config.entropy_coef:
            value = value - self._config.entropy_coef * tokens.aggregate(tokens.entropy_T)
        return Loss(value=value, sums=sums, maxima=loss.maxima)
