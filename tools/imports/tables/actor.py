"""Rules of verl's sections `actor_rollout_ref.model`, `.actor` and `.ref`."""

from __future__ import annotations

from typing import Any, Final

from config.learner.objective import VERL_ESTIMATORS
from tools.imports.hardware import REQUIRED, is_async, split
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
    refused,
    settings,
    taken,
    whole,
)
from tools.imports.tables.correction import Correction, correction_of
from tools.imports.theirs import Theirs, WrongValue, texts

MODEL, ACTOR, REF = "actor_rollout_ref.model", "actor_rollout_ref.actor", "actor_rollout_ref.ref"
ESTIMATOR, MODE = "algorithm.adv_estimator", f"{ACTOR}.policy_loss.loss_mode"
N, BATCH, MINI = "actor_rollout_ref.rollout.n", "data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size"
KL_LOSS, KL_REWARD = f"{ACTOR}.use_kl_loss", "algorithm.use_kl_in_reward"
DYNAMIC, TOKENS = f"{ACTOR}.use_dynamic_bsz", f"{ACTOR}.ppo_max_token_len_per_gpu"
ROWS: Final = (f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ACTOR}.ppo_micro_batch_size")
BY_TOKENS: Final = "micro-batches are cut by tokens: learner.tokens_per_micro_batch"
DEEPSPEED: Final = "the learner is DeepSpeed's: learner.zero"

CORRECTION: Final = "algorithm.rollout_correction"

_AGGREGATES: Final[dict[str, dict[str, Any]]] = {
    "token-mean": {"aggregate": "token"},
    "seq-mean-token-mean": {"aggregate": "sequence"},
    "seq-mean-token-sum": {"aggregate": "constant", "constant_length": 1},
}


def group_size(theirs: Theirs) -> int:
    """Return the completions per prompt: theirs, or 8 where GAE had one, which gives a group no baseline."""
    size = theirs.whole(N)
    return 8 if size < 2 and theirs.text(ESTIMATOR) == "gae" else size


