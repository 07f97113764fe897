"""What a step says of itself: sums over its micro-batches, then over the ranks, then means.

In: each micro-batch's loss, log-probabilities and the counts of `losses`. Out: the numbers of one line of
`metrics.jsonl`. Used by `learner.training.deepspeed` in every rank. Nothing here touches the gradient.
"""

# T tokens of a row.

from __future__ import annotations

from dataclasses import fields

import torch
from torch import Tensor

from learner.objective.losses import LossStatistics, k3_divergence
from learner.training.process_group import CommandChannel

_COUNTS = tuple(field.name for field in fields(LossStatistics) if field.name != "ratio_max")
_SUMS = (*_COUNTS, "loss", "entropy", "k3", "k3_lag_0", "tokens_lag_0")


class StepStatistics:
    """Sums of one optimizer step, kept on the device: no micro-batch waits for a transfer."""

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(len(_SUMS), dtype=torch.float64, device=device)
        self._ratio_max = torch.zeros(1, dtype=torch.float64, device=device)

    def add(
        self,
        loss: Tensor,
        statistics: LossStatistics,
        *,
        logprobs_T: Tensor,
        sampled_logprobs_T: Tensor,
        entropy_T: Tensor,
        mask_T: Tensor,
        lags_T: Tensor,
    ) -> None:
        """Count one micro-batch. Entropy is 0 where the mask is False; the loss is its share of the global mean."""
        k3_T = k3_divergence(logprobs_T, sampled_logprobs_T, mask_T)
        is_fresh_T = mask_T & (lags_T == 0)
        values = [getattr(statistics, name) for name in _COUNTS]
        values += [loss.detach(), entropy_T.sum(), k3_T.sum(), k3_T[is_fresh_T].sum(), is_fresh_T.sum()]
        self._sums += torch.stack([value.double() for value in values])
        self._ratio_max = torch.maximum(self._ratio_max, statistics.ratio_max.double())

    def means(self, channel: CommandChannel) -> dict[str, float]:
        """The global batch's numbers, alike on all ranks; a collective.

        Returns:
            `mismatch_kl` is over tokens of lag 0 alone, where learner and sampler should agree up to rounding, and is
            missing where there are none; `sampler_kl` is over all tokens.
        """
        sums = dict(zip(_SUMS, channel.reduce(self._sums.cpu()).tolist(), strict=True))
        ratio_max = channel.reduce(self._ratio_max.cpu(), largest=True).item()
        tokens = max(1.0, sums["tokens"])
        metrics = {
            "loss": sums["loss"],
            "tokens": sums["tokens"],
            "entropy": sums["entropy"] / tokens,
            "ratio_mean": sums["ratio_sum"] / tokens,
            "ratio_max": ratio_max,
            "clip_fraction_low": sums["clipped_low"] / tokens,
            "clip_fraction_high": sums["clipped_high"] / tokens,
            "clip_fraction_dual": sums["clipped_dual"] / tokens,
            "sampler_kl": sums["k3"] / tokens,
        }
        if sums["tokens_lag_0"]:
            metrics["mismatch_kl"] = sums["k3_lag_0"] / sums["tokens_lag_0"]
        return metrics
