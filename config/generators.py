"""Sections of sampling: the engine, and how many of its resources a run uses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from config.section import GpuNumber, Section


class SamplingConfig(Section):
    """Sampling of training groups. `evaluation` has its own parameters."""

    group_size: int = Field(8, ge=1)
    """Completions per prompt: the group over which advantages are computed."""
    temperature: float = Field(1.0, gt=0)
    """Softmax temperature. Log-probabilities are those of this distribution. vLLM takes 0.01 to 2."""
    max_tokens: int = Field(1024, ge=1)
    """Largest number of tokens in a completion."""
    top_p: float = 1.0
    """Must be 1: a truncated distribution makes importance ratios wrong."""
    top_k: int = -1
    """Must be -1, for the same reason."""

    @model_validator(mode="after")
    def _whole_distribution(self) -> SamplingConfig:
        if self.top_p != 1.0 or self.top_k != -1:
            raise ValueError(
                "top_p must be 1 and top_k -1 in training: the sampler's log-probabilities would not be "
                "those of the policy, and every importance ratio would be wrong"
            )
        return self


class HfEngineConfig(Section):
    """transformers with a KV cache. Runs anywhere; the demo's engine."""

    type: Literal["hf"] = "hf"
    batch_groups: int = Field(16, ge=1)
    """Groups of `sampling.group_size` completions (or as many turns of episodes) in one batch. New weights are loaded
    between two batches."""
    threads: int | None = Field(None, ge=1)
    """Threads of torch. Unset: torch's own choice."""


# Arguments of vLLM's engine that other keys set, or that Millrace sets itself -> what to do instead.
NOT_EXTRA = {
    "model": "it is model.path",
    "model_weights": "it is model.path",
    "revision": "it is model.revision",
    "hf_token": "it is model.hf_token",
    "trust_remote_code": "it is model.trust_remote_code",
    "dtype": "it is model.dtype",
    "hf_overrides": "it has model.head_dtype and model.tie_word_embeddings",
    "tensor_parallel_size": "it is generators.engine.tensor_parallel",
    "gpu_memory_utilization": "it is generators.engine.gpu_memory_utilization",
    "kv_cache_memory_bytes": "it is generators.engine.kv_cache_mb",
    "max_model_len": "it is generators.engine.max_model_len",
    "max_num_batched_tokens": "it is generators.engine.max_num_batched_tokens",
    "max_num_seqs": "it is generators.engine.max_num_seqs",
    "enforce_eager": "it is generators.engine.enforce_eager",
    "load_format": "it is generators.engine.load_format",
    "seed": "each generator draws its own",
    "generation_config": "samples of another distribution than `sampling` says would be off-policy",
    "override_generation_config": "samples of another distribution than `sampling` says would be off-policy",
    "logits_processors": "samples of another distribution than `sampling` says would be off-policy",
    "watermark_config": "samples of another distribution than `sampling` says would be off-policy",
    "logprobs_mode": "the learner needs those of the distribution that was sampled from",
    "skip_tokenizer_init": "vLLM is given token ids, and returns them",
    "disable_log_stats": "Millrace counts itself",
    "enable_log_requests": "Millrace has a log of its own",
    "distributed_executor_backend": "Millrace ends the workers with the generator, which no other executor allows",
    "weight_transfer_config": "new weights come by Millrace's own loader",
    "worker_cls": "new weights come by Millrace's own loader",
    "worker_extension_cls": "new weights come by Millrace's own loader",
} | dict.fromkeys(
    (
        "pipeline_parallel_size",
        "prefill_context_parallel_size",
        "nnodes",
        "node_rank",
        "master_addr",
        "master_port",
        "data_parallel_size",
        "data_parallel_size_local",
        "data_parallel_rank",
        "data_parallel_start_rank",
        "data_parallel_address",
        "data_parallel_rpc_port",
        "data_parallel_backend",
        "data_parallel_hybrid_lb",
        "data_parallel_external_lb",
        "data_parallel_multi_port_external_lb",
    ),
    "a generator is one engine on the GPUs of generators.engine.tensor_parallel; more are generators.count",
)


