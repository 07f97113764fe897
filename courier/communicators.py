"""A communicator moves one frame from the sender to all receivers: gloo, NCCL, or memory that they share.

In: a frame in host memory, as uint8. Out: the same bytes in every receiver's frame. Each call waits, for `timeout_s` at
most where the library keeps such a promise; that it always ends is the parent's business, who kills the process.
`gloo` needs no GPU. `nccl` and `ipc` pass a frame through one buffer of GPU memory; without a GPU, `ipc` has that
buffer in the host's memory.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import BroadcastOptions, PrefixStore, Store

from courier.frames import SEAL_BYTES
from courier.rendezvous import Settings

SENDER = 0  # its rank


class Communicator(Protocol):
    """A way of frames from rank 0 to all others."""

    def broadcast(self, frame: Tensor) -> None:
        """Fill `frame` (bytes, uint8, in host memory) of every receiver with the sender's; wait for that."""
        ...


class GlooCommunicator:
    """Over TCP, between processes on CPUs."""

    def __init__(self, store: Store, settings: Settings) -> None:
        gloo: Any = dist.ProcessGroupGloo
        options = gloo._Options()  # noqa: SLF001 - the only way to name the address to use
        options._devices = [gloo.create_device(hostname=own_address(settings))]  # noqa: SLF001
        options._timeout = settings.timeout  # noqa: SLF001
        options._threads = 2  # noqa: SLF001
        self._group = gloo(store, settings.rank, settings.world, options)

    def broadcast(self, frame: Tensor) -> None:
        """Broadcast by gloo."""
        self._group.broadcast([frame], BroadcastOptions()).wait()


class NcclCommunicator:
    """Between GPUs, each process with one of its own."""

    def __init__(self, store: Store, settings: Settings) -> None:
        if not torch.cuda.is_available() or not dist.is_nccl_available():
            raise RuntimeError("learner.weights.direct.type=nccl needs a GPU, and this process sees none")
        self._device = torch.device("cuda", torch.cuda.current_device())
        nccl: Any = dist.ProcessGroupNCCL
        options = nccl.Options()
        options._timeout = settings.timeout  # noqa: SLF001
        self._group = nccl(store, settings.rank, settings.world, options)
        self._is_sender = settings.rank == SENDER
        self._bucket = torch.empty(SEAL_BYTES + settings.bucket_bytes, dtype=torch.uint8, device=self._device)

    def broadcast(self, frame: Tensor) -> None:
        """Copy the frame to the GPU, broadcast it by NCCL, and copy it back."""
        bucket = self._bucket[: len(frame)]
        if self._is_sender:
            bucket.copy_(frame, non_blocking=True)
        self._group.broadcast([bucket], BroadcastOptions()).wait()
        if not self._is_sender:
            frame.copy_(bucket, non_blocking=True)
        torch.cuda.synchronize(self._device)


class SharedBucket:
    """On one machine: a buffer that the sender fills and receivers read, in turn.

    On a GPU the receivers open the buffer by a CUDA IPC handle, whose parts travel as numbers and hex.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._count = 0
        size = SEAL_BYTES + settings.bucket_bytes
        if settings.rank == SENDER:
            self._bucket, handle = _on_gpu(size) if torch.cuda.is_available() else _in_memory(size)
            store.set("bucket", json.dumps(handle))
        else:
            self._bucket = _opened(json.loads(store.get("bucket")), size)

    def broadcast(self, frame: Tensor) -> None:
        """Fill the buffer once all have read it, or read it once it is full."""
        self._count += 1
        bucket, count, rank = self._bucket[: len(frame)], self._count, self._settings.rank
        readers = [f"read/{count}/{reader}" for reader in range(1, self._settings.world)]
        if rank == SENDER:
            bucket.copy_(frame)
            _wait_for_gpu(bucket)
            self._store.set(f"full/{count}", "")
            self._store.wait(readers, self._settings.timeout)
            for key in [f"full/{count}", *readers]:
                self._store.delete_key(key)
        else:
            self._store.wait([f"full/{count}"], self._settings.timeout)
            frame.copy_(bucket)
            _wait_for_gpu(bucket)
            self._store.set(f"read/{count}/{rank}", "")


def connect(store: Store, settings: Settings) -> Communicator:
    """Make the communicator that the settings name. All ranks call it.

    Raises:
        RuntimeError: a peer is not reached, or this process lacks what the type needs.
    """
    own = PrefixStore("communicator", store)
    match settings.type:
        case "gloo":
            return GlooCommunicator(own, settings)
        case "nccl":
            return NcclCommunicator(own, settings)
        case "ipc":
            return SharedBucket(own, settings)
        case other:
            raise RuntimeError(f"no communicator is of type {other}")


def new_frame(settings: Settings) -> Tensor:
    """Return memory for a frame; pinned where a GPU writes or reads it."""
    is_pinned = settings.type != "gloo" and torch.cuda.is_available()
    return torch.empty(SEAL_BYTES + settings.bucket_bytes, dtype=torch.uint8, pin_memory=is_pinned)


def own_address(settings: Settings) -> str:
    """Return the address of this machine that the sender's machine is reached from. Nothing is sent."""
    if settings.rank == SENDER:
        return settings.host
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((settings.host, settings.port))
        return str(probe.getsockname()[0])


def _in_memory(size: int) -> tuple[Tensor, dict[str, Any]]:
    descriptor = os.memfd_create("millrace-bucket")
    os.ftruncate(descriptor, size)
    return _mapped(descriptor, size), {"path": f"/proc/{os.getpid()}/fd/{descriptor}"}


def _on_gpu(size: int) -> tuple[Tensor, dict[str, Any]]:
    bucket = torch.empty(size, dtype=torch.uint8, device="cuda")
    parts = bucket.untyped_storage()._share_cuda_()
    return bucket, {"cuda": [part.hex() if isinstance(part, bytes) else part for part in parts]}


def _opened(handle: dict[str, Any], size: int) -> Tensor:
    if path := handle.get("path"):
        descriptor = os.open(path, os.O_RDWR)
        try:
            return _mapped(descriptor, size)
        finally:
            os.close(descriptor)
    if not torch.cuda.is_available():
        raise RuntimeError("the learner's bucket is in the memory of a GPU, and this process sees none")
    torch.cuda.init()
    parts = [bytes.fromhex(part) if isinstance(part, str) else part for part in handle["cuda"]]
    parts[0] = torch.cuda.current_device()
    storage = torch.UntypedStorage._new_shared_cuda(*parts)  # noqa: SLF001
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, 0, [size], [1])


def _mapped(descriptor: int, size: int) -> Tensor:
    return torch.frombuffer(mmap.mmap(descriptor, size), dtype=torch.uint8)


def _wait_for_gpu(tensor: Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
