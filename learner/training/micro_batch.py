"""This module moves the micro-batches of a rank's shard to the device that trains.

In: a shard of a batch, as arrays. Out: its micro-batches as tensors, ready for the model and the objective. Used by the
backend in every rank.
"""

# N tokens of a rank, T tokens of a micro-batch, K of them trained, S sequences of it.

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from learner.objective.objective import TokenBatch
from learner.training.batch import Batch


class MicroBatch:
    """A micro-batch on the device: slices of the arrays that were moved there at once for the whole step."""

    def __init__(
        self,
        tensors: dict[str, Tensor],
        part: slice,
        *,
        sequence_ids_T: NDArray[np.int32],
        places_K: Tensor,
        lengths_S: Tensor,
    ) -> None:
        self.token_ids_T = tensors["token_ids"][part]
        self.position_ids_T = tensors["position_ids"][part]
        self.sampled_logprobs_T = tensors["sampled_logprobs"][part]
        self.advantages_T = tensors["advantages"][part]
        self.loss_mask_T = tensors["loss_mask"][part]
        self.lags_T = tensors["lags"][part]
        self.weights_T = tensors["weights"][part] if "weights" in tensors else None
        self.sequence_ids_T = sequence_ids_T  # on the host: the completion of each token in the global batch
        self.places_K = places_K  # indices of the trained tokens
        self.lengths_S = lengths_S
        self.start_logprobs_T: Tensor | None = (
            None  # at the start of the step, where an update has come since
        )
        self.reference_logprobs_T: Tensor | None = None

    def tokens(
        self, logprobs_T: Tensor, entropy_T: Tensor, *, num_tokens: int, kl_coef: float = 0.0
    ) -> TokenBatch:
        """Return what an objective is given of this micro-batch.

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
    shard: Batch, device: torch.device, *, weights_N: NDArray[np.float32] | None = None
) -> list[MicroBatch]:
    """Move the micro-batches of a shard to the device, by one transfer for each array.

    The places of the trained tokens are found on the host, so that nothing waits for the device. To ask a GPU where a
    mask is True would wait for all work that the GPU was given before.

    Args:
        shard: the rank's.
        device: that trains.
        weights_N: each token's share of the global batch; None: all alike.
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
        tensors["weights"] = _moved(weights_N, device)
    parts = list(shard.micro_batches())
    places = [np.flatnonzero(shard.loss_mask[part]) for part in parts]
    lengths = [_lengths(shard.position_ids[part]) for part in parts]
    return [
        MicroBatch(
            tensors, part, sequence_ids_T=shard.sequence_ids[part], places_K=places_K, lengths_S=lengths_S
        )
        for part, places_K, lengths_S in zip(
            parts, _split(places, device), _split(lengths, device), strict=True
        )
    ]


def _lengths(position_ids_T: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return [S], the length of each sequence."""
    return np.diff(np.append(np.flatnonzero(position_ids_T == 0), len(position_ids_T)))


def _split(arrays: list[NDArray[np.int64]], device: torch.device) -> tuple[Tensor, ...]:
    """Move several arrays by one transfer."""
    return torch.split(_moved(np.concatenate(arrays), device), [len(own) for own in arrays])


def _moved(array: NDArray[Any], device: torch.device) -> Tensor:
    tensor = torch.tensor(array)
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)  # from pageable memory the copy would wait
