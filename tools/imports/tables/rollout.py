"""Rules of verl's section `actor_rollout_ref.rollout`: how groups, and rounds of evaluation, are sampled."""

from __future__ import annotations

from typing import Any, Final

from tools.imports.hardware import WIDTH, split
from tools.imports.rule import (
    KeyRule,
    KeyTranslation,
    flag,
    mapped,
    nothing,
    nothing_here,
    number,
    of_verl,
    only,
    part_of,
    settings,
    taken,
    whole,
)
from tools.imports.tables import multi_turn
from tools.imports.tables.actor import BY_TOKENS, N, group
from tools.imports.tables.data import VAL, is_greedy
from tools.imports.theirs import Theirs

ROLLOUT: Final = "actor_rollout_ref.rollout"


def _engine(value: Any, _theirs: Theirs) -> KeyTranslation:
    if value == "hf":
        return settings(generators__engine__type="hf")
    words = "" if value == "vllm" else f"{value!r} is not here: vLLM samples"
    return settings(words, generators__engine__type="vllm")


def is_vllm(theirs: Theirs) -> bool:
    """Return whether the engine has vLLM's keys."""
    return theirs.text(f"{ROLLOUT}.name") != "hf"


def of_vllm(key: str, ours: str, read: Any, about: str = "as it is") -> KeyRule:
    """Take a key of vLLM only."""

    def convert(value: Any, theirs: Theirs) -> KeyTranslation:
        if value is None or not is_vllm(theirs):
            return nothing_here(
                "null: unset here, too" if value is None else "the engine is hf, which has none"
            )
        return KeyTranslation(
            verdict=taken("", "").verdict, settings={f"generators.engine.{ours}": read(value)}
        )

    return KeyRule(
        key=f"{ROLLOUT}.{key}",
        verdict=taken("", "").verdict,
        ours=f"generators.engine.{ours}",
        about=about,
        convert=convert,
    )


def _width(_value: Any, theirs: Theirs) -> KeyTranslation:
    if not is_vllm(theirs):
        return nothing_here("the engine is hf, which has none")
    return settings(generators__engine__tensor_parallel=split(theirs).tensor_parallel)


def _memory(value: Any, theirs: Theirs) -> KeyTranslation:
    if not is_vllm(theirs):
        return nothing_here("the engine is hf, which has none")
    if split(theirs).learner_gpus == (0,):
        return settings(
            "one GPU for both: a cache of a fixed size beside the learner",
            generators__engine__kv_cache_mb=4096,
            generators__engine__gpu_memory_utilization=0.25,
        )
    if not theirs.has(f"{ROLLOUT}.gpu_memory_utilization"):
        return nothing_here("the learner has other GPUs: the default here")
    return settings(
        "the learner has other GPUs: 0.9 would do", generators__engine__gpu_memory_utilization=number(value)
    )


def _held_out_temperature(value: Any, theirs: Theirs) -> KeyTranslation:
    if not is_greedy(theirs):
        return settings(evaluation__temperature=number(value))
    return settings("0: greedy", evaluation__temperature=0.0)


