"""Seconds of a step that publishes the weights of the step before, beside a step that publishes nothing.

In: a model of 50 million parameters in float32, the demo's learner, steps of more than 4 s, a disk that takes 100 MB a
second. Out: one line. The two kinds of steps take turns, one step each, so that a slow moment of the machine hits them
alike. All that a version costs falls into the time of its step: the copy, the processor's time, and the wait for a
writer that has not ended with the step. The writer's bytes, its hash and its thread are the product's; only the speed
of the disk and the Redis that is told are made up.
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

from benchmarks.comparison import Comparison, TimedWork, take_turns, timed
from benchmarks.measures.learner_step import StepCase, packed, prepared
from learner.training import model_files
from learner.training.engines.deepspeed import DeepSpeedBackend
from learner.weight_sync.filesystem import FilesystemTransport
from learner.weight_sync.publisher import Publisher


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    case: StepCase
    rounds: int  # steps of each kind
    bytes_per_s: float


FULL = Size(case=StepCase(is_large=True, groups=16, threads=2), rounds=30, bytes_per_s=100e6)
SMOKE = Size(case=StepCase(groups=1), rounds=2, bytes_per_s=1e9)


def measure(size: Size) -> list[Comparison]:
    """Compare steps behind which weights are published with steps that publish nothing."""
    with tempfile.TemporaryDirectory() as folder, _disk_of(size.bytes_per_s):
        run, groups = prepared(Path(folder), size.case)
        torch.set_num_threads(size.case.threads)
        policy = DeepSpeedBackend(run, rank=0, world_size=1)
        told: Any = SimpleNamespace(announce=lambda _: None)
        publisher = Publisher(told, FilesystemTransport(run))
        publisher.start()
        batch = packed(run, groups, 0, run.learner.tokens_per_micro_batch, by_length=True)
        versions = count(1)

        def publishing(_: int) -> TimedWork:
            return timed(lambda: step(publishes=True))

        def nothing(_: int) -> TimedWork:
            return timed(lambda: step(publishes=False))

        def step(*, publishes: bool) -> float:
            """Take a step, with all that its version costs."""
            if publishes:
                publisher.begin(policy, next(versions))
            policy.step(batch)
            publisher.settle()
            return 1.0

        ours, limit = take_turns(publishing, nothing, rounds=size.rounds)
        weights = Path(folder) / "weights"
        weights.mkdir()
        megabytes = policy.gather_weights().save_weights(weights).size_bytes / 1e6
        publisher.close()
        policy.close()
    return [
        Comparison(
            what=f"a step of {batch.num_tokens:,} trained tokens, {megabytes:.0f} MB of weights, threads: "
            f"{size.case.threads}; a disk of {size.bytes_per_s / 1e6:.0f} MB/s; weights published behind the step",
            unit="s",
            less_is_better=True,
            ours=[turn.seconds for turn in ours],
            beside="limit: steps that publish nothing",
            other=[turn.seconds for turn in limit],
        )
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
