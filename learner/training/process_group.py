"""Make one group of the learner's processes, in which rank 0 commands the others.

In: a command on rank 0, and for a step the shard of each rank. Out: the same command on every rank, in the same order
among the collectives, and to each rank its own shard. Used by the backends. If a rank is gone, the next command raises
on the others, which ends them too.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import ClassVar, Protocol, get_args

import msgpack
import torch
from torch import distributed

from broker.errors import RunFailed
from config.gpus import why_unseen
from config.run import Run

TIMEOUT = timedelta(minutes=30)  # of one collective; rank 0 sends a command every half minute while it waits


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerStep:
    """Take one optimizer step; each rank's shard follows the command."""

    name: ClassVar[str] = "step"
    learner: str | None  # settings as JSON, for a step of an earlier incarnation; None: the run's


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergences:
    """Measure each completion's divergence to the reference; each rank's shard follows the command."""

    name: ClassVar[str] = "divergences"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """Compare the sampler's log-probabilities with the learner's; each rank's shard follows the command."""

    name: ClassVar[str] = "compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherWeights:
    """Gather the weights; rank 0 holds a copy."""

    name: ClassVar[str] = "gather_weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveModel:
    """Gather the weights; rank 0 writes them with config and tokenizer."""

    name: ClassVar[str] = "save_model"
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveCheckpoint:
    """Write this rank's part of a checkpoint."""

    name: ClassVar[str] = "save_checkpoint"
    folder: str
    state: str  # the caller's state, JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCheckpoint:
    """Continue from a checkpoint."""

    name: ClassVar[str] = "load_checkpoint"
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAlive:
    """Do nothing; sent before the wait for a command times out."""

    name: ClassVar[str] = "keep_alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Free the engine and exit."""

    name: ClassVar[str] = "close"


Command = (
    OptimizerStep
    | Divergences
    | Compare
    | GatherWeights
    | SaveModel
    | SaveCheckpoint
    | LoadCheckpoint
    | KeepAlive
    | Close
)
_BY_NAME: dict[str, type[Command]] = {command.name: command for command in get_args(Command)}


def device_of(run: Run) -> torch.device:
    """Return the training device of this rank.

    Raises:
        RunFailed: a GPU is required or present, and torch sees none; or this machine has fewer GPUs than ranks.
    """
    if run.learner.device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        if why := why_unseen(torch.__version__, torch.version.cuda):
            raise RunFailed(f"{why}; or train on the CPU: learner.device=cpu")
        if run.learner.device == "cuda":
            raise RunFailed(
                "learner.device=cuda, and torch sees no CUDA device; set learner.device=cpu or auto"
            )
        if run.learner.gpus:
            raise RunFailed(
                f"learner.gpus={list(run.learner.gpus)}, and torch {torch.__version__} sees no GPU: make setup GPU=1, "
                "or learner.gpus='[]' learner.device=cpu"
            )
        return torch.device("cpu")
    local_rank, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local_rank >= count:
        raise RunFailed(
            f"rank {local_rank} of this machine has no GPU of its own: torch sees {count}; learner.ranks={count}"
        )
    return torch.device("cuda", local_rank)


def join(device: torch.device, *, rank: int, world_size: int) -> None:
    """Make the process group: over MASTER_ADDR for several ranks, on loopback for one.

    The group lives as long as the process: DeepSpeed keeps handles of it beyond the engine that made them.
    """
    if distributed.is_initialized():
        return
    backend = "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
        backend = "nccl"
    if world_size == 1:  # gloo listens anyway, by default at the address of the host's name
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = distributed.HashStore() if world_size == 1 else None  # type: ignore[attr-defined]  # not in __all__
    distributed.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=TIMEOUT)
    atexit.register(distributed.destroy_process_group)


class Reduces(Protocol):
    """The part of the ranks' channel that statistics use."""

    def reduce(self, values: torch.Tensor, *, largest: bool = False) -> torch.Tensor:
        """Replace, on all ranks, each entry by its sum (or its maximum) over all ranks."""
        ...


class CommandChannel:
    """Send commands over gloo, in a separate group: a wait for a command never occupies an accelerator's stream.

    Args:
        counts: whether this rank's numbers are added to the others'; False for a rank with another's shard.
    """

    def __init__(self, *, counts: bool = True) -> None:
        self._counts = counts
        self._group = distributed.new_group(backend="gloo", timeout=TIMEOUT)
        self._alone = distributed.get_world_size() == 1

    def send(self, command: Command) -> None:
        """Send a command to all ranks, on rank 0."""
        if self._alone:
            return
        payload = _tensor_of(encode(command))
        distributed.broadcast(torch.tensor([len(payload)]), src=0, group=self._group)
        distributed.broadcast(payload, src=0, group=self._group)

    def receive(self) -> Command:
        """Wait for the next command, on the other ranks."""
        size = torch.zeros(1, dtype=torch.int64)
        distributed.broadcast(size, src=0, group=self._group)
        payload = torch.empty(int(size), dtype=torch.uint8)
        distributed.broadcast(payload, src=0, group=self._group)
        return decode(payload.numpy().tobytes())

    def send_parts(self, parts: Sequence[bytes]) -> None:
        """Send each of the other ranks its bytes, `parts[r - 1]` to rank r; on rank 0."""
        for rank, part in enumerate(parts, 1):
            payload = _tensor_of(part)
            distributed.send(torch.tensor([len(payload)]), dst=rank, group=self._group)
            distributed.send(payload, dst=rank, group=self._group)

    def receive_part(self) -> bytes:
        """Wait for this rank's bytes, on the other ranks."""
        size = torch.zeros(1, dtype=torch.int64)
        distributed.recv(size, src=0, group=self._group)
        payload = torch.empty(int(size), dtype=torch.uint8)
        distributed.recv(payload, src=0, group=self._group)
        return bytes(payload.numpy().tobytes())

    def reduce(self, values: torch.Tensor, *, largest: bool = False) -> torch.Tensor:
        """Replace, on all ranks, each entry by its sum (or its maximum) over all ranks.

        Args:
            values: on the CPU, of the same shape on all ranks.
            largest: take the maximum instead of the sum.
        """
        operation = distributed.ReduceOp.MAX if largest else distributed.ReduceOp.SUM
        if not self._counts and not largest:
            values.zero_()
        distributed.all_reduce(values, op=operation, group=self._group)
        return values


def encode(command: Command) -> bytes:
    """Encode a command: its name and its fields, in msgpack."""
    return bytes(msgpack.packb([command.name, asdict(command)]))


def decode(data: bytes) -> Command:
    """Decode the output of `encode`."""
    name, fields = msgpack.unpackb(data)
    return _BY_NAME[name](**fields)


def _tensor_of(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)
