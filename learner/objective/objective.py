"""The seam of the loss: an objective gets the tokens of one micro-batch, and returns a loss.

In: the tokens of one micro-batch, with their log-probabilities now and when they were sampled. Out: a scalar with the
gradient, and named sums for the metrics. Runs in every rank of the learner, once a micro-batch. An objective keeps no
state between steps and does not communicate: the replay of a journal depends on both.
"""

# T tokens of a micro-batch.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenBatch:
    """The tokens of one micro-batch: packed sequences, one behind the other, on the device that trains."""

    logprobs_T: Tensor  # log-probability of each token now, nats, float32, with the gradient; 0 where masked
    entropy_T: Tensor  # of the distribution that each token is drawn from, nats, detached; 0 where masked
    sampled_logprobs_T: Tensor  # log-probability when the token was sampled, nats; arbitrary where masked
    advantages_T: Tensor  # constant along a completion; arbitrary where masked
    loss_mask_T: Tensor  # True where a token trains
    lags_T: Tensor  # policy versions between the sampling of the token and now
    position_ids_T: Tensor  # place in the sequence; 0 begins a new sequence
    num_tokens: int  # trained tokens over all ranks and micro-batches, at least 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loss:
    """The loss of one micro-batch, and its part of the metrics.

    Attributes:
        value: scalar with the gradient: this micro-batch's share of the mean over the global batch.
        sums: by the metric's name, a detached scalar: the sum over the trained tokens. The metric is the sum over all
            micro-batches and ranks, divided by the trained tokens.
        maxima: by the metric's name, a detached scalar. The metric is the largest over all micro-batches and ranks.
    """

    value: Tensor
    sums: Mapping[str, Tensor] = field(default_factory=dict)
    maxima: Mapping[str, Tensor] = field(default_factory=dict)


class Objective(Protocol):
    """A loss on tokens. Names of sums and maxima are the same for every micro-batch, also for an empty one."""

    def loss(self, tokens: TokenBatch) -> Loss:
        """Return the loss of one micro-batch, whose mask may be False everywhere."""
        ...
