"""Tokens that vLLM samples a second with new weights every ten seconds, where it keeps the cache of older versions.

The comparison is that of `benchmarks.measures.vllm_updates`.
"""

from __future__ import annotations

from benchmarks.measures import vllm_updates
from benchmarks.measures.vllm_updates import Size, measure

__all__ = ["FULL", "SMOKE", "measure"]

FULL = Size(new_weights="keep_cache")
SMOKE = Size(
    new_weights="keep_cache",
    group_size=vllm_updates.SMOKE.group_size,
    max_tokens=vllm_updates.SMOKE.max_tokens,
    max_num_seqs=vllm_updates.SMOKE.max_num_seqs,
    every_s=vllm_updates.SMOKE.every_s,
    seconds=vllm_updates.SMOKE.seconds,
    rounds=vllm_updates.SMOKE.rounds,
)
