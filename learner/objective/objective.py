"""Define the interface of the loss: an objective gets the tokens of one micro-batch, and returns a loss.

In: the tokens of one micro-batch, with their log-probabilities now and when sampled. Out: a scalar with the gradient,
and named sums for the metrics. Runs in every rank of the learner, once per micro-batch. An objective keeps no state
between steps and does not communicate: the replay of a journal depends on both.
"""

# T tokens of a micro-batch, S sequences of it.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenBatch:
    """The tokens of one micro-batch: concatenated sequences, on the training device."""

    logprobs_T: Tensor  # log-probability of each token now, nats, float32, with the gradient; 0 where masked
    entropy_T: (
        Tensor  # of the distribution of each token, nats; 0 where masked; a gradient only for `entropy_coef`
    )
    sampled_logprobs_T: Tensor  # log-probability when the token was sampled, nats; arbitrary where masked
    advantages_T: Tensor  # constant along a completion; arbitrary where masked
    loss_mask_T: Tensor  # True where a token trains
    lags_T: Tensor  # policy versions between the sampling of the token and now
    position_ids_T: Tensor  # position in the sequence; 0 begins a new sequence
    num_tokens: int  # trained tokens over all ranks and micro-batches, at least 1
    weights_T: Tensor | None = None  # each token's share of the global batch; None: 1 / num_tokens
    start_logprobs_T: Tensor | None = None  # at the start of the step, nats; None: `logprobs_T` is from there
    reference_logprobs_T: Tensor | None = None  # under the reference model, nats; None: there is none
    kl_coef: float = 0.0  # weight of the divergence to the reference in the loss
    sequence_lengths_S: Tensor | None = None  # int64, prompts included; None: from `position_ids_T`

    def __post_init__(self) -> None:
        if self.num_tokens < 1:
            raise ValueError(f"num_tokens must be positive, got {self.num_tokens}")

    def at_start(self) -> Tensor:
        """Return each token's log-probability under the learner at the start of the step, nats, detached."""
        return self.logprobs_T.detach() if self.start_logprobs_T is None else self.start_logprobs_T

    def aggregate(self, values_T: Tensor) -> Tensor:
        """Return this micro-batch's share of the mean over the global batch, as the objective aggregates.

        Args:
            values_T: one value per token; arbitrary where masked.
        """
        if self.weights_T is None:
            return torch.where(self.loss_mask_T, values_T, 0.0).sum() / self.num_tokens
        return torch.where(self.loss_mask_T, values_T * self.weights_T, 0.0).sum()

    def sequence_sums(self, values_T: Tensor) -> Tensor:
        """Return, at each token, the sum over the trained tokens of its sequence; without a gradient.

        The sum runs in a fixed order, so that a replay is bit-identical. Atomics (`index_add`) on a GPU would not be.
        """
        lengths_S = self.sequence_lengths_S
        if lengths_S is None:
            lengths_S = lengths_of(self.position_ids_T)
        values_T = torch.where(self.loss_mask_T, values_T.detach(), 0.0)
        sums_S = torch.segment_reduce(values_T, "sum", lengths=lengths_S)
        return sums_S.repeat_interleave(lengths_S, output_size=len(values_T))

    def sequence_means(self, values_T: Tensor) -> Tensor:
        """Return, at each token, the mean over the trained tokens of its sequence; without a gradient."""
        counts_T = self.sequence_sums(torch.ones_like(values_T))
        return self.sequence_sums(values_T) / counts_T.clamp(min=1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loss:
    """The loss of one micro-batch, and its part of the metrics.

    Attributes:
        value: scalar with the gradient: this micro-batch's share of the mean over the global batch.
        sums: metric name -> detached scalar: the sum over the trained tokens. The metric is the sum over all
            micro-batches and ranks, divided by the number of trained tokens.
        maxima: metric name -> detached scalar. The metric is the maximum over all micro-batches and ranks.
    """

    value: Tensor
    sums: Mapping[str, Tensor] = field(default_factory=dict)
    maxima: Mapping[str, Tensor] = field(default_factory=dict)


class Objective(Protocol):
    """A loss on tokens. The names of sums and maxima are the same for every micro-batch, also for an empty one.

    The class attribute `needs_start_logprobs = False` says that the loss never calls `TokenBatch.at_start`. A step of
    several optimizer steps then saves a pass over all tokens before the first.
    """

    def loss(self, tokens: TokenBatch) -> Loss:
        """Return the loss of one micro-batch, whose mask may be False everywhere."""
        ...


def needs_start_logprobs(objective: Objective) -> bool:
    """Return whether an objective needs the log-probabilities at the start of the step; True by default."""
    return bool(getattr(objective, "needs_start_logprobs", True))


def lengths_of(position_ids_T: Tensor) -> Tensor:
    """Return [S], the length of each packed sequence, int64. On a GPU this waits for the device."""
    starts_S = (position_ids_T == 0).nonzero().squeeze(-1)
    end_1 = torch.tensor([len(position_ids_T)], device=position_ids_T.device)
    return torch.cat([starts_S, end_1]).diff()
