"""Measure the difference between learner and sampler with the same weights, by generator.

In: each micro-batch's tokens. Out: for each generator the mean divergence and the largest difference, over tokens of
lag 0, where only rounding may differ. Used by the backend in every rank. Nothing here changes the gradient; it waits
for the device once per step.
"""

# T: tokens of a micro-batch. S: completions of the global batch. G: generators.

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from learner.objective.importance_ratio import k3_divergence
from learner.objective.objective import TokenBatch
from learner.training.backend import MISMATCH_KL, MISMATCH_MAX, OF
from learner.training.batch import Batch
from learner.training.process_group import Reduces


class Mismatch:
    """The measurements of one optimizer step's tokens, on the device until the step ends.

    Args:
        batch: the rank's shard of the step.
    """

    def __init__(self, batch: Batch) -> None:
        self._generators = batch.generators
        self._generator_ids_S = batch.generator_ids
        self._k3: list[Tensor] = []
        self._size: list[Tensor] = []
        self._ids: list[NDArray[np.int32]] = []

    def add(self, tokens: TokenBatch, sequence_ids_T: NDArray[np.int32]) -> None:
        """Add one micro-batch.

        Args:
            tokens: the micro-batch.
            sequence_ids_T: the completion of each token in the global batch.
        """
        fresh_T = tokens.loss_mask_T & (tokens.lags_T == 0)
        difference_T = tokens.logprobs_T.detach() - tokens.sampled_logprobs_T
        self._k3.append(k3_divergence(tokens.logprobs_T, tokens.sampled_logprobs_T, fresh_T))
        # -1 where no token is measured, since 0 is a difference.
        self._size.append(torch.where(fresh_T, difference_T.abs(), -1.0))
        self._ids.append(sequence_ids_T)

    def metrics(self, ranks: Reduces) -> dict[str, float]:
        """Return `mismatch_kl@NAME` and `mismatch_max@NAME` of each generator with tokens of lag 0; a collective.

        Both are in nats. `mismatch_max` without a name is the largest over all generators.
        """
        k3_N, size_N = (
            torch.cat(self._k3).double().cpu().numpy(),
            torch.cat(self._size).double().cpu().numpy(),
        )
        is_fresh_N = size_N >= 0
        of_N = self._generator_ids_S[np.concatenate(self._ids)] if len(self._generator_ids_S) else None
        count = len(self._generators)
        sums, largest = np.zeros((2, count)), np.full(count, -1.0)
        if of_N is not None:
            sums[0] = np.bincount(of_N, weights=k3_N, minlength=count)
            sums[1] = np.bincount(of_N[is_fresh_N], minlength=count)
            np.maximum.at(largest, of_N, size_N)
        divergence_G, tokens_G = ranks.reduce(torch.from_numpy(sums)).tolist()
        largest_G = ranks.reduce(torch.from_numpy(largest), largest=True).tolist()
        found: dict[str, float] = {}
        for name, divergence, tokens, size in zip(
            self._generators, divergence_G, tokens_G, largest_G, strict=True
        ):
            if tokens:
                found[f"{MISMATCH_KL}{OF}{name}"] = divergence / tokens
                found[f"{MISMATCH_MAX}{OF}{name}"] = size
                found[MISMATCH_MAX] = max(found.get(MISMATCH_MAX, 0.0), size)
        return found
