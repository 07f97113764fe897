"""The couriers of an epoch meet in a store that the sender's process keeps, and become a communicator there.

In: an epoch's address, ranks and deadline. Out: a `Meeting`, or an error that names who did not come. The store is
torch's TCPStore, bound to the one address that the epoch names; keys and values in it are plain text.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from torch._C._distributed_c10d import TCPStore  # which torch.distributed has, too, and does not declare

Emit = Callable[..., None]  # an event's name, and its facts

POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a courier connects to."""

    epoch: str
    type: str
    host: str  # where the sender listens
    port: int  # 0, to the sender: any that is free
    rank: int  # 0: the sender
    world: int  # the sender and all receivers
    bucket_bytes: int
    timeout_s: float  # for all to connect, and for each broadcast

    @property
    def timeout(self) -> timedelta:
        """Return the same as torch takes it."""
        return timedelta(seconds=self.timeout_s)


def meet_as_sender(settings: Settings, emit: Emit) -> TCPStore:
    """Open the store, and wait for all receivers.

    Raises:
        OSError: the address can't be listened at.
        RuntimeError: receivers did not come in time; `failed` then has names their ranks.
    """
    deadline = time.monotonic() + settings.timeout_s
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.create_server((settings.host, settings.port), family=family)
    port = int(listener.getsockname()[1])
    store = TCPStore(
        settings.host,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=settings.timeout,
        master_listen_fd=listener.detach(),
    )
    store.set("epoch", settings.epoch)
    emit("listening", port=port)
    missing = list(range(1, settings.world))
    while missing := [rank for rank in missing if not store.check([f"here/{rank}"])]:
        if time.monotonic() > deadline:
            emit("missing", ranks=missing)
            raise RuntimeError(f"{len(missing)} of {settings.world - 1} did not connect in time")
        time.sleep(POLL_S)
    store.set("go", "")
    return store


def meet_as_receiver(settings: Settings, emit: Emit) -> TCPStore:
    """Come to the sender's store, and wait until all have.

    Raises:
        RuntimeError: the store is not there, is another epoch's, or not all have come in time.
    """
    store = TCPStore(settings.host, settings.port, is_master=False, timeout=settings.timeout)
    if (found := store.get("epoch").decode()) != settings.epoch:
        raise RuntimeError(f"{settings.host}:{settings.port} is of the epoch {found}")
    store.set(f"here/{settings.rank}", "")
    emit("connected")
    store.wait(["go"], settings.timeout)
    return store
