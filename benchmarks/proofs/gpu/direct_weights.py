"""The step `direct` of `make prove-gpu`: a version goes from one courier to another, bit for bit.

In: made-up files. Out: GB a second. With two cards the couriers are joined by NCCL, each on a card of its own, which is
what NCCL asks for. With one they share a buffer of its memory by a CUDA IPC handle; on a CPU gloo and a buffer in the
host's memory move the files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.proofs.gpu.outcomes import Found, Missed, Place
from broker.direct_weights.courier_process import COMMAND, EXITED, CourierProcess, Event
from broker.direct_weights.records import Epoch, State, courier_settings
from config.gpus import VARIABLE, visible

SIZES_BYTES = (150_000_001, 50_000_000)
BUCKET_BYTES = 16 << 20
LIMIT_S = 50.0


def arrives_bit_for_bit(place: Place) -> Found:
    """Send a version by each type that this machine has the cards for. Raises Missed where it does not arrive."""
    cards = torch.cuda.device_count() if place.device == "cuda" else 0
    types = ["gloo", "ipc"] if not cards else ["ipc"] if cards == 1 else ["nccl"]
    paths = [place.folder / f"part-{number}" for number in range(len(SIZES_BYTES))]
    for seed, (path, size) in enumerate(zip(paths, SIZES_BYTES, strict=True)):
        path.write_bytes(np.random.default_rng(seed).bytes(size))
    rates = {kind: sum(SIZES_BYTES) / _seconds(kind, paths, is_on_cards=cards > 1) / 1e9 for kind in types}
    where = "on a CPU" if not cards else "on one card" if cards == 1 else "between two cards"
    said = ", ".join(f"{kind} {rate:.2f} GB/s" for kind, rate in rates.items())
    left = "" if cards > 1 else "; NCCL needs two cards, one for each end, and has not run"
    return Found(text=f"{sum(SIZES_BYTES)} bytes arrived {where}: {said}{left}", facts=dict(rates))


def _seconds(kind: str, paths: Sequence[Path], *, is_on_cards: bool) -> float:
    """Send the files once, compare what is staged, and return what the second round took."""
    epoch = Epoch(
        id="proof",
        type=kind,
        host="127.0.0.1",
        port=0,
        bucket_bytes=BUCKET_BYTES,
        timeout_s=LIMIT_S,
        members=("receiver",),
        state=State.FORMING,
    )
    deadline = time.monotonic() + LIMIT_S
    sender = CourierProcess(courier_settings(epoch, rank=0, port=0))
    started = [sender]
    try:
        port = int(_event(sender, "listening", deadline)["port"])
        elsewhere = ("env", f"{VARIABLE}={visible('the second card', [1])}") if is_on_cards else ()
        receiver = CourierProcess(courier_settings(epoch, rank=1, port=port), command=[*elsewhere, *COMMAND])
        started.append(receiver)
        for courier in (sender, receiver):
            _event(courier, "open", deadline)
        took_s = 0.0
        for number in (1, 2):  # the first round makes what the second has
            began = time.monotonic()
            sizes = list(SIZES_BYTES)
            receiver.tell({"round": number, "sizes": sizes})
            sender.tell({"round": number, "paths": [str(path) for path in paths], "sizes": sizes})
            staged = _event(receiver, "staged", deadline)
            took_s = time.monotonic() - began
            _compare(kind, receiver.pid, staged["descriptors"], paths)
            receiver.tell({"taken": number})
        return took_s
    finally:
        for courier in started:
            courier.kill()


def _compare(kind: str, pid: int, descriptors: Sequence[int], paths: Sequence[Path]) -> None:
    for descriptor, path in zip(descriptors, paths, strict=True):
        if Path(f"/proc/{pid}/fd/{descriptor}").read_bytes() != path.read_bytes():
            raise Missed(f"{kind}: {path.name} is not what was sent")


def _event(courier: CourierProcess, name: str, deadline: float) -> Event:
    """Wait for an event of a courier. Raises Missed where another end comes first."""
    while (left_s := deadline - time.monotonic()) > 0:
        event = courier.next_event(left_s)
        if event is not None and event["event"] == name:
            return event
        if event is not None and event["event"] in {"failed", "spoiled", EXITED}:
            raise Missed(f"no event {name}: {event['reason']}")
    raise Missed(f"no event {name} within {LIMIT_S:.0f} s")
