"""These sections say how groups are sampled: the engine, and how much of it a run uses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from config.section import GpuNumber, Section


class SamplingConfig(Section):
    """How a training group is sampled. Evaluation has its own numbers in `evaluation`."""

    group_size: int = Field(8, ge=1)
    """Completions of one prompt: the group that the advantage is computed over."""
    temperature: float = Field(1.0, gt=0)
    """Softmax temperature; the log-probabilities that travel are of this very distribution. With vLLM from 0.01 to 2:
    it refuses more, and would sample at 0.01 in the place of less."""
    max_tokens: int = Field(1024, ge=1)
    """Longest completion, in tokens."""
    top_p: float = 1.0
    """Must stay 1: a truncated distribution makes importance ratios wrong."""
    top_k: int = -1
    """Must stay -1, for the same reason."""

    @model_validator(mode="after")
    def _whole_distribution(self) -> SamplingConfig:
        if self.top_p != 1.0 or self.top_k != -1:
            raise ValueError(
                "top_p must be 1 and top_k -1 in training: the sampler's log-probabilities would not be "
                "those of the policy, and every importance ratio would be wrong"
            )
        return self


class HfEngineConfig(Section):
    """transformers with a KV cache: runs anywhere, the demo's engine."""

    type: Literal["hf"] = "hf"
    batch_groups: int = Field(16, ge=1)
    """Groups of `sampling.group_size` completions sampled side by side, or as many turns of episodes; new weights are
    loaded between two batches."""
    threads: int | None = Field(None, ge=1)
    """Threads for torch; unset: torch's own choice."""


# Arguments of vLLM's engine that a run sets by other keys, or that Millrace sets itself -> what to do.
NOT_EXTRA = {
    "model": "it is model.path",
    "model_weights": "it is model.path",
    "revision": "it is model.revision",
    "hf_token": "it is model.hf_token",
    "trust_remote_code": "it is model.trust_remote_code",
    "dtype": "it is model.dtype",
    "hf_overrides": "it has model.head_dtype and model.tie_word_embeddings",
    "tensor_parallel_size": "it is generators.engine.tensor_parallel",
    "data_parallel_size": "each generator has one engine; more are generators.count",
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
    "logprobs_mode": "the learner needs those of the distribution that was sampled from",
    "skip_tokenizer_init": "vLLM is given token ids, and returns them",
    "disable_log_stats": "Millrace counts itself",
    "distributed_executor_backend": "Millrace ends the workers with the generator, which no other executor allows",
    "weight_transfer_config": "new weights come by Millrace's own loader",
    "worker_cls": "new weights come by Millrace's own loader",
    "worker_extension_cls": "new weights come by Millrace's own loader",
}


class VllmEngineConfig(Section):
    """vLLM: the engine for real runs; new weights are loaded in flight."""

    type: Literal["vllm"] = "vllm"
    tensor_parallel: int = Field(1, ge=1)
    """GPUs that one generator spreads its model over."""
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    """Share of the GPU's memory that vLLM takes. With `kv_cache_mb`: that has to be free when vLLM starts, and no
    more is meant by it."""
    kv_cache_mb: int | None = Field(None, ge=1)
    """Size of the KV cache in MiB; unset: what is left of `gpu_memory_utilization`, as vLLM measures it at its start.
    Needed on a CPU, and on a GPU that the learner uses too: what vLLM measures beside a training learner is less."""
    max_model_len: int | None = Field(None, ge=1)
    """Longest prompt and completion together; unset: what the data and sampling sections allow."""
    max_num_seqs: int = Field(256, ge=1)
    """Completions sampled side by side."""
    max_num_batched_tokens: int | None = Field(None, ge=1)
    """Tokens of one forward pass: the rate at which prompts, and the KV cache after new weights, are computed.
    Unset: vLLM's own number for work without a server: 16,384 on an H100 or larger, 8,192 on smaller cards."""
    new_weights: Literal["recompute", "keep_cache", "finish_first"] = "recompute"
    """What becomes of completions under way when new weights come. `recompute`: they go on, after their KV cache is
    computed again, so that each token is of one version alone. `keep_cache`: they go on at once, with the keys and
    values of older versions behind new weights; the log-probabilities are those that were sampled from, and the
    learner's differ (`mismatch_kl`). No later completion sees the old cache: prefix caching is off, and each completion
    of a group computes the prompt. `finish_first`: they end, no other begins, and the update waits up to `finish_s`."""
    finish_s: float = Field(60.0, gt=0)
    """Seconds that `new_weights: finish_first` waits for completions under way; those that are left go on as with
    `recompute`."""
    enforce_eager: bool = False
    """No CUDA graphs and no compilation: faster to start, slower to run."""
    load_format: Literal["dummy", "safetensors"] = "dummy"
    """What vLLM starts with; nothing is sampled before the learner's first version, which replaces it. `dummy`: random
    numbers, no file is read. `safetensors`: the model's own weights, for a model of which vLLM keeps something that is
    in no version's file; with `dummy` the generator refuses such a model at its first version, and names the layer."""
    threads: int | None = Field(None, ge=1)
    """Threads that each worker of vLLM computes with on a CPU; unset: what `OMP_NUM_THREADS` says, or one, since roles
    share a machine. A generator with a machine of its own takes all processors. Without a meaning on a GPU."""
    start_timeout_s: float = Field(600.0, gt=0)
    """Seconds that the engine may take to start."""
    extra_args: dict[str, Any] = {}
    """Any other argument of vLLM's engine, by its name in Python: `{kv_cache_dtype: fp8}`. A name that the installed
    vLLM does not know, or a value that it refuses, is said by `millrace doctor` and at the start."""

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
    """Scripted answers for tests: no model at all."""

    type: Literal["fake"] = "fake"
    answers: tuple[str, ...] = ("\\boxed{1}",)
    """Texts that the completions of a group go round."""
    by: Literal["place", "seed"] = "place"
    """Which of them a completion has: by its place in the group, or drawn by the seed."""
    seconds_per_group: float = Field(0.0, ge=0)
    """How long a group pretends to take."""


EngineConfig = Annotated[
    HfEngineConfig | VllmEngineConfig | ScriptedEngineConfig, Field(discriminator="type")
]


class GeneratorsConfig(Section):
    """The pool of generators. Each is one process and needs nothing but the run's name and Redis."""

    engine: EngineConfig = VllmEngineConfig()
    """What samples: `vllm`, `hf`, or `fake` in tests.
    Unset: `vllm`, which wants a GPU, or on a CPU `kv_cache_mb`."""
    count: int = Field(1, ge=1)
    """Generators that `millrace up` starts. More can join and leave at any time."""
    groups_in_flight: int | None = Field(None, ge=1)
    """Groups that one generator holds at once; a held group is not shared. Unset: what keeps its engine busy, and at
    most its share of the budget among `count` generators. Of vLLM that is twice what `max_num_seqs` and the KV cache
    have room for, of `hf` `batch_groups`."""
    update_deadline_s: float = Field(60.0, gt=0)
    """Seconds that a generator keeps a group while it waits for the weights that the group needs.
    Then other generators get the group, and this one takes none until its weights have come."""
    gpus: tuple[GpuNumber, ...] = ()
    """GPUs for `millrace up` to hand out, `tensor_parallel` to each generator. Empty: all are visible."""
