"""Seconds of a step whose weights are published behind the next one, beside steps that publish nothing.

In: a model of 50 million parameters in float32, the demo's learner, a disk that takes 100 MB a second. Out: two lines,
one for publishing behind the step and one for writing before the next step begins, as it was. Each turn is a few steps,
and ends when its last publication has, so that none falls on the steps of another turn. The writer's bytes, its hash
and its thread are the product's; only the speed of the disk and the Redis that is told are made up.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import torch

from benchmarks.comparison import Comparison
from benchmarks.measures.learner_step import Case, packed, prepared
from learner.training import model_files
from learner.training.deepspeed import DeepSpeedBackend
from learner.weight_sync.filesystem import FilesystemTransport
from learner.weight_sync.publisher import Publisher


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    case: Case
    steps: int  # of a turn; the first of a turn is not counted, since nothing is published behind it
    turns: int  # of each side
    bytes_per_s: float


FULL = Size(case=Case(is_large=True, groups=16, threads=2), steps=6, turns=6, bytes_per_s=100e6)
SMOKE = Size(case=Case(groups=1), steps=2, turns=1, bytes_per_s=1e9)


def measure(size: Size) -> list[Comparison]:
    """Compare steps that publish behind the next step, and steps that publish before it, with steps that don't."""
    with tempfile.TemporaryDirectory() as folder, _disk_of(size.bytes_per_s):
        run, groups = prepared(Path(folder), size.case)
        torch.set_num_threads(size.case.threads)
        policy = DeepSpeedBackend(run, rank=0, world_size=1)
        told: Any = SimpleNamespace(announce=lambda _: None)
        publisher = Publisher(told, FilesystemTransport(run))
        publisher.start()
        batch = packed(run, groups, 0, run.learner.tokens_per_micro_batch, by_length=True)
        versions = count(1)

        def turn(how: str) -> list[float]:
            """Take a turn's steps, and return the seconds of all but the first."""
            seconds = []
            for _ in range(size.steps):
                started = time.perf_counter()
                policy.step(batch)
                if how != "nothing":
                    publisher.begin(policy, next(versions))
                if how == "before":
                    publisher.settle()
                seconds.append(time.perf_counter() - started)
            publisher.settle()
            return seconds[1:]

        turn("behind")  # caches and buffers are warm
        sides: dict[str, list[float]] = {"behind": [], "nothing": [], "before": []}
        names = list(sides)
        for number in range(size.turns):
            for name in names[number % 3 :] + names[: number % 3]:
                sides[name] += turn(name)
        weights = Path(folder) / "weights"
        weights.mkdir()
        megabytes = policy.gather_weights().save_weights(weights).size_bytes / 1e6
        publisher.close()
        policy.close()
    what = (
        f"a step of {batch.num_tokens:,} trained tokens, {megabytes:.0f} MB of weights, threads: "
        f"{size.case.threads}; a disk of {size.bytes_per_s / 1e6:.0f} MB/s"
    )
    return [
        Comparison(
            what=f"{what}; weights published {how}",
            unit="s",
            less_is_better=True,
            ours=sides[name],
            beside="limit: steps that publish nothing",
            other=sides["nothing"],
        )
        for name, how in (("behind", "behind the next step"), ("before", "before the next step"))
    ]


@contextmanager
def _disk_of(bytes_per_s: float) -> Iterator[None]:
    """Have weights written at this rate: whoever writes sleeps for the rest of a block's time."""
    writer: Any = model_files
    write_all = writer.write_all

    def slowly(stream: BinaryIO, data: bytes | memoryview) -> None:
        started = time.monotonic()
        write_all(stream, data)
        time.sleep(max(0.0, len(data) / bytes_per_s - (time.monotonic() - started)))

    writer.write_all = slowly
    try:
        yield
    finally:
        writer.write_all = write_all
