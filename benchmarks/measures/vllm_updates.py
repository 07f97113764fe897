"""Tokens that vLLM samples a second with new weights every ten seconds, beside the same requests without.

A random model of 50 million parameters, its versions written beforehand, no learner beside; on a CPU, vLLM's CPU build
on all processors. A round samples as many groups as take 36 seconds without updates; the first update comes after five
seconds, the next ten seconds later, so that a round of 35 to 45 seconds has four. Completions that are under way go on
as `generators.engine.new_weights` says: `vllm_updates_kept` is the same with `keep_cache`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Literal

import torch

from benchmarks.comparison import Comparison, TimedWork, take_turns, timed
from benchmarks.rigs.vllm_rig import VllmRig, processors, vllm_rig
from broker.messages import Prompt
from config.generators import VllmEngineConfig

EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured.

    Attributes:
        seconds: of a round without updates, about.
    """

    new_weights: Literal["recompute", "keep_cache", "finish_first"] = "recompute"
    group_size: int = 4
    max_tokens: int = 128
    max_num_seqs: int = 16
    every_s: float = EVERY_S
    seconds: float = 36.0
    rounds: int = 5


FULL = Size()
SMOKE = Size(group_size=2, max_tokens=14, max_num_seqs=4, every_s=0.5, seconds=1.0, rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Make the comparison."""
    config = VllmEngineConfig(
        kv_cache_mb=None if torch.cuda.is_available() else 512,
        max_num_seqs=size.max_num_seqs,
        enforce_eager=True,
        threads=processors(),
        new_weights=size.new_weights,
    )
    with vllm_rig(config, max_tokens=size.max_tokens, group_size=size.group_size) as (rig, loop):
        groups = rig.groups_of(size.seconds, loop)
        updates: list[float] = []

        def ours(number: int) -> TimedWork:
            return loop.run(_with_updates(rig, rig.requests(groups, seed=number), size, updates))

        def other(number: int) -> TimedWork:
            asked = rig.requests(groups, seed=number)
            return timed(lambda: loop.run(rig.by_engine(asked)))

        mine, others = take_turns(ours, other, rounds=size.rounds)
    return [
        Comparison(
            what=f"sample {groups} groups of {size.group_size}, {size.max_num_seqs} completions side by side, new "
            f"weights every {size.every_s:g} s (`{size.new_weights}`; an update takes {median(updates):.2f} s)",
            unit="tokens/s",
            ours=[turn.rate for turn in mine],
            beside="limit: no new weights",
            other=[turn.rate for turn in others],
        )
    ]


async def _with_updates(rig: VllmRig, asked: list[Prompt], size: Size, updates: list[float]) -> TimedWork:
    async with rig.updating(size.every_s) as took:
        started = time.perf_counter()
        tokens = await rig.by_engine(asked)
        seconds = time.perf_counter() - started
    if not took:
        raise RuntimeError("no weights came during the round")
    updates += took
    return TimedWork(tokens, seconds)
