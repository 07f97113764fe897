"""The step `rates` of `make prove-gpu`: the learner's tokens a second, MFU, and memory beside doctor's estimate.

In: a model with random weights, as large as the card has room for, and groups of answers of 64 to 1,024 tokens. Out:
the operations a second of one large product, measured here; the median of some optimizer steps, with the head's logits
in chunks of 2^26 and of 2^28 numbers; the memory that stays between two steps and the largest, each beside what
`millrace doctor` says of it. Operations are those of `tools.estimates.operations`: their share of the measured product
is what this card leaves to be had, MFU their share of the maker's peak in dense bfloat16.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.proofs.gpu.made_up import (
    QWEN_0_5B,
    QWEN_1_5B,
    TINY,
    ModelShape,
    batch_of,
    random_groups,
    write_model,
)
from benchmarks.proofs.gpu.outcomes import Device, Missed, StepFigures, StepPlace
from benchmarks.rigs.groups import demo_run
from config.run import Run
from learner.training.batch import Batch
from learner.training.engines.deepspeed import DeepSpeedBackend
from learner.training.head.chunks import LARGE_CHUNK, SMALL_CHUNK, logits_at_once
from tools.estimates.learner import rank_memory, training_bytes
from tools.estimates.model import shape_of, size_of
from tools.estimates.operations import TERA, peak_of, step_operations

STEPS = 3  # that count; one before them does not
CHUNKS = (SMALL_CHUNK, LARGE_CHUNK)  # entries of a chunk of logits, the larger one takes 1 GiB
PRODUCT: dict[Device, int] = {"cuda": 8192, "cpu": 1024}  # rows and columns of the product
OVER = 1.1  # times doctor's estimate may be what is measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What is trained.

    Args:
        least_bytes: of a card's memory that have to be free.
        shape: of the model.
        longest: tokens of an answer.
        groups: of a step, eight answers each.
        micro_batch: tokens.
    """

    least_bytes: float
    shape: ModelShape
    longest: int
    groups: int
    micro_batch: int


# The largest that fits is taken: 22 bytes a parameter, and room for activations.
SIZES = (
    Size(least_bytes=60e9, shape=QWEN_1_5B, longest=1024, groups=32, micro_batch=16_384),
    Size(least_bytes=20e9, shape=QWEN_0_5B, longest=1024, groups=16, micro_batch=8192),
    Size(least_bytes=14e9, shape=QWEN_0_5B, longest=512, groups=8, micro_batch=2048),
    Size(least_bytes=0, shape=TINY, longest=64, groups=8, micro_batch=2048),
)


def measures_the_learner(place: StepPlace) -> StepFigures:
    """Train steps on made-up groups, and measure. Raises Missed where the estimate is too low, or a number is none."""
    on_gpu = place.device == "cuda"
    free, memory = torch.cuda.mem_get_info() if on_gpu else (0, 0)
    size = size_for(free)
    product = product_operations(place.device)
    before = _host_bytes()
    run = _run(place, size, on_gpu=on_gpu)
    estimate_size = size_of(run.model)
    if estimate_size is None:
        raise Missed(f"doctor does not know the size of {run.model.path}")
    batch, lengths = _batch(run, size)
    policy = DeepSpeedBackend(run, rank=0, world_size=1)
    rates, facts, peaks = [], {}, dict[int, int]()
    operations = step_operations(size.shape, lengths, batch.num_tokens)
    card = peak_of(torch.cuda.get_device_name(0)) if on_gpu else None
    for chunk in CHUNKS:
        seconds, rest, peak = _steps(policy, batch, chunk, on_gpu=on_gpu)
        peaks[chunk] = peak
        mfu = f", MFU {operations / seconds / (card.tera * TERA):.1%}" if card else ""
        mfu += f", {operations / seconds / product:.1%} of the measured product"
        rates.append(f"chunks of {chunk // 2**20} Mi: {sum(lengths) / seconds:,.0f} tokens/s{mfu}")
        facts[str(chunk)] = {"seconds": seconds, "tokens_per_s": sum(lengths) / seconds, "peak_bytes": peak}
    policy.close()
    shape = shape_of(run.model, estimate_size)
    estimate = training_bytes(run, shape)
    whole = rank_memory(run, shape, card_bytes=memory if on_gpu else None).total
    if on_gpu:
        _holds("between steps", rest, estimate)
        _holds("at most", peaks[logits_at_once(memory)], whole)
    used = (
        f"{rest / 1e9:.2f} GB between steps, at most {', '.join(f'{peak / 1e9:.2f}' for peak in peaks.values())} GB of "
        f"{memory / 1e9:.0f}"
        if on_gpu
        else f"the process grew by {(_host_bytes() - before) / 1e9:.2f} GB, libraries included"
    )
    measured = (
        f"measured product {product / TERA:,.3g} TFLOPS (side {PRODUCT[place.device]:,}, {run.model.dtype}); "
    )
    relative = f"peak {card.tera:g} TFLOPS ({card.source}); " if card else ""
    none = "" if card else "MFU: no peak is known of this device; "
    return StepFigures(
        text=f"{size.shape.name}, {len(lengths)} sequences, {sum(lengths):,} tokens a step: {'; '.join(rates)}; "
        f"{measured}{relative}{none}memory: {used}, doctor's estimates {estimate / 1e9:.3g} GB between steps, "
        f"and {whole / 1e9:.3g} GB of a GPU in all",
        facts=facts
        | {
            "operations": operations,
            "product": product,
            "estimate_bytes": estimate,
            "rest_bytes": rest,
            "whole_bytes": whole,
        },
    )


