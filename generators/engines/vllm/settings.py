"""Resolve a run's configuration into vLLM's own, and count the groups that fit.

In: a `Run` and its engine's section. Out: vLLM's configuration, completed for this machine's platform. Runs in the
generator's process, for generators.engines.vllm.engine, before any process is started. Settings with which vLLM would
compute differently from the learner are refused.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from broker.errors import RunFailed
from config.generators import VllmEngineConfig
from config.run import Run
from generators.engines.vllm.environment import BINDING, UNBOUND

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.executor import Executor

CPU_BLOCK_SIZE: Final = 32  # tokens of a KV block; the smallest that vLLM's CPU kernels support
HELPINGS: Final = 2  # times the running completions: when one ends, another waits in vLLM


def longest_sequence(run: Run, config: VllmEngineConfig) -> int:
    """Return the tokens of the longest prompt with its completion, held-out ones included."""
    prompt, completion = run.data.max_prompt_tokens, run.sampling.max_tokens
    held_out = [
        (each.max_prompt_tokens or prompt) + (each.max_tokens or completion)
        for each in run.data.held_out_sets
    ]
    return config.max_model_len or max([prompt + completion, *held_out])


def resolve(run: Run, config: VllmEngineConfig) -> VllmConfig:
    """Let vLLM complete its configuration for this machine; no process is started.

    Raises:
        RunFailed: vLLM does not know an argument of `extra_args`, or refuses its value; or it would compute the logits
            in another type than the learner.
    """
    import torch
    from vllm import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext

    _check_names(config.extra_args)
    arguments = _arguments(run, config) | config.extra_args
    try:
        found = AsyncEngineArgs(**arguments).create_engine_config(
            UsageContext.LLM_CLASS  # without a context a batch has 2,048 tokens on any GPU
        )
    except Exception as error:
        if not config.extra_args:
            raise
        raise RunFailed(f"vLLM refuses generators.engine.extra_args={config.extra_args}: {error}") from error
    if run.model.head_dtype == "float32" and found.model_config.head_dtype is not torch.float32:
        raise RunFailed(
            "vLLM can't compute this model's logits in float32 on this platform, as the learner does; set "
            "model.head_dtype=model"
        )
    return found


def _check_names(extra_args: Iterable[str]) -> None:
    import vllm

    known = [field.name for field in dataclasses.fields(vllm.AsyncEngineArgs)]
    for name in extra_args:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"; it has {', '.join(near)}" if near else ""
            raise RunFailed(
                f"generators.engine.extra_args.{name}: the engine of vLLM {vllm.__version__} has no such argument{hint}"
            )


def _arguments(run: Run, config: VllmEngineConfig) -> dict[str, Any]:
    """Return the vLLM arguments that Millrace sets."""
    from vllm.config import WeightTransferConfig
    from vllm.platforms import current_platform

    from generators.engines.vllm import worker
    from generators.engines.vllm.memory import memory_arguments

    section = run.model
    return dict(
        model=section.path,
        revision=section.revision,
        hf_token=section.hf_token.get_secret_value() if section.hf_token else None,
        trust_remote_code=section.trust_remote_code,
        dtype=section.dtype,
        hf_overrides={"head_dtype": section.head_dtype}
        | ({"tie_word_embeddings": False} if section.tie_word_embeddings is False else {}),
        skip_tokenizer_init=True,
        load_format=config.load_format,
        seed=secrets.randbits(31),  # the default is the same in every generator
        generation_config="vllm",  # a model's own top_p or repetition_penalty would bias the samples
        logprobs_mode="processed_logprobs",  # of the distribution sampled from; the default ignores temperature
        tensor_parallel_size=config.tensor_parallel,
        distributed_executor_backend=executor_of(config),
        **memory_arguments(config),
        block_size=CPU_BLOCK_SIZE if current_platform.is_cpu() else None,
        # A block is found by its tokens alone, so a later prompt would find blocks of an older version.
        enable_prefix_caching=False
        if config.new_weights == "keep_cache"
        else None,  # None: where the model can
        max_model_len=longest_sequence(run, config),
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_num_seqs=config.max_num_seqs,
        enforce_eager=config.enforce_eager,
        disable_log_stats=True,
        weight_transfer_config=WeightTransferConfig(backend=worker.BACKEND),
        worker_extension_cls=f"{worker.__name__}.{worker.WorkerExtension.__name__}",
    )


def executor_of(config: VllmEngineConfig) -> type[Executor] | None:
    """Return the executor for a single CPU worker inside the engine core; None: vLLM chooses.

    On a CPU vLLM starts a process for each worker, to pin its threads to cores. The engine core then busy-waits for it,
    which takes a whole processor from other threads. Where nothing is pinned (`generators.engines.vllm.environment`) a
    single worker needs no process of its own.
    """
    from vllm.platforms import current_platform

    from generators.engines.vllm import worker

    is_alone, is_unbound = config.tensor_parallel == 1, os.environ.get(BINDING) == UNBOUND
    return worker.CoreProcessExecutor if current_platform.is_cpu() and is_alone and is_unbound else None


def room(*, cache_tokens: int, sequence_tokens: int, max_num_seqs: int, group_size: int) -> int:
    """Return how many groups keep an engine busy: `HELPINGS` times those that it samples concurrently.

    Args:
        cache_tokens: capacity of the KV cache.
        sequence_tokens: of the longest prompt with its completion.
        max_num_seqs: most completions that vLLM samples concurrently.
        group_size: completions of a group.
    """
    sampled = side_by_side(
        cache_tokens=cache_tokens, sequence_tokens=sequence_tokens, max_num_seqs=max_num_seqs
    )
    return -(-HELPINGS * sampled // group_size)


def side_by_side(*, cache_tokens: int, sequence_tokens: int, max_num_seqs: int) -> int:
    """Return how many completions vLLM samples concurrently when all have their full length; as in `room`."""
    return min(max_num_seqs, max(1, cache_tokens // sequence_tokens))
