"""Tokens a second of a whole generator on vLLM, beside vLLM alone on the same requests.

Ours leases prompts from a real Redis, samples, makes text, notes which version sampled each token, encodes, and hands
over. The limit is the very same engine, asked for the same requests by its own interface, which counts the tokens and
throws the rest away. A random model of 50 million parameters; on a CPU, vLLM's CPU build on all processors.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from benchmarks.comparison import Comparison, TimedWork, take_turns, timed
from benchmarks.rigs.vllm_rig import processors, vllm_rig
from config.generators import VllmEngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured.

    Attributes:
        seconds: of a round, about.
    """

    group_size: int = 4
    max_tokens: int = 128
    max_num_seqs: int = 16
    seconds: float = 30.0
    rounds: int = 5


FULL = Size()
SMOKE = Size(group_size=2, max_tokens=14, max_num_seqs=4, seconds=0.5, rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Make the comparison."""
    config = VllmEngineConfig(
        kv_cache_mb=None if torch.cuda.is_available() else 512,
        max_num_seqs=size.max_num_seqs,
        enforce_eager=True,
        threads=processors(),
    )
    with vllm_rig(config, max_tokens=size.max_tokens, group_size=size.group_size) as (rig, loop):
        groups = rig.groups_of(size.seconds, loop)

        def ours(number: int) -> TimedWork:
            seconds, tokens = loop.run(rig.by_generator(rig.requests(groups, seed=number)))
            return TimedWork(tokens, seconds)

        def other(number: int) -> TimedWork:
            return timed(lambda: loop.run(rig.bare(rig.requests(groups, seed=number))))

        mine, others = take_turns(ours, other, rounds=size.rounds)
    return [
        Comparison(
            what=f"sample {groups} groups of {size.group_size}, {size.max_num_seqs} completions side by side",
            unit="tokens/s",
            ours=[turn.rate for turn in mine],
            beside="limit: the same engine by its own interface",
            other=[turn.rate for turn in others],
        )
    ]