def groups_per_step(theirs: Theirs) -> int:
    """Return the prompts per step: theirs, or as many as keep the number of completions."""
    return max(1, batch(theirs) * theirs.whole(N) // group_size(theirs))


def batch(theirs: Theirs) -> int:
    """Return verl's prompts per step; its fully asynchronous trainer takes single mini-batches."""
    if is_async(theirs):
        required = theirs.whole(REQUIRED) if theirs.get(REQUIRED) is not None else 1
        return max(1, theirs.whole(MINI) * required)
    return theirs.whole(BATCH)


def _loss_mode(value: Any, theirs: Theirs) -> KeyTranslation:
    if value not in _MODES:
        return refused(f"{value!r} is none of {', '.join(_MODES)}, which are here: docs/objectives.md")
    correction = correction_of(theirs)
    weighs = correction.weights is not None and not correction.is_bypass
    if weighs and value != "vanilla":
        raise WrongValue(
            f"weights beside {value} would correct twice: its ratio is the sampler's here",
            f"{CORRECTION}.rollout_is",
        )
    if correction.is_reinforce:
        weight = correction.threshold if correction.weights else None
        return _objective({"type": "reinforce", "max_weight": weight}, theirs)
    return _objective(_loss(str(value), theirs, correction if weighs else None), theirs)


def _loss(mode: str, theirs: Theirs, weights: Correction | None) -> dict[str, Any]:
    """Return our loss with its bounds."""
    low, high, dual = _clips(theirs)
    clips = {"clip_low": low, "clip_high": high}
    if mode.startswith("dppo"):
        bounds = {"divergence": mode.removeprefix("dppo_"), "max_low": low, "max_high": high}
        return {"type": "dppo", **bounds, "max_weight": 20.0 if dual is None else dual}
    if mode == "cispo":  # 1 - 10 is no lower bound: verl's own example has it
        return {"type": "cispo", "clip_low": low if low < 1 else None, "clip_high": high}
    if mode == "gspo":
        return {"type": "gspo", **clips}
    if weights is None:
        return {"type": "grpo", **clips, "dual_clip": dual}
    return {
        "type": "decoupled_ppo",
        **clips,
        "dual_clip": dual,
        "correction.rollout_is": weights.weights,
        "correction.rollout_is_threshold": weights.threshold,
    }


_MODES: Final = ("vanilla", "gspo", "cispo", "dppo_tv", "dppo_kl")


def _clips(theirs: Theirs) -> tuple[float, float, float | None]:
    both = f"{ACTOR}.clip_ratio"
    low, high = (
        theirs.number(both if theirs.get(f"{both}_{side}") is None else f"{both}_{side}")
        for side in ("low", "high")
    )
    return low, high, None if theirs.get(f"{both}_c") is None else theirs.number(f"{both}_c")


def _objective(ours: dict[str, Any], theirs: Theirs) -> KeyTranslation:
    mode = theirs.text(f"{ACTOR}.loss_agg_mode")
    scale = theirs.get(f"{ACTOR}.loss_scale_factor")
    length = (
        theirs.whole("data.max_response_length")
        if scale is None
        else theirs.whole(f"{ACTOR}.loss_scale_factor")
    )
    aggregates = {
        **_AGGREGATES,
        "seq-mean-token-sum-norm": {"aggregate": "constant", "constant_length": length},
    }
    if ours["type"] == "gspo":  # whatever is written: verl's loss aggregates like this
        mode = "seq-mean-token-mean"
    if mode not in aggregates:
        raise WrongValue(f"{mode!r} is none of {', '.join(aggregates)}", f"{ACTOR}.loss_agg_mode")
    ours |= aggregates[mode]
    return KeyTranslation(
        verdict=settings().verdict,
        settings={f"learner.objective.{key}": value for key, value in ours.items()},
    )


def group(value: Any, theirs: Theirs) -> KeyTranslation:
    """Return the groups per step and the answers of each, for the key of a group's answers."""
    size, groups = group_size(theirs), groups_per_step(theirs)
    steps, left = divmod(batch(theirs), max(1, theirs.whole(MINI)))
    words = ""
    if size == 1:
        words = "a group of one has an advantage of 0 here, and trains nothing; verl takes its raw score"
    if size != whole(value):
        words = (
            f"a group of one has no baseline: {groups} groups of {size} in place of {batch(theirs)} answers"
        )
    if left:
        words += f"{words and '; '}{theirs.whole(MINI)} does not divide {batch(theirs)}: rounded"
    return settings(
        words,
        sampling__group_size=size,
        learner__groups_per_step=groups,
        learner__mini_batches=min(groups, max(1, steps)),
    )


def _kl_loss(value: Any, theirs: Theirs) -> KeyTranslation:
    if not flag(value):
        return nothing_here("no term in the loss")
    if not theirs.number(f"{ACTOR}.kl_loss_coef") and theirs.flag(KL_REWARD):
        return nothing_here("its coefficient is 0, and the reward's term stands")
    return kl_term(
        theirs, theirs.number(f"{ACTOR}.kl_loss_coef"), theirs.text(f"{ACTOR}.kl_loss_type"), "loss"
    )


def kl_term(theirs: Theirs, coef: float, estimator: str, place: str) -> KeyTranslation:
    """Return a KL term in the loss or in the reward, from a coefficient and an estimator of verl's."""
    is_straight = estimator.endswith("+")
    estimator = estimator.removesuffix("+")
    if estimator not in {*VERL_ESTIMATORS, *VERL_ESTIMATORS.values(), "abs"}:
        return refused(f"the estimator {estimator!r} is none of {', '.join(VERL_ESTIMATORS)} and abs")
    if not coef:
        return nothing_here("its coefficient is 0: there is no term, and no reference model")
    ours = {"coef": coef, "estimator": VERL_ESTIMATORS.get(estimator, estimator), "place": place}
    if any(theirs.flag(key) for key in REF_OFFLOAD):
        ours["offload"] = True
    return KeyTranslation(
        verdict=settings().verdict,
        settings={f"learner.objective.kl.{key}": value for key, value in ours.items()},
        words="verl's `+` has the gradient of k2 under that value; here it is the estimator's own"
        if is_straight
        else "",
    )


REF_OFFLOAD: Final = (
    f"{REF}.fsdp_config.param_offload",
    f"{REF}.param_offload",
    f"{REF}.megatron.param_offload",
)


def _ref_offload(value: Any, theirs: Theirs) -> KeyTranslation:
    if not flag(value):
        return nothing_here("off here, too")
    has_kl = theirs.flag(KL_LOSS) or theirs.flag(KL_REWARD)
    return (
        settings("the term of the KL divergence has it")
        if has_kl
        else nothing_here("there is no reference model")
    )


def _tokens(value: Any, theirs: Theirs) -> KeyTranslation:
    if theirs.flag(DYNAMIC):
        return settings(learner__tokens_per_micro_batch=whole(value))
    if (rows := next((theirs.whole(key) for key in ROWS if theirs.get(key) is not None), 0)) > 0:
        longest = theirs.whole("data.max_prompt_length") + theirs.whole("data.max_response_length")
        per_gpu = (
            rows
            if theirs.get(ROWS[0]) is not None
            else max(1, rows // max(1, theirs.whole("trainer.n_gpus_per_node")))
        )
        return settings(
            f"{per_gpu} rows of at most {longest} tokens",
            learner__tokens_per_micro_batch=min(per_gpu * longest, 65_536),
        )
    return settings(learner__tokens_per_micro_batch=whole(value))


def _rows(value: Any, theirs: Theirs) -> KeyTranslation:
    if value is None:
        return nothing_here("null")
    if theirs.flag(DYNAMIC):
        return nothing_here(f"{DYNAMIC} is on: {TOKENS} says it")
    return settings(f"with {TOKENS}")


def _sequence(value: Any, theirs: Theirs) -> KeyTranslation:
    ranks, wanted = split(theirs).ranks, max(1, whole(value))
    width = next(size for size in range(min(wanted, ranks), 0, -1) if ranks % size == 0)
    return settings(
        "" if width == wanted else f"{wanted} does not divide {ranks} ranks", learner__sequence_ranks=width
    )


def _offload(name: str, ours: str) -> Any:
    def convert(value: Any, _theirs: Theirs) -> KeyTranslation:
        if not flag(value):
            return nothing_here("off here, too")
        stage = {"learner.zero.stage": 3} if name == "param" else {}
        return KeyTranslation(verdict=settings().verdict, settings={f"learner.zero.{ours}": True, **stage})

    return convert


def _strategy(_value: Any, theirs: Theirs) -> KeyTranslation:
    stage = 3 if theirs.flag(f"{ACTOR}.fsdp_config.param_offload") or split(theirs).ranks > 1 else 1
    return settings(
        "all is partitioned, as FSDP does it" if stage == 3 else "one rank", learner__zero__stage=stage
    )


def _lora(value: Any, theirs: Theirs) -> KeyTranslation:
    if not whole(value or 0):
        return nothing_here("0: all weights train")
    targets = theirs.get(f"{MODEL}.target_modules")
    return settings(
        learner__lora={
            "rank": whole(value),
            "alpha": theirs.whole(
                f"{MODEL}.lora.alpha" if theirs.has(f"{MODEL}.lora.alpha") else f"{MODEL}.lora_alpha"
            ),
            "targets": "all-linear" if targets in (None, "all-linear") else texts(targets),
        }
    )


def _warmup(value: Any, theirs: Theirs) -> KeyTranslation:
    if value is not None and whole(value) >= 0:
        return settings(learner__optimizer__warmup_steps=whole(value))
    share = theirs.number(f"{ACTOR}.optim.lr_warmup_steps_ratio")
    return (
        settings(learner__optimizer__warmup_share=share)
        if share
        else settings(learner__optimizer__warmup_steps=0)
    )


def _schedule(value: Any, theirs: Theirs) -> KeyTranslation:
    if value is None:
        return nothing_here("null: constant, unless another key says it")
    if value not in (None, "constant", "cosine", "linear"):
        return refused(f"{value!r} is none of constant, linear and cosine")
    ratio = theirs.get(f"{ACTOR}.optim.min_lr_ratio")
    ours: dict[str, Any] = {"learner.optimizer.schedule": value or "constant"}
    if value == "cosine" and ratio is not None:
        ours["learner.optimizer.final_share"] = number(ratio)
    return KeyTranslation(verdict=settings().verdict, settings=ours)


def _attention(value: Any, _theirs: Theirs) -> KeyTranslation:
    names = {"flash_attention_2": "flash", "flash_attention_3": "flash", "sdpa": "sdpa", "eager": "sdpa"}
    if value not in names:
        return refused(f"{value!r} is none of {', '.join(names)}")
    return settings(learner__attention=names[value])


def _betas(value: Any, _theirs: Theirs) -> KeyTranslation:
    if not isinstance(value, list) or len(value) != 2:
        return refused("two numbers are expected")
    return settings(learner__optimizer__betas=[number(one) for one in value])


def _override(value: Any, _theirs: Theirs) -> KeyTranslation:
    """Refuse settings that change the model in its folder."""
    if value in (None, {}, "", False) or str(value).lower() in ("false", "0", "0.0"):
        return nothing_here("off, or empty")
    return refused(f"the model's config is its folder's: write it into config.json there, as {value!r}")


RULES: Final[tuple[KeyRule, ...]] = (
    taken(f"{MODEL}.path", "model.path", default="~/models/deepseek-llm-7b-chat"),
    taken(f"{MODEL}.enable_gradient_checkpointing", "learner.gradient_checkpointing", flag, default=True),
    taken(f"{MODEL}.enable_activation_offload", "learner.offload_activations", flag),
    taken(f"{MODEL}.trust_remote_code", "model.trust_remote_code", flag),
    nothing(f"{MODEL}.use_remove_padding", "rows are packed without padding wherever the attention can"),
    mapped(f"{MODEL}.lora_rank", "learner.lora.rank", "0: no section", _lora),
    part_of(f"{MODEL}.lora_alpha", f"{MODEL}.lora_rank", "learner.lora.alpha", "as it is", default=16),
    part_of(f"{MODEL}.target_modules", f"{MODEL}.lora_rank", "learner.lora.targets", "as it is"),
    only(f"{MODEL}.exclude_modules", "null", else_="name the layers that have adapters in target_modules"),
    only(f"{MODEL}.lora_adapter_path", "null", else_="set learner.lora.adapter"),
    mapped(
        f"{MODEL}.override_config.attn_implementation",
        "learner.attention",
        "flash_attention_2 is flash",
        _attention,
    ),
    *(
        nothing(f"{MODEL}.override_config.{name}", "no dropout while it trains")
        for name in ("attention_dropout", "embd_pdrop", "resid_pdrop", "hidden_dropout", "dropout")
    ),
    mapped(
        f"{MODEL}.override_config.*",
        "",
        "nothing, where it is off or empty; refused otherwise: config.json of the model's folder has it",
        _override,
    ),
    only(
        f"{MODEL}.external_lib",
        "null",
        else_="a model that needs a library of its own: set trust_remote_code",
    ),
    taken(f"{MODEL}.custom_chat_template", "model.chat_template.text", about="a template's text"),
    only(
        f"{MODEL}.tokenizer_path", "null: the model's own", else_="put the tokenizer into the model's folder"
    ),
    only(f"{MODEL}.hf_config_path", "null: the model's own", else_="put config.json into the model's folder"),
    mapped(f"{MODEL}.lora.rank", "learner.lora.rank", "Megatron's; 0: no section", _lora),
    part_of(f"{MODEL}.lora.alpha", f"{MODEL}.lora.rank", "learner.lora.alpha", "as it is"),
    nothing(f"{MODEL}.lora.*", "adapters begin as LoRA's paper has them"),
    nothing(f"{MODEL}.tiled_mlp.*", "micro-batches are cut by tokens: learner.tokens_per_micro_batch"),
    only(
        f"{MODEL}.mtp.enable",
        "off: one token at a time",
        False,
        else_="heads for several tokens are not trained",
    ),
    nothing(f"{MODEL}.mtp.*", "of mtp.enable"),
    nothing(f"{MODEL}.use_shm", "a model is read from where it lies"),
    nothing(
        f"{MODEL}.use_liger", "the learner has its own kernels: learner.attention, learner.torch_compile"
    ),
    nothing(
        f"{MODEL}.use_fused_*", "the learner has its own kernels: learner.attention, learner.torch_compile"
    ),
    nothing(f"{MODEL}.fused_kernel_options.*", "the learner has its own kernels"),
    nothing(f"{MODEL}.return_last_hidden_state", "no value model reads it"),
    of_verl(f"{MODEL}._target_"),
    nothing("actor_rollout_ref.hybrid_engine", "generators and learner have GPUs of their own"),
    nothing("actor_rollout_ref.nccl_timeout", "ranks that lose each other end with the reason"),
    nothing("actor_rollout_ref.profiler.*", "`millrace top` and `millrace trace` say where time goes"),
    mapped(
        f"{ACTOR}.strategy",
        "learner.zero.stage",
        "ZeRO 3 for FSDP's full partition; 1 on one rank",
        _strategy,
        default="fsdp",
    ),
    part_of(MINI, N, "learner.mini_batches", "train_batch_size divided by it", default=256),
    nothing(DYNAMIC, "micro-batches are always cut by tokens"),
    mapped(
        TOKENS,
        "learner.tokens_per_micro_batch",
        "as it is; without use_dynamic_bsz rows x longest row",
        _tokens,
        default=16384,
    ),
    *(
        mapped(
            key, "learner.tokens_per_micro_batch", "rows x the longest row; not with use_dynamic_bsz", _rows
        )
        for key in ROWS
    ),
    mapped(
        f"{ACTOR}.ulysses_sequence_parallel_size",
        "learner.sequence_ranks",
        "as it is, where it divides the learner's ranks",
        _sequence,
    ),
    mapped(KL_LOSS, "learner.objective.kl", "place: loss", _kl_loss, default=False),
    part_of(
        f"{ACTOR}.kl_loss_coef",
        KL_LOSS,
        "learner.objective.kl.coef",
        "where use_kl_loss is on",
        default=0.001,
        is_switch=True,
    ),
    part_of(
        f"{ACTOR}.kl_loss_type",
        KL_LOSS,
        "learner.objective.kl.estimator",
        "kl, mse and low_var_kl are k1, k2 and k3",
        default="low_var_kl",
        is_switch=True,
    ),
    mapped(
        MODE,
        "learner.objective.type",
        "vanilla is grpo; gspo and cispo as they are; dppo_tv and dppo_kl are dppo",
        _loss_mode,
        default="vanilla",
    ),
    nothing(f"{ACTOR}.policy_loss.*", "of losses that are not here"),
    nothing(f"{ACTOR}.model_engine", "the learner is DeepSpeed's, whichever engine verl has"),
    part_of(f"{ACTOR}.clip_ratio", MODE, "learner.objective.clip_low, clip_high", "both bounds", default=0.2),
    part_of(f"{ACTOR}.clip_ratio_low", MODE, "learner.objective.clip_low", "as it is"),
    part_of(f"{ACTOR}.clip_ratio_high", MODE, "learner.objective.clip_high", "as it is"),
    part_of(
        f"{ACTOR}.clip_ratio_c",
        MODE,
        "learner.objective.dual_clip, max_weight",
        "as it is; of dppo the largest weight",
        default=3.0,
    ),
    part_of(
        f"{ACTOR}.loss_agg_mode",
        MODE,
        "learner.objective.aggregate",
        "token-mean is token, seq-mean-token-mean sequence, seq-mean-token-sum constant with a length of 1, and "
        "seq-mean-token-sum-norm constant with the longest answer",
        default="token-mean",
    ),
    taken(f"{ACTOR}.entropy_coeff", "learner.objective.entropy_coef", number, default=0.0),
    only(
        f"{ACTOR}.ppo_epochs",
        "each group trains once",
        1,
        else_="each group trains once; learner.mini_batches makes several steps of one batch",
    ),
    nothing(f"{ACTOR}.shuffle", "the groups of a batch are in the order of their coming"),
    nothing(
        f"{ACTOR}.use_torch_compile", "verl compiles its entropy; learner.torch_compile the model's layers"
    ),
    nothing(f"{ACTOR}.use_remove_padding", "rows are packed without padding wherever the attention can"),
    nothing(f"{ACTOR}.use_fused_kernels", "the learner has its own kernels"),
    nothing(f"{ACTOR}.entropy_*", "logits are taken in chunks in any case"),
    nothing(f"{ACTOR}.calculate_entropy", "each step's entropy is a metric"),
    nothing(f"{ACTOR}.rollout_n", "actor_rollout_ref.rollout.n says it"),
    nothing(f"{ACTOR}.tau_*", "of a loss that is not here"),
    nothing(f"{ACTOR}.use_prefix_grouper", "the learner has its own packing"),
    nothing(f"{ACTOR}.data_loader_seed", "the groups of a batch are in the order of their coming"),
    nothing(f"{ACTOR}.calculate_sum_pi_squared", "of an advantage that is not here"),
    nothing(f"{ACTOR}.sum_pi_squared_*", "of an advantage that is not here"),
    only(f"{ACTOR}.router_replay.mode", "off", "disabled", else_="experts are not replayed in the learner"),
    nothing(f"{ACTOR}.router_replay.*", "of router_replay.mode"),
    only(
        f"{ACTOR}.freeze_vision_tower",
        "off",
        False,
        else_="models of text are trained here, and this one has a tower for images",
    ),
    part_of(
        f"{ACTOR}.loss_scale_factor", MODE, "learner.objective.constant_length", "for seq-mean-token-sum-norm"
    ),
    taken(f"{ACTOR}.grad_clip", "learner.optimizer.grad_clip", number, default=1.0),
    taken(f"{ACTOR}.optim.lr", "learner.optimizer.lr", number, default=1e-6),
    taken(f"{ACTOR}.optim.weight_decay", "learner.optimizer.weight_decay", number, default=0.01),
    mapped(f"{ACTOR}.optim.betas", "learner.optimizer.betas", "as it is", _betas, default=[0.9, 0.999]),
    mapped(
        f"{ACTOR}.optim.lr_warmup_steps",
        "learner.optimizer.warmup_steps",
        "below 0: the share",
        _warmup,
        default=-1,
    ),
    part_of(
        f"{ACTOR}.optim.lr_warmup_steps_ratio",
        f"{ACTOR}.optim.lr_warmup_steps",
        "learner.optimizer.warmup_share",
        "where lr_warmup_steps is below 0",
        default=0.0,
    ),
    mapped(f"{ACTOR}.optim.warmup_style", "learner.optimizer.schedule", "as it is", _schedule),
    mapped(f"{ACTOR}.optim.lr_decay_style", "learner.optimizer.schedule", "as it is", _schedule),
    nothing(f"{ACTOR}.optim.lr_decay_*", "the schedule ends at learner.steps"),
    nothing(f"{ACTOR}.optim.lr_warmup_init", "the rate rises from 0"),
    nothing(f"{ACTOR}.optim.min_lr", "the rate ends at learner.optimizer.final_share"),
    mapped(f"{ACTOR}.optim.lr_scheduler_type", "learner.optimizer.schedule", "as it is", _schedule),
    part_of(f"{ACTOR}.optim.min_lr_ratio", "the schedule", "learner.optimizer.final_share", "for cosine"),
    only(f"{ACTOR}.optim.num_cycles", "half a wave", 0.5, else_="cosine falls once here"),
    nothing(f"{ACTOR}.optim.clip_grad", "grad_clip of the actor says it"),
    nothing(f"{ACTOR}.optim.total_training_steps", "the schedule ends at learner.steps"),
    only(
        f"{ACTOR}.optim.optimizer*",
        "AdamW",
        "AdamW",
        "adamw",
        "adam",
        "torch.optim",
        "torchao.optim",
        else_="the optimizer is AdamW here",
    ),
    mapped(
        f"{ACTOR}.optim.override_optimizer_config.optimizer_cpu_offload",
        "learner.zero.offload_optimizer",
        "Megatron's, as it is",
        _offload("optimizer", "offload_optimizer"),
    ),
    nothing(f"{ACTOR}.optim.override_optimizer_config.*", "of Megatron's optimizer"),
    only(
        f"{ACTOR}.optim.override_optimizer_config",
        "empty",
        {},
        else_="the optimizer is AdamW here, with betas and eps",
    ),
    of_verl(f"{ACTOR}.optim._target_"),
    mapped(
        f"{ACTOR}.fsdp_config.param_offload",
        "learner.zero.offload_weights",
        "with ZeRO 3",
        _offload("param", "offload_weights"),
    ),
    mapped(
        f"{ACTOR}.fsdp_config.optimizer_offload",
        "learner.zero.offload_optimizer",
        "as it is",
        _offload("optimizer", "offload_optimizer"),
    ),
    nothing(f"{ACTOR}.fsdp_config.grad_offload", "gradients are partitioned, and never all on one GPU"),
    nothing(f"{ACTOR}.fsdp_config.*", DEEPSPEED),
    nothing(f"{ACTOR}.fsdp2_config.*", DEEPSPEED),
    mapped(
        f"{ACTOR}.megatron.param_offload",
        "learner.zero.offload_weights",
        "with ZeRO 3",
        _offload("param", "offload_weights"),
    ),
    mapped(
        f"{ACTOR}.megatron.optimizer_offload",
        "learner.zero.offload_optimizer",
        "as it is",
        _offload("optimizer", "offload_optimizer"),
    ),
    nothing(f"{ACTOR}.megatron.*", DEEPSPEED),
    part_of(
        f"{ACTOR}.checkpoint.contents", "trainer.save_freq", "learner.checkpoint.export", "true with hf_model"
    ),
    part_of(
        f"{ACTOR}.checkpoint.save_contents",
        "trainer.save_freq",
        "learner.checkpoint.export",
        "true with hf_model",
    ),
    nothing(f"{ACTOR}.checkpoint.*", "a checkpoint is DeepSpeed's whole state"),
    nothing(f"{ACTOR}.profiler.*", "`millrace top` and `millrace trace` say where time goes"),
    of_verl(f"{ACTOR}._target_"),
    *(
        mapped(key, "learner.objective.kl.offload", "where there is a KL term", _ref_offload)
        for key in REF_OFFLOAD
    ),
    only(f"{REF}.model", "null: the model as it began", else_="set learner.objective.kl.reference"),
    nothing(f"{REF}.log_prob_*", BY_TOKENS),
    nothing(f"{REF}.fsdp_config.*", DEEPSPEED),
    nothing(f"{REF}.megatron.*", DEEPSPEED),
    nothing(f"{REF}.*", "the reference is passed as the policy is"),
)
