"""The learner's processes as one group, and how rank 0 tells the others what to do next.

In: a command's name and arguments on rank 0. Out: the same on every rank, at the same place among the collectives.
Used by `learner.training.deepspeed` alone. A rank that is gone makes the others' next broadcast raise, which ends them
too.
"""

from __future__ import annotations

import atexit
import os
from datetime import timedelta
from typing import Any

import msgpack
import torch
from torch import distributed

from broker.errors import RunFailed
from config.run import Run

TIMEOUT = timedelta(minutes=30)  # of one collective; rank 0 sends something every half minute while it waits


def device_of(run: Run) -> torch.device:
    """Where this rank trains."""
    if run.learner.device == "cuda" and not torch.cuda.is_available():
        raise RunFailed("learner.device=cuda, and torch sees no CUDA device; set learner.device=cpu or auto")
    if run.learner.device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def join(device: torch.device, *, rank: int, world_size: int) -> None:
    """Make the process group: over MASTER_ADDR where there are several, without any socket where there is one.

    It lives as long as the process: DeepSpeed keeps handles of it beyond the engine that it made them for.
    """
    if distributed.is_initialized():
        return
    backend = "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
        backend = "nccl"
    store = distributed.HashStore() if world_size == 1 else None  # type: ignore[attr-defined]  # not in __all__
    distributed.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=TIMEOUT)
    atexit.register(distributed.destroy_process_group)


class CommandChannel:
    """Commands as bytes over gloo, a group of its own: waiting for one never occupies an accelerator's stream."""

    def __init__(self) -> None:
        self._group = distributed.new_group(backend="gloo", timeout=TIMEOUT)
        self._alone = distributed.get_world_size() == 1

    def send(self, name: str, arguments: dict[str, Any]) -> None:
        """Rank 0: what all ranks do next."""
        if self._alone:
            return
        payload = torch.frombuffer(bytearray(msgpack.packb([name, arguments])), dtype=torch.uint8)
        distributed.broadcast(torch.tensor([len(payload)]), src=0, group=self._group)
        distributed.broadcast(payload, src=0, group=self._group)

    def receive(self) -> tuple[str, dict[str, Any]]:
        """The other ranks: wait for it."""
        size = torch.zeros(1, dtype=torch.int64)
        distributed.broadcast(size, src=0, group=self._group)
        payload = torch.empty(int(size), dtype=torch.uint8)
        distributed.broadcast(payload, src=0, group=self._group)
        name, arguments = msgpack.unpackb(payload.numpy().tobytes())
        return name, arguments

    def reduce(self, values: torch.Tensor, *, largest: bool = False) -> torch.Tensor:
        """All ranks: the sum (or the largest) of each entry over all of them, in place.

        Args:
            values: on the CPU, of the same shape everywhere.
            largest: the largest instead of the sum.
        """
        operation = distributed.ReduceOp.MAX if largest else distributed.ReduceOp.SUM
        distributed.all_reduce(values, op=operation, group=self._group)
        return values