class VllmEngineConfig(Section):
    """vLLM, the engine for real runs. New weights are loaded in flight."""

    type: Literal["vllm"] = "vllm"
    tensor_parallel: int = Field(1, ge=1)
    """GPUs per generator (tensor parallelism)."""
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    """Share of the GPU's memory that vLLM uses. With `kv_cache_mb` set: only the share that must be free at the
    start."""
    kv_cache_mb: int | None = Field(None, ge=1)
    """KV cache in MiB. Unset: what `gpu_memory_utilization` leaves, as vLLM measures it at its start. Set it on a CPU,
    and on a GPU that the learner shares, where vLLM would measure too little."""
    max_model_len: int | None = Field(None, ge=1)
    """Longest prompt plus completion, in tokens. Unset: what the data and sampling sections allow."""
    max_num_seqs: int = Field(256, ge=1)
    """Completions sampled at once."""
    max_num_batched_tokens: int | None = Field(None, ge=1)
    """Tokens in one forward pass, which bounds how fast prompts are computed, and the KV cache after new weights.
    Unset: vLLM's own offline default, 16,384 on an H100 or larger and 8,192 on smaller cards."""
    new_weights: Literal["recompute", "keep_cache", "finish_first"] = "recompute"
    """What to do with running completions when new weights arrive. `recompute`: recompute their KV cache and continue,
    so that each token comes from one version alone. `keep_cache`: continue at once with keys and values of older
    versions; log-probabilities are those sampled from, and the learner's differ (`mismatch_kl`). No later completion
    may see the old cache, so prefix caching is off and each completion of a group computes its prompt. `finish_first`:
    start no other completion and wait up to `finish_s` for these to finish."""
    finish_s: float = Field(60.0, gt=0)
    """Seconds that `new_weights: finish_first` waits. Completions still running then continue as with `recompute`."""
    enforce_eager: bool = False
    """Use no CUDA graphs and no compilation: faster to start, slower to run."""
    load_format: Literal["dummy", "safetensors"] = "dummy"
    """Weights that vLLM starts with; the learner's first version replaces them before anything is sampled. `dummy`:
    random numbers, without reading a file. `safetensors`: the model's own, for models of which vLLM keeps a tensor that
    is in no checkpoint. With `dummy` the generator refuses such a model at its first version and names the layer."""
    threads: int | None = Field(None, ge=1)
    """Threads of each vLLM worker on a CPU. Unset: `OMP_NUM_THREADS`, or one, since roles share a machine. Give a
    generator that has a machine of its own all processors. Ignored on a GPU."""
    start_timeout_s: float = Field(600.0, gt=0)
    """Deadline in seconds for the engine's start."""
    extra_args: dict[str, Any] = {}
    """Other arguments of vLLM's engine by their names in Python, such as `{kv_cache_dtype: fp8}`. `millrace doctor` and
    the start check names and values against the installed vLLM."""

    @model_validator(mode="after")
    def _extra_args_are_nobody_elses(self) -> VllmEngineConfig:
        for name in self.extra_args:
            if name in NOT_EXTRA:
                raise ValueError(f"extra_args.{name} can't be set: {NOT_EXTRA[name]}")
        if self.extra_args.get("enable_prefix_caching") and self.new_weights == "keep_cache":
            raise ValueError(
                "extra_args.enable_prefix_caching does not go with new_weights=keep_cache: a later prompt would find "
                "blocks that older weights filled"
            )
        return self


class ScriptedEngineConfig(Section):
    """Scripted answers for tests, without a model."""

    type: Literal["fake"] = "fake"
    answers: tuple[str, ...] = ("\\boxed{1}",)
    """Texts that the completions of a group take in turn."""
    by: Literal["place", "seed"] = "place"
    """Choose a completion's text by its `place` in the group or by the `seed`."""
    seconds_per_group: float = Field(0.0, ge=0)
    """Seconds that a group pretends to take."""


EngineConfig = Annotated[
    HfEngineConfig | VllmEngineConfig | ScriptedEngineConfig, Field(discriminator="type")
]


class GeneratorsConfig(Section):
    """The pool of generators. Each is one process that needs only the run's name and Redis."""

    engine: EngineConfig = VllmEngineConfig()
    """Engine: `vllm`, `hf`, or `fake` in tests. Unset: `vllm`, which needs a GPU, or on a CPU `kv_cache_mb`."""
    count: int = Field(1, ge=1)
    """Generators that `millrace up` starts. Others can join and leave at any time."""
    groups_in_flight: int | None = Field(None, ge=1)
    """Groups that one generator holds at once. No other generator samples a group that is held. Unset: what keeps the
    engine busy (for vLLM twice what `max_num_seqs` and the KV cache have room for, for `hf` `batch_groups`), and at
    most its share among `count` generators of the groups in flight."""
    update_deadline_s: float = Field(60.0, gt=0)
    """Seconds that a generator keeps a group while it waits for the weights that the group needs. Then other generators
    get the group, and this one takes none until its weights arrive."""
    gpus: tuple[GpuNumber, ...] = ()
    """GPUs that `millrace up` hands out, `tensor_parallel` to each generator. Empty: all."""
