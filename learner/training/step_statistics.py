"""Compute the metrics of an optimizer step: sums over micro-batches and ranks, then means.

In: each micro-batch's tokens, and the loss with its named sums. Out: the numbers of one line of `metrics.jsonl`. Used
by the backend in every rank. Nothing here changes the gradient or waits for the device.
"""

# T tokens of a micro-batch.

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from learner.objective.importance_ratio import k3_divergence
from learner.objective.objective import Loss, TokenBatch
from learner.training.backend import MISMATCH_KL, OF, RATIO_BIN, RATIO_EDGES
from learner.training.batch import Batch
from learner.training.mismatch import Mismatch
from learner.training.process_group import Reduces

Sums = dict[str, Tensor]  # by name, float64 scalars on the device


class StepStatistics:
    """The sums of one optimizer step, on the device: no micro-batch waits for a transfer."""

    def __init__(self, batch: Batch) -> None:
        """Start with empty sums.

        Args:
            batch: the rank's shard of the step.
        """
        self._mismatch = Mismatch(batch)
        self._sums: Sums = {}
        self._named: Sums = {}  # of the objective
        self._maxima: Sums = {}  # of the objective
        self._bins: Tensor | None = None  # tokens by importance ratio
        self._has_rejections = False

    def add(self, tokens: TokenBatch, loss: Loss, sequence_ids_T: NDArray[np.int32]) -> None:
        """Add the sums of one micro-batch that trains.

        Args:
            tokens: the micro-batch.
            loss: of it.
            sequence_ids_T: the completion of each token in the global batch.
        """
        if not self._has_rejections:
            self.add_mismatch(tokens, sequence_ids_T)
        _add(
            self._sums,
            {
                "tokens": tokens.loss_mask_T.sum(),
                "loss": loss.value.detach(),
                "entropy": tokens.entropy_T.sum(),
            },
        )
        _add(self._named, loss.sums)
        for name, value in loss.maxima.items():
            own = value.detach().double()
            self._maxima[name] = torch.maximum(self._maxima[name], own) if name in self._maxima else own

    def add_mismatch(self, tokens: TokenBatch, sequence_ids_T: NDArray[np.int32]) -> None:
        """Add the difference of learner and sampler in a micro-batch. `add` does this where nothing is rejected."""
        self._mismatch.add(tokens, sequence_ids_T)
        k3_T = k3_divergence(tokens.logprobs_T, tokens.sampled_logprobs_T, tokens.loss_mask_T)
        is_fresh_T = tokens.loss_mask_T & (tokens.lags_T == 0)
        own = _ratio_bins(tokens)
        self._bins = own if self._bins is None else self._bins + own
        _add(
            self._sums,
            {
                "sampled": tokens.loss_mask_T.sum(),
                "k3": k3_T.sum(),
                "k3_lag_0": torch.where(is_fresh_T, k3_T, 0.0).sum(),
                "tokens_lag_0": is_fresh_T.sum(),
            },
        )

    def add_rejected(self, tokens: Tensor) -> None:
        """Add the number of tokens rejected from one micro-batch before the step. The caller adds their mismatch."""
        self._has_rejections = True
        _add(self._sums, {"rejected": tokens})

    def means(self, ranks: Reduces, *, optimizer_steps: int = 1) -> dict[str, float]:
        """Return the numbers of the global batch, equal on all ranks; a collective.

        Args:
            ranks: the ranks' channel.
            optimizer_steps: optimizer steps on the batch; `loss` is their mean.
        Returns:
            `loss`, `tokens`, `entropy`, `sampler_kl`, and the objective's own. `sampler_kl` is over all tokens,
            rejected ones included. `mismatch_kl` is over the tokens of lag 0, where learner and sampler should agree up
            to rounding; it is missing where no token has lag 0. `rejected_fraction` is the share of sampled tokens that
            the correction rejected; it is missing where none can be. `ratio_bin@N` is the number of tokens in a bin of
            the ratio to the sampler. `Mismatch.metrics` adds the numbers by generator.
        """
        sums = _reduced(self._sums | {f".{name}": value for name, value in self._named.items()}, ranks)
        tokens = max(1.0, sums["tokens"])
        metrics = {
            "loss": sums["loss"] / optimizer_steps,
            "tokens": sums["tokens"],
            "entropy": sums["entropy"] / tokens,
            **{name.removeprefix("."): value / tokens for name, value in sums.items() if name[0] == "."},
            **_reduced(self._maxima, ranks, largest=True),
            "sampler_kl": sums["k3"] / max(1.0, sums["sampled"]),
        }
        if self._bins is not None:
            counts = ranks.reduce(self._bins.cpu()).tolist()
            metrics |= {f"{RATIO_BIN}{OF}{index}": float(count) for index, count in enumerate(counts)}
        if "rejected" in sums:
            metrics["rejected_fraction"] = sums["rejected"] / max(1.0, sums["sampled"])
        if sums["tokens_lag_0"]:
            metrics[MISMATCH_KL] = sums["k3_lag_0"] / sums["tokens_lag_0"]
        return metrics | self._mismatch.metrics(ranks)


def _ratio_bins(tokens: TokenBatch) -> Tensor:
    """Return the trained tokens in each bin of the ratio to the sampler: one bin more than edges."""
    log_T = (tokens.logprobs_T.detach() - tokens.sampled_logprobs_T).double()
    edges = torch.tensor(RATIO_EDGES, dtype=torch.float64, device=log_T.device).log()
    # Untrained tokens have a bin of their own, which is cut off, so that nothing waits for the device.
    bins_T = torch.where(tokens.loss_mask_T, torch.bucketize(log_T, edges), len(RATIO_EDGES) + 1)
    counts = torch.zeros(len(RATIO_EDGES) + 2, dtype=torch.int64, device=log_T.device)
    return counts.scatter_add(0, bins_T, torch.ones_like(bins_T))[:-1]


def _add(to: Sums, values: Mapping[str, Tensor]) -> None:
    for name, value in values.items():
        own = value.detach().double()
        to[name] = to[name] + own if name in to else own


def _reduced(values: Sums, ranks: Reduces, *, largest: bool = False) -> dict[str, float]:
    """Reduce all values with one transfer from the device and one collective."""
    if not values:
        return {}
    reduced = ranks.reduce(torch.stack(list(values.values())).cpu(), largest=largest)
    return dict(zip(values, reduced.tolist(), strict=True))
