"""Translate names of verl's, TRL's and prime-rl's settings to ours, or say why there is no such key here.

In: an unknown key and the value that was written for it. Out: text for the error message. Pure functions; used by
`config.explanations`. A foreign name is never accepted as ours: defaults and units differ, and users who move a run
should check each key once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

VERLS_SECTION: Final = "actor_rollout_ref"  # every configuration of verl has this section, and no other one
# Their name -> our key. A name with a dot takes precedence over its last part alone.
OURS: Final[Mapping[str, str]] = {
    # verl
    "rollout.n": "sampling.group_size",
    "rollout.temperature": "sampling.temperature",
    "rollout.top_p": "sampling.top_p",
    "rollout.top_k": "sampling.top_k",
    "rollout.name": "generators.engine.type",
    "rollout.response_length": "sampling.max_tokens",
    "val_kwargs.n": "evaluation.samples",
    "val_kwargs.temperature": "evaluation.temperature",
    "val_kwargs.top_p": "evaluation.top_p",
    "optim.lr": "learner.optimizer.lr",
    "optim.weight_decay": "learner.optimizer.weight_decay",
    "optim.betas": "learner.optimizer.betas",
    "train_batch_size": "learner.groups_per_step",
    "gen_batch_size": "learner.groups_in_flight",
    "ppo_mini_batch_size": "learner.mini_batches",
    "ppo_max_token_len_per_gpu": "learner.tokens_per_micro_batch",
    "log_prob_max_token_len_per_gpu": "learner.tokens_per_micro_batch",
    "kl_coef": "learner.objective.kl.coef",
    "kl_loss_coef": "learner.objective.kl.coef",
    "use_kl_loss": "learner.objective.kl.coef",
    "use_kl_in_reward": "learner.objective.kl.coef",
    "kl_loss_type": "learner.objective.kl.estimator",
    "kl_penalty": "learner.objective.kl.estimator",
    "target_kl": "learner.objective.kl.target",
    "adv_estimator": "learner.objective.type",
    "norm_adv_by_std_in_grpo": "learner.advantage.scale",
    "clip_ratio": "learner.objective.clip_low",
    "clip_ratio_low": "learner.objective.clip_low",
    "clip_ratio_high": "learner.objective.clip_high",
    "clip_ratio_c": "learner.objective.dual_clip",
    "loss_agg_mode": "learner.objective.aggregate",
    "entropy_coeff": "learner.objective.entropy_coef",
    "grad_clip": "learner.optimizer.grad_clip",
    "enable_gradient_checkpointing": "learner.gradient_checkpointing",
    "ulysses_sequence_parallel_size": "learner.sequence_ranks",
    "tensor_model_parallel_size": "generators.engine.tensor_parallel",
    "total_training_steps": "learner.steps",
    "total_epochs": "learner.epochs",
    "save_freq": "learner.checkpoint.every",
    "test_freq": "evaluation.every",
    "max_actor_ckpt_to_keep": "learner.checkpoint.keep",
    "rollout_data_dir": "learner.dumps.rollouts",
    "validation_data_dir": "learner.dumps.held_out",
    "custom_chat_template": "model.chat_template",
    "resume_mode": "learner.resume",
    "resume_from_path": "learner.resume",
    "default_local_dir": "runs_dir",
    "experiment_name": "name",
    "project_name": "learner.loggers.project",
    "n_gpus_per_node": "learner.ranks",
    "staleness_threshold": "learner.max_lag",
    "train_files": "data.train.path",
    "val_files": "data.held_out.path",
    "prompt_key": "data.train.prompt_column",
    "max_prompt_length": "data.max_prompt_tokens",
    "max_response_length": "sampling.max_tokens",
    "custom_reward_function": "scorers.tasks",
    "filter_groups": "learner.filters.zero_variance",
    # TRL
    "num_generations": "sampling.group_size",
    "max_completion_length": "sampling.max_tokens",
    "beta": "learner.objective.kl.coef",
    "epsilon": "learner.objective.clip_low",
    "epsilon_high": "learner.objective.clip_high",
    "delta": "learner.objective.dual_clip",
    "loss_type": "learner.objective.type",
    "scale_rewards": "learner.advantage.scale",
    "steps_per_generation": "learner.mini_batches",
    "importance_sampling_level": "learner.objective.type",
    "mask_truncated_completions": "learner.filters.truncated",
    "learning_rate": "learner.optimizer.lr",
    "adam_epsilon": "learner.optimizer.eps",
    "max_grad_norm": "learner.optimizer.grad_clip",
    "warmup_ratio": "learner.optimizer.warmup_share",
    "lr_scheduler_type": "learner.optimizer.schedule",
    "num_train_epochs": "learner.epochs",
    "max_steps": "learner.steps",
    "save_steps": "learner.checkpoint.every",
    "save_total_limit": "learner.checkpoint.keep",
    "eval_steps": "evaluation.every",
    "report_to": "learner.loggers.type",
    "output_dir": "runs_dir",
    "run_name": "name",
    "model_name_or_path": "model.path",
    "torch_dtype": "model.dtype",
    "dataset_name": "data.train.path",
    "dataset_config": "data.train.config_name",
    "reward_funcs": "scorers.tasks",
    "attn_implementation": "learner.attention",
    "vllm_gpu_memory_utilization": "generators.engine.gpu_memory_utilization",
    "vllm_tensor_parallel_size": "generators.engine.tensor_parallel",
    "vllm_importance_sampling_cap": "learner.objective.correction.rollout_is_threshold",
    "lora_r": "learner.lora.rank",
    "lora_alpha": "learner.lora.alpha",
    "lora_target_modules": "learner.lora.targets",
    # prime-rl
    "parallel.tp": "generators.engine.tensor_parallel",
    "ckpt.interval": "learner.checkpoint.every",
    "ckpt.resume_step": "learner.resume",
    "eval.interval": "evaluation.every",
    "model.name": "model.path",
    "max_async_level": "learner.max_lag",
    "async_level": "learner.max_lag",
    "max_off_policy_steps": "learner.max_lag",
    "rollouts_per_example": "sampling.group_size",
    "seq_len": "learner.tokens_per_micro_batch",
    "max_concurrent": "generators.groups_in_flight",
    "max_model_len": "generators.engine.max_model_len",
}

# Their name -> why no key here sets it.
NOT_HERE: Final[Mapping[str, str]] = {
    "critic": "no objective here has a value model",
    "gamma": "a reward belongs to a whole answer, and no objective here discounts",
    "lam": "no objective here has a value model, and so none has generalized advantages",
    "gae": "no objective here has a value model",
    "nnodes": "learner.ranks counts processes, and each finds the others as torchrun tells it",
    "num_iterations": "each group trains once; learner.mini_batches makes several optimizer steps of one batch",
    "ppo_epochs": "each group trains once; learner.mini_batches makes several optimizer steps of one batch",
    "ppo_micro_batch_size": "micro-batches are cut by tokens: learner.tokens_per_micro_batch",
    "ppo_micro_batch_size_per_gpu": "micro-batches are cut by tokens: learner.tokens_per_micro_batch",
    "log_prob_micro_batch_size_per_gpu": "micro-batches are cut by tokens: learner.tokens_per_micro_batch",
    "micro_batch_size": "micro-batches are cut by tokens: learner.tokens_per_micro_batch",
    "per_device_train_batch_size": "a step is learner.groups_per_step groups, cut by learner.tokens_per_micro_batch",
    "gradient_accumulation_steps": "a step is learner.groups_per_step groups, cut by learner.tokens_per_micro_batch",
    "generation_batch_size": "generators sample on while the learner trains: learner.groups_in_flight bounds them",
    "batch_size": "a step is learner.groups_per_step prompts of sampling.group_size answers each",
    "use_dynamic_bsz": "micro-batches are always cut by tokens: learner.tokens_per_micro_batch",
    "use_remove_padding": "rows are packed without padding wherever the attention can",
    "fsdp_config": "the learner is DeepSpeed's: learner.zero",
    "megatron": "the learner is DeepSpeed's: learner.zero",
    "param_offload": "the learner is DeepSpeed's: learner.zero.offload_weights",
    "optimizer_offload": "the learner is DeepSpeed's: learner.zero.offload_optimizer",
    "use_vllm": "the engine is generators.engine.type, a process of its own",
    "vllm_mode": "generators are always processes of their own; generators.gpus says on which GPUs",
    "vllm_server_host": "generators find the run in Redis: REDIS_URL",
    "free_cache_engine": "generators and learner have GPUs of their own",
    "hybrid_engine": "generators and learner have GPUs of their own",
    "ref_model_sync_steps": "the reference stays what it is: learner.objective.kl.reference",
    "sync_ref_model": "the reference stays what it is: learner.objective.kl.reference",
    "multi_turn": "tools and environments are a task's: scorers.tasks.NAME.environment",
    "repetition_penalty": "the log-probabilities would not be the policy's",
    "min_p": "the log-probabilities would not be the policy's",
    "bf16": "the type is model.dtype=bfloat16",
    "fp16": "the type is model.dtype=float16",
    "reward_weights": "a part's share is scorers.tasks.NAME.extra_scorers.PART.weight",
    "logging_steps": "every step is logged; samples every learner.samples_every",
    "remove_unused_columns": "only the columns that data.train names are read",
    "environment": "a task's scorer is scorers.tasks.NAME.scorer; a row names its task",
}


def answer(path: tuple[str, ...], section: object) -> str:
    """Return the answer for an unknown key: `; here that is KEY`, `; not here, because ...`, or "".

    Args:
        path: of the unknown key.
        section: the value that was written for it, or a tree of keys.
    """
    if not isinstance(section, Mapping):
        return _one(path, "that")
    if whole := _one(path, path[-1]):
        return whole
    return "".join(_one((*path, *inner), ".".join(inner[-2:])) for inner in _leaves(section))


def whole_file(tree: Mapping[str, Any]) -> list[str]:
    """Return what to do with a whole configuration of another system; [] if it is none."""
    if VERLS_SECTION not in tree:
        return []
    return ["this is a configuration of verl: `millrace import FILE -o run.yaml` writes it as a run here"]


def _one(path: tuple[str, ...], name: str) -> str:
    for words in (".".join(path[-2:]), path[-1]):
        if words in OURS:
            return f"; here {name} is {OURS[words]}"
        if words in NOT_HERE:
            return f"; {name} is not here, because {NOT_HERE[words]}"
    return ""


def _leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of values, and of sections that have an entry in the tables."""
    for key, value in tree.items():
        here = (*path, str(key))
        if isinstance(value, Mapping) and key not in OURS and key not in NOT_HERE:
            yield from _leaves(value, here)
        else:
            yield here