RULES: Final[tuple[KeyRule, ...]] = (
    mapped(
        f"{ROLLOUT}.name",
        "generators.engine.type",
        "vllm and hf; sglang becomes vllm",
        _engine,
        default="vllm",
    ),
    taken(f"{ROLLOUT}.temperature", "sampling.temperature", number, default=1.0),
    only(
        f"{ROLLOUT}.top_p",
        "1: the whole distribution",
        1,
        else_="a truncated distribution makes importance ratios wrong: set it to 1",
    ),
    only(
        f"{ROLLOUT}.top_k",
        "all: the whole distribution",
        -1,
        0,
        else_="a truncated distribution makes importance ratios wrong: set it to -1",
    ),
    only(
        f"{ROLLOUT}.do_sample",
        "on: groups are sampled",
        True,
        else_="greedy groups have no variance to learn from",
    ),
    mapped(N, "sampling.group_size", "with train_batch_size and ppo_mini_batch_size", group, default=1),
    mapped(
        WIDTH,
        "generators.engine.tensor_parallel",
        "as it is, where the generators' GPUs allow it",
        _width,
        default=2,
    ),
    only(
        f"{ROLLOUT}.pipeline_model_parallel_size",
        "1",
        1,
        else_="a generator spreads its model by tensor_parallel alone",
    ),
    nothing(f"{ROLLOUT}.moe_tensor_parallel_size", "a generator spreads its model by tensor_parallel alone"),
    nothing(f"{ROLLOUT}.data_parallel_size", "generators.count has as many as the GPUs allow"),
    nothing(f"{ROLLOUT}.expert_parallel_size", "a generator spreads its model by tensor_parallel alone"),
    mapped(
        f"{ROLLOUT}.gpu_memory_utilization",
        "generators.engine.gpu_memory_utilization",
        "as it is; on one GPU for both kv_cache_mb beside it",
        _memory,
        default=0.5,
    ),
    of_vllm("enforce_eager", "enforce_eager", flag),
    of_vllm("max_num_batched_tokens", "max_num_batched_tokens", whole),
    of_vllm("max_model_len", "max_model_len", whole),
    of_vllm("max_num_seqs", "max_num_seqs", whole),
    taken(f"{ROLLOUT}.dtype", "model.dtype", about="of the learner's weights too", default="bfloat16"),
    only(
        f"{ROLLOUT}.ignore_eos",
        "off: an answer ends where the model ends it",
        False,
        else_="an answer ends where the model ends it",
    ),
    nothing(f"{ROLLOUT}.prompt_length", "data.max_prompt_length says it"),
    nothing(f"{ROLLOUT}.response_length", "data.max_response_length says it"),
    nothing(f"{ROLLOUT}.free_cache_engine", "generators and learner have GPUs of their own"),
    nothing(f"{ROLLOUT}.load_format", "generators are given the learner's weights before they sample"),
    nothing(
        f"{ROLLOUT}.mode",
        "generators are always processes of their own; held-out answers of mode async read no do_sample",
    ),
    nothing(f"{ROLLOUT}.enable_chunked_prefill", "vLLM decides"),
    nothing(f"{ROLLOUT}.enable_prefix_caching", "generators.engine.new_weights decides"),
    nothing(f"{ROLLOUT}.calculate_log_probs", "every token carries the sampler's log-probability"),
    nothing(f"{ROLLOUT}.log_prob_*", BY_TOKENS),
    nothing(f"{ROLLOUT}.disable_log_stats", "`millrace top` has vLLM's numbers"),
    *multi_turn.RULES,
    only(
        f"{ROLLOUT}.agent.agent_loop_config_path",
        "null: verl's own loops",
        else_="a loop of your own is an environment here: scorers.tasks.NAME.environment of type custom",
    ),
    nothing(f"{ROLLOUT}.agent.*", "multi_turn says whether tools answer"),
    only(f"{ROLLOUT}.chat_scheduler", "null", else_="what it does is not here; multi_turn has tools"),
    only(
        f"{ROLLOUT}.use_fire_sampling", "off", False, else_="the log-probabilities would not be the policy's"
    ),
    only(
        f"{ROLLOUT}.over_sample_rate",
        "0",
        0,
        else_="every answer of a group is waited for: an early one would favour short ones",
    ),
    only(
        f"{ROLLOUT}.skip_rollout",
        "off",
        False,
        else_="answers are always sampled here; `millrace replay` trains on stored ones",
    ),
    nothing(f"{ROLLOUT}.engine_kwargs.*", "options of engines that verl starts"),
    nothing(f"{ROLLOUT}.cudagraph_capture_sizes", "vLLM decides"),
    nothing(f"{ROLLOUT}.layered_summon", "how verl moves weights: here learner.weights"),
    nothing(f"{ROLLOUT}.update_weights_bucket_megabytes", "how verl moves weights: here learner.weights"),
    nothing(f"{ROLLOUT}.multi_stage_wake_up", "generators and learner have GPUs of their own"),
    nothing(f"{ROLLOUT}.skip_dump_dir", "of skip_rollout"),
    nothing(f"{ROLLOUT}.skip_tokenizer_init", "the chat template is applied by the learner"),
    nothing(f"{ROLLOUT}.limit_images", "prompts are text"),
    nothing(f"{ROLLOUT}.micro_batch_size*", "of verl's engine hf"),
    only(f"{ROLLOUT}.quantization", "null: none", else_="generators load the learner's own weights"),
    nothing(f"{ROLLOUT}.quantization_config_file", "of quantization"),
    only(
        f"{ROLLOUT}.enable_rollout_routing_replay",
        "off",
        False,
        else_="experts are not replayed in the learner",
    ),
    nothing(f"{ROLLOUT}.logprobs_mode", "every token carries the sampler's log-probability"),
    nothing(f"{ROLLOUT}.scheduling_policy", "vLLM decides"),
    nothing(f"{ROLLOUT}.checkpoint_engine.*", "how verl moves weights: here learner.weights"),
    nothing(f"{ROLLOUT}.prometheus.*", "`millrace metrics` serves a run's numbers"),
    nothing(f"{ROLLOUT}.mtp*", "of model.mtp"),
    nothing(f"{ROLLOUT}.trace.*", "`millrace trace` follows a group"),
    nothing(f"{ROLLOUT}.profiler.*", "`millrace top` and `millrace trace` say where time goes"),
    nothing(f"{ROLLOUT}.qat.*", "generators load the learner's own weights"),
    only(f"{ROLLOUT}.qat.enable", "off", False, else_="generators load the learner's own weights"),
    nothing(f"{ROLLOUT}.disaggregation.*", "of disaggregation.enabled"),
    nothing(f"{ROLLOUT}.seed", "each answer's seed follows from the run's"),
    nothing(f"{ROLLOUT}.full_determinism", "each answer's seed follows from the run's"),
    nothing(f"{ROLLOUT}.moe_load_balance_metrics_interval", "of a metric that is not here"),
    nothing(f"{ROLLOUT}.enable_sleep_mode", "generators and learner have GPUs of their own"),
    nothing(f"{ROLLOUT}.standalone_gpu_memory_utilization", "generators have GPUs of their own"),
    nothing(f"{ROLLOUT}.layer_name_map.*", "how verl moves Megatron's weights: here learner.weights"),
    nothing(f"{ROLLOUT}.skip.*", "of skip_rollout"),
    of_verl(f"{ROLLOUT}._target_"),
    mapped(f"{VAL}.temperature", "evaluation.temperature", "greedy is 0", _held_out_temperature, default=0),
    part_of(
        f"{VAL}.do_sample", f"{VAL}.temperature", "evaluation.temperature", "false: 0, greedy", default=False
    ),
    taken(f"{VAL}.n", "evaluation.samples", whole, default=1),
    taken(f"{VAL}.top_p", "evaluation.top_p", number, default=1.0),
    only(
        f"{VAL}.top_k",
        "all: the whole distribution",
        -1,
        0,
        else_="held-out answers are of the whole distribution here: set it to -1",
    ),
    of_verl(f"{VAL}._target_"),
)
