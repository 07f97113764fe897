"""Estimate what the generators hold: KV cache, concurrent completions, groups, and the resulting lag.

In: a run, the shape of its model, and the GPU's memory if known. Out: bytes, tokens, groups, versions. Every completion
is assumed to have its full length, which most will not reach: the numbers held are then lower bounds. Used by
`tools.plan`; vLLM's share of a GPU comes from `generators.engines.vllm.memory`, and a generator's number of groups from
`generators.worker`.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.generators import HfEngineConfig, VllmEngineConfig
from config.run import Run
from generators.engines.vllm.memory import GpuMemoryShare, share_of
from generators.engines.vllm.settings import longest_sequence, room, side_by_side
from generators.worker import groups_at_once
from tools.estimates.model import BYTES_OF, DecoderShape, size_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorLoad:
    """The load of one generator."""

    cache_bytes: int  # of the KV cache on each of its GPUs, or in host memory; 0: unknown
    cache_tokens: int  # capacity of all its GPUs; 0: unknown
    completions: int  # sampled concurrently, each at its full length
    groups: int  # leased at once, including those that wait in the engine


def token_bytes(run: Run, shape: DecoderShape, *, width: int = 1) -> int:
    """Return the size of a token's keys and values on one GPU: 2 x layers x key heads x head dimension x element bytes.

    Args:
        width: GPUs over which the heads are split; with fewer heads than GPUs, each GPU has one.
    """
    heads = max(1, shape.key_value_heads // width)
    return 2 * shape.layers * heads * shape.head_width * BYTES_OF[run.model.dtype]


def generator_share(run: Run, shape: DecoderShape, *, card_bytes: int | None) -> GpuMemoryShare | None:
    """Return a vLLM generator's share of each of its GPUs; None for other engines, or a share of an unknown GPU."""
    engine = run.generators.engine
    if not isinstance(engine, VllmEngineConfig) or (card_bytes is None and engine.kv_cache_mb is None):
        return None
    return share_of(
        engine, weights_bytes=shape.parameters * BYTES_OF[run.model.dtype], card_bytes=card_bytes or 0
    )


def judge_share(run: Run, *, card_bytes: int | None) -> GpuMemoryShare | None:
    """Return the served judge's share of each of its GPUs; None where none is served, or the GPU is unknown."""
    serve = run.judge.serve
    if serve is None or (card_bytes is None and serve.kv_cache_mb is None):
        return None
    return share_of(serve.engine, weights_bytes=judge_weights_bytes(run), card_bytes=card_bytes or 0)


def sampling_bytes(run: Run, parameters: int) -> int:
    """Return the memory of all generators for their weights, without the KV cache."""
    return parameters * BYTES_OF[run.model.dtype] * run.generators.count


def judge_weights_bytes(run: Run) -> int:
    """Return the weights' size of the judge that the run serves; 0 where there is none, or its size is unknown.

    It is served in the type of its own files, assumed to have 16 bits, like most models.
    """
    serve = run.judge.serve
    size = None if serve is None else size_of(run.model.model_copy(update={"path": serve.model}))
    return 0 if size is None else size.parameters * BYTES_OF["bfloat16"]


def held(run: Run, shape: DecoderShape | None, *, card_bytes: int | None) -> GeneratorLoad:
    """Return the load of one generator. Without a shape or a GPU, vLLM is assumed to fit `max_num_seqs`."""
    engine, size = run.generators.engine, run.sampling.group_size
    if isinstance(engine, HfEngineConfig):
        sequence = run.data.max_prompt_tokens + run.sampling.max_tokens
        tokens = engine.batch_groups * size * sequence
        return GeneratorLoad(
            cache_bytes=0 if shape is None else tokens * token_bytes(run, shape),
            cache_tokens=tokens,
            completions=engine.batch_groups * size,
            groups=groups_at_once(run, engine.batch_groups),
        )
    if not isinstance(engine, VllmEngineConfig):
        return GeneratorLoad(cache_bytes=0, cache_tokens=0, completions=size, groups=groups_at_once(run, 1))
    share = None if shape is None else generator_share(run, shape, card_bytes=card_bytes)
    sequence = longest_sequence(run, engine)
    if shape is None or share is None:
        cache_bytes = cache_tokens = 0
        assumed = engine.max_num_seqs * sequence
    else:
        cache_bytes = share.kv_cache
        assumed = cache_tokens = cache_bytes // token_bytes(run, shape, width=engine.tensor_parallel)
    return GeneratorLoad(
        cache_bytes=cache_bytes,
        cache_tokens=cache_tokens,
        completions=side_by_side(
            cache_tokens=assumed, sequence_tokens=sequence, max_num_seqs=engine.max_num_seqs
        ),
        groups=groups_at_once(
            run,
            room(
                cache_tokens=assumed,
                sequence_tokens=sequence,
                max_num_seqs=engine.max_num_seqs,
                group_size=size,
            ),
        ),
    )


def sampled_groups(run: Run, one: GeneratorLoad) -> float:
    """Return the groups that all generators sample concurrently, limited by their room and the budget."""
    return min(run.budget, run.generators.count * one.completions / run.sampling.group_size)


def expected_lag(run: Run, one: GeneratorLoad) -> tuple[float, float]:
    """Return the mean lag of a trained token, in versions, where all wait for the generators, and for the learner.

    By Little's law G groups sampled concurrently take G / S steps of S groups. With weights loaded in flight, a token
    is sampled on average half of that before its group ends. With weights loaded between two batches, the groups of a
    batch train over G / S steps, of which the first has no lag. Where all wait for the learner, the budget of B groups
    is full of scored groups, and a group issued then trains B / S - 1 versions later.
    """
    steps = sampled_groups(run, one) / run.learner.groups_per_step
    most = run.budget / run.learner.groups_per_step - 1
    in_flight = isinstance(run.generators.engine, VllmEngineConfig)
    least = steps / 2 if in_flight else max(0.0, steps - 1) / 2
    return min(least, most), most