def product_operations(device: Device) -> float:
    """Return the operations a second of a product of two square matrices of random numbers: what kernels can reach.

    The median of five rounds, behind three products that do not count: of ten in bfloat16 on a GPU, of two in float32
    on a CPU.
    """
    on_gpu, side = device == "cuda", PRODUCT[device]
    one, other = (
        torch.randn(side, side, device=device, dtype=torch.bfloat16 if on_gpu else torch.float32)
        for _ in "ab"
    )

    def timed(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            one @ other
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - began

    timed(3)
    count = 10 if on_gpu else 2
    return 2.0 * side**3 * count / median(timed(count) for _ in range(5))


def _holds(when: str, used_bytes: int, estimate_bytes: int) -> None:
    if used_bytes > OVER * estimate_bytes:
        raise Missed(
            f"memory {when}: {used_bytes / 1e9:.2f} GB are taken, doctor says {estimate_bytes / 1e9:.2f} GB"
        )


def size_for(memory_bytes: float) -> Size:
    """Return the largest size that so much free memory has room for; the smallest on a CPU, which counts as 0 bytes."""
    return next(size for size in SIZES if memory_bytes >= size.least_bytes)


def _steps(policy: DeepSpeedBackend, batch: Batch, chunk: int, *, on_gpu: bool) -> tuple[float, int, int]:
    """Return a step's median seconds, the bytes that stay in the card's memory between steps, and the most of them."""
    head: Any = policy._engine.model.get_output_embeddings()  # noqa: SLF001 - no setting, and this asks whether it should be one
    head.tokens_at_once = max(1, chunk // head.weight.shape[0])
    policy.step(batch)
    gc.collect()
    rest = torch.cuda.memory_allocated() if on_gpu else 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    seconds = [policy.step(batch)["seconds"] for _ in range(STEPS)]
    return median(seconds), rest, torch.cuda.max_memory_allocated() if on_gpu else 0


def _batch(run: Run, size: Size) -> tuple[Batch, Sequence[int]]:
    random = np.random.default_rng(0)
    lengths = random.integers(min(64, size.longest), size.longest + 1, (size.groups, 8)).tolist()
    groups = random_groups(size.shape, lengths, seed=0)
    sequences = [
        len(group.rollout.prompt.token_ids) + completion.num_sampled
        for group in groups
        for completion in group.rollout.completions
    ]
    return batch_of(run, groups, version=0), sequences


def _run(place: StepPlace, size: Size, *, on_gpu: bool) -> Run:
    dtype = "bfloat16" if on_gpu else "float32"
    model = write_model(place.folder / "model", size.shape, dtype=dtype)
    return demo_run(
        place.folder,
        model={"path": str(model), "dtype": dtype},
        learner={
            "device": place.device,
            "gradient_checkpointing": True,
            "tokens_per_micro_batch": size.micro_batch,
            "zero": {"stage": 1},
        },
    )


def _host_bytes() -> int:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
