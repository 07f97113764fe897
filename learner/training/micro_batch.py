"""Move the micro-batches of a rank's shard to the training device.

In: a shard of a batch, as arrays. Out: its micro-batches as tensors, ready for the model and the objective. Used by the
backend in every rank.
"""

# N: tokens of a rank. T: tokens of a micro-batch. K: trained ones. S: its sequences. B = S + 1: their bounds. L: tokens
# of the longest.

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from learner.objective.objective import TokenBatch
from learner.training.batch import Batch

COMPARED = 1000  # comparisons that cost as much as a token's pass through the weights; depends on the model


class MicroBatch:
    """A micro-batch on the device: slices of arrays that were transferred for the whole step."""

    def __init__(
        self,
        tensors: dict[str, Tensor],
        part: slice,
        *,
        sequence_ids_T: NDArray[np.int32],
        places_K: Tensor,
        lengths_S: Tensor,
        bounds_B: Tensor,
        cells_T: Tensor | None,
        grid: tuple[int, int],
    ) -> None:
        self.token_ids_T = tensors["token_ids"][part]
        self.position_ids_T = tensors["position_ids"][part]
        self.sampled_logprobs_T = tensors["sampled_logprobs"][part]
        self.advantages_T = tensors["advantages"][part]
        self.loss_mask_T = tensors["loss_mask"][part]
        self.lags_T = tensors["lags"][part]
        self.weights_T = tensors["weights"][part] if "weights" in tensors else None
        self.sequence_ids_T = sequence_ids_T  # on the host: each token's completion in the global batch
        self.places_K = places_K  # indices of the trained tokens
        self.lengths_S = lengths_S
        self.bounds_B = bounds_B  # the start of each sequence, and the end of the last, int32
        self.cells_T = cells_T  # each token's cell in a grid of S x L, row by row; None: one packed row
        self.grid = grid
        self.start_logprobs_T: Tensor | None = None  # at the start of the step, if updates have followed
        self.reference_logprobs_T: Tensor | None = None

    @property
    def model_inputs(self) -> dict[str, Any]:
        """The arguments of `LogprobModel.forward`."""
        return {
            "token_ids_T": self.token_ids_T,
            "position_ids_T": self.position_ids_T,
            "places_K": self.places_K,
            "cells_T": self.cells_T,
            "grid": self.grid,
            "bounds_B": self.bounds_B,
        }

    def tokens(
        self, logprobs_T: Tensor, entropy_T: Tensor, *, num_tokens: int, kl_coef: float = 0.0
    ) -> TokenBatch:
        """Return the objective's input for this micro-batch.

        Args:
            logprobs_T: log-probability of each token now, nats.
            entropy_T: entropy of each token's distribution, nats.
            num_tokens: trained tokens over all ranks and micro-batches, at least 1.
            kl_coef: weight of the divergence to the reference in the loss.
        """
        return TokenBatch(
            logprobs_T=logprobs_T,
            entropy_T=entropy_T,
            sampled_logprobs_T=self.sampled_logprobs_T,
            advantages_T=self.advantages_T,
            loss_mask_T=self.loss_mask_T,
            lags_T=self.lags_T,
            position_ids_T=self.position_ids_T,
            num_tokens=num_tokens,
            weights_T=self.weights_T,
            start_logprobs_T=self.start_logprobs_T,
            reference_logprobs_T=self.reference_logprobs_T,
            kl_coef=kl_coef,
            sequence_lengths_S=self.lengths_S,
        )


def on_device(
    shard: Batch, device: torch.device, *, weights_N: NDArray[np.float64] | None = None, may_pad: bool = False
) -> list[MicroBatch]:
    """Move the micro-batches of a shard to the device, with one transfer per array.

    The indices of the trained tokens are computed on the host. Asking a GPU where a mask is True would wait for all its
    queued work.

    Args:
        shard: the rank's.
        device: the training device.
        weights_N: each token's share of the global batch; None: all equal.
        may_pad: put the sequences of a micro-batch into a padded grid, where that is cheaper for the model.
    """
    tensors = {
        "token_ids": _moved(shard.token_ids.astype(np.int64), device),
        "position_ids": _moved(shard.position_ids.astype(np.int64), device),
        "sampled_logprobs": _moved(shard.sampled_logprobs, device),
        "advantages": _moved(shard.advantages, device),
        "loss_mask": _moved(shard.loss_mask, device),
        "lags": _moved(shard.lags, device),
    }
    if weights_N is not None:
        tensors["weights"] = _moved(weights_N.astype(np.float32), device)
    parts = list(shard.micro_batches())
    places = [np.flatnonzero(shard.loss_mask[part]) for part in parts]
    lengths = [_lengths(shard.position_ids[part]) for part in parts]
    bounds = [np.append(0, np.cumsum(own)).astype(np.int32) for own in lengths]
    cells = [_cells(own) if may_pad and is_cheaper_padded(own) else None for own in lengths]
    return [
        MicroBatch(
            tensors,
            part,
            sequence_ids_T=shard.sequence_ids[part],
            places_K=places_K,
            lengths_S=lengths_S,
            bounds_B=bounds_B,
            cells_T=None if cells_T is None else _moved(cells_T, device),
            grid=(len(own), int(own.max())),
        )
        for part, places_K, lengths_S, bounds_B, cells_T, own in zip(
            parts,
            _split(places, device),
            _split(lengths, device),
            _split(bounds, device),
            cells,
            lengths,
            strict=True,
        )
    ]


def is_cheaper_padded(lengths_S: NDArray[np.int64]) -> bool:
    """Return whether padded rows are cheaper than one packed row of these sequences, for a model with SDPA.

    A token costs its pass through the weights, and a share of that for each token it is compared with. Without varlen
    kernels a packed row compares every pair of its tokens, and masks most of them.
    """
    padded, packed = len(lengths_S) * int(lengths_S.max()), int(lengths_S.sum())
    return padded * (COMPARED + int(lengths_S.max())) <= packed * (COMPARED + packed)


def _cells(lengths_S: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return [T], each packed token's index in a flattened grid with a row per sequence."""
    starts_S = np.cumsum(lengths_S) - lengths_S
    rows_S = np.arange(len(lengths_S)) * lengths_S.max()
    cells: NDArray[np.int64] = np.arange(lengths_S.sum()) + np.repeat(rows_S - starts_S, lengths_S)
    return cells


def _lengths(position_ids_T: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return [S], the length of each sequence."""
    return np.diff(np.append(np.flatnonzero(position_ids_T == 0), len(position_ids_T)))


def _split(arrays: list[NDArray[Any]], device: torch.device) -> tuple[Tensor, ...]:
    """Move several arrays in one transfer."""
    return torch.split(_moved(np.concatenate(arrays), device), [len(own) for own in arrays])


def _moved(array: NDArray[Any], device: torch.device) -> Tensor:
    tensor = torch.tensor(array)
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)  # from pageable memory the copy would block
