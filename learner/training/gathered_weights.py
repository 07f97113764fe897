"""Hold a copy of the weights from all ranks in rank 0's memory, to be written while the next step changes the model.

In: the model's tensors after a step, on any rank. Out: a `WeightHandle`. On a GPU the copy is pinned memory, written at
the speed of the bus. The buffers are made once and reused, so a copy is valid until the next one begins; the publisher
waits in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from learner.weight_sync.transport import SavedWeights

log = logging.getLogger(__name__)

Write = Callable[[Mapping[str, Tensor], Path], SavedWeights]


class HostBuffers:
    """One copy of each tensor, by name."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}
        self._pins = True  # until the system refuses

    def copy(self, name: str, tensor: Tensor) -> Tensor:
        """Copy a tensor to its buffer, and return that. From a GPU it is complete after `wait_for_copies`."""
        held = self._buffers.get(name)
        if held is None or held.shape != tensor.shape or held.dtype != tensor.dtype:
            held = self._buffers[name] = self._empty_like(tensor)
        held.copy_(tensor.detach(), non_blocking=True)
        return held

    def _empty_like(self, tensor: Tensor) -> Tensor:
        if tensor.is_cuda and self._pins:
            try:
                return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            except RuntimeError as error:  # the limit on locked memory
                self._pins = False
                log.warning("weights_not_pinned reason=%s: gathering them takes longer", error)
        return torch.empty(tensor.shape, dtype=tensor.dtype)


def wait_for_copies() -> None:
    """Wait until the GPU has finished this thread's copies to the host."""
    if torch.cuda.is_initialized():
        torch.cuda.current_stream().synchronize()


class GatheredWeights:
    """A `WeightHandle` on a copy in host memory.

    Args:
        weights: by parameter name, on the CPU, each once.
        write: writes them into a folder, by the names that generators use.
    """

    def __init__(self, weights: Mapping[str, Tensor], write: Write) -> None:
        self._weights = weights
        self._write = write

    def save_weights(self, folder: Path) -> SavedWeights:
        """Write the copy as safetensors, fsynced."""
        return self._write(self._weights, folder)
