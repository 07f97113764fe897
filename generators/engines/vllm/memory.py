"""Compute how much GPU memory a generator takes, and wait until that is free before vLLM starts.

In: the engine's section, the size of the weights, and the driver's report of the GPUs. Out: vLLM's two memory settings,
which depend on the configuration alone: a generator restarted next to a training learner takes what it took before, or
ends with an error that has both figures. With `kv_cache_mb` that amount is the same on every GPU. Without it vLLM fills
its share of the GPU with KV cache, by measuring what is free while others work.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from broker.errors import RunFailed
from config.generators import VllmEngineConfig
from config.gpus import Card, cards

log = logging.getLogger(__name__)

GIB = 1 << 30
RUNTIME_BYTES = 2 * GIB  # of vLLM itself: CUDA context, CUDA graphs, activations. An estimate, not measured
WAIT_S = 30.0  # for a predecessor that has just died: the driver needs a while to free its memory
POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemoryShare:
    """The memory that a generator takes on each of its GPUs, bytes."""

    weights: int
    kv_cache: int
    runtime: int
    is_fixed: bool  # False: the KV cache gets the rest of a share of the GPU
    asked: int  # memory that vLLM requires to be free at its start

    @property
    def total(self) -> int:
        """All memory taken in the end."""
        return self.weights + self.kv_cache + self.runtime

    @property
    def needed(self) -> int:
        """All memory taken in the end, or required to be free at the start: the larger of the two."""
        return max(self.total, self.asked)

    def __str__(self) -> str:
        return (
            f"weights {self.weights / GIB:.1f}, KV cache {self.kv_cache / GIB:.1f}, "
            f"vLLM itself {self.runtime / GIB:.1f}"
        )


class MemoryArguments(TypedDict):
    """vLLM's memory arguments, by its own names."""

    gpu_memory_utilization: float
    kv_cache_memory_bytes: int | None


def memory_arguments(config: VllmEngineConfig) -> MemoryArguments:
    """Return vLLM's memory arguments. They depend on the configuration alone, and not on the GPU."""
    return MemoryArguments(
        gpu_memory_utilization=config.gpu_memory_utilization,
        kv_cache_memory_bytes=None if config.kv_cache_mb is None else config.kv_cache_mb << 20,
    )


def share_of(config: VllmEngineConfig, *, weights_bytes: int, card_bytes: int) -> GpuMemoryShare:
    """Return the memory that a generator takes on each of its GPUs.

    Args:
        config: the engine's section.
        weights_bytes: of the whole model, in its own type; divided among `tensor_parallel` GPUs.
        card_bytes: memory of one GPU.
    """
    weights = weights_bytes // config.tensor_parallel
    asked = int(card_bytes * config.gpu_memory_utilization)  # vLLM checks it with a fixed KV cache too
    if config.kv_cache_mb is not None:
        kv_cache = config.kv_cache_mb << 20
        return GpuMemoryShare(
            weights=weights, kv_cache=kv_cache, runtime=RUNTIME_BYTES, is_fixed=True, asked=asked
        )
    kv_cache = max(0, asked - weights - RUNTIME_BYTES)
    return GpuMemoryShare(
        weights=weights, kv_cache=kv_cache, runtime=RUNTIME_BYTES, is_fixed=False, asked=asked
    )


def wait_for_room(
    config: VllmEngineConfig,
    *,
    weights_bytes: int,
    ask: Callable[[], Sequence[Card]] = cards,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until each GPU of this generator has enough memory free; blocks for at most `WAIT_S`.

    Without the driver's tool nothing is checked: vLLM then fails by itself.

    Raises:
        RunFailed: a GPU has too little; the message has what is free, what is needed, and what to change.
    """
    deadline = clock() + WAIT_S
    while lacking := _lacking(config, weights_bytes=weights_bytes, seen=ask()):
        if clock() >= deadline:
            raise RunFailed(lacking)
        log.info("waiting_for_gpu_memory left_s=%.0f: %s", deadline - clock(), lacking)
        sleep(POLL_S)


def _lacking(config: VllmEngineConfig, *, weights_bytes: int, seen: Sequence[Card]) -> str:
    """Describe the shortage on the first GPU that has too little; "" where none has, or memory is unknown."""
    for card in seen[: config.tensor_parallel]:
        share = share_of(config, weights_bytes=weights_bytes, card_bytes=card.total_bytes)
        if card.free_bytes < share.needed:
            return (
                f"GPU {card.name} has {card.free_bytes / GIB:.1f} GiB free of {card.total_bytes / GIB:.1f}, and this "
                f"generator takes {share.needed / GIB:.1f}: {_parts(config, share)}. Who has the rest: nvidia-smi. "
                f"What to do: {_change(config, share, card)}"
            )
    return ""


def _parts(config: VllmEngineConfig, share: GpuMemoryShare) -> str:
    if share.asked > share.total or not share.is_fixed:
        return (
            f"generators.engine.gpu_memory_utilization={config.gpu_memory_utilization:g} of the card has to be free "
            "when vLLM starts"
        )
    return (
        f"weights {share.weights / GIB:.1f}, KV cache {share.kv_cache / GIB:.1f} "
        f"(generators.engine.kv_cache_mb={config.kv_cache_mb}), vLLM itself {share.runtime / GIB:.1f}"
    )


def _change(config: VllmEngineConfig, share: GpuMemoryShare, card: Card) -> str:
    """Return which setting would fit into the free memory."""
    room = (card.free_bytes - share.weights - share.runtime) >> 20
    elsewhere = "give the generator a card of its own (generators.gpus), or the learner less to hold (millrace doctor)"
    if room < 1:
        return elsewhere
    lower = f"generators.engine.kv_cache_mb={min(room, config.kv_cache_mb or room)}"
    if share.asked > card.free_bytes or not share.is_fixed:
        fits = int(100 * card.free_bytes / card.total_bytes) / 100
        lower += f" generators.engine.gpu_memory_utilization={fits:g}"
    return f"set {lower}, or {elsewhere}"
