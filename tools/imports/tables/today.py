"""Rules of sections that verl has had since 0.7: asynchronous runs, parts of a configuration, distillation, engines."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from tools.imports.hardware import APART, REQUIRED, STALENESS, SYNC_STEP, is_async, updates
from tools.imports.rule import (
    KeyRule,
    KeyTranslation,
    mapped,
    nothing,
    nothing_here,
    number,
    of_verl,
    only,
    part_of,
    refused,
    settings,
    text,
    whole,
)
from tools.imports.tables.actor import ACTOR, DEEPSPEED, MINI, REF, N
from tools.imports.tables.data import EVERY, OLD_EVERY
from tools.imports.theirs import Theirs

MODE: Final = "trainer.v1.trainer_mode"
SEPARATE: Final = "trainer.v1.separate_async.parameter_sync_step"
STEPS: Final = "rollout.total_rollout_steps"
_ENGINES: Final = frozenset({"dp", "fsdp", "fsdp2", "megatron", "veomni", "torchtitan", "automodel"})
_PARTS: Final = re.compile(
    r"(?:dp|megatron|veomni|torchtitan|automodel|fsdp|hf|legacy|rollout|reward|npu)\w*"
)
_TIME: Final = "`millrace top` and `millrace trace` say where time goes"


def _engine(value: Any, _theirs: Theirs) -> KeyTranslation:
    if text(value) not in _ENGINES:
        return refused(f"none of {', '.join(sorted(_ENGINES))}")
    return nothing_here(DEEPSPEED)


def _group(value: Any, _theirs: Theirs) -> KeyTranslation:
    if value is None or _PARTS.fullmatch(text(value)):
        return nothing_here("a part of verl's own configuration: its defaults are known here")
    return refused("a part that is none of verl's own: `--verl FOLDER` reads it with verl's configuration")


def _lag(_value: Any, theirs: Theirs) -> KeyTranslation:
    """Map staleness: samples of that many updates, plus a share, are in flight between two synchronizations."""
    if not is_async(theirs):
        return nothing_here("of verl's fully asynchronous trainer")
    every = updates(theirs)
    share = theirs.number(STALENESS) if theirs.get(STALENESS) is not None else 0.0
    lag = max(1, math.ceil(every * (1 + share)))
    return settings(
        f"{every} updates between two synchronizations there, and {share:g} of them more in stock; here each update is "
        "a version of the weights",
        learner__max_lag=lag,
    )


def _steps(value: Any, theirs: Theirs) -> KeyTranslation:
    if value is None or theirs.get("trainer.total_training_steps") is not None:
        return nothing_here("trainer.total_training_steps says it")
    batch = max(1, theirs.whole(MINI) * _required(theirs))
    return settings(
        f"{whole(value)} prompts in steps of {batch}", learner__steps=max(1, whole(value) // batch)
    )


def _required(theirs: Theirs) -> int:
    return theirs.whole(REQUIRED) if theirs.get(REQUIRED) is not None else 1


def _trainer_mode(value: Any, theirs: Theirs) -> KeyTranslation:
    match text(value):
        case "sync":
            return nothing_here("generators sample on while the learner trains: learner.max_lag")
        case "colocate_async":
            return settings("one batch ahead", learner__max_lag=1)
        case "separate_async":
            every = theirs.whole(SEPARATE) if theirs.get(SEPARATE) is not None else 4
            return settings("the updates between two synchronizations", learner__max_lag=max(1, every))
    return refused(f"{value!r} is none of sync, colocate_async and separate_async")


def _eps(value: Any, _theirs: Theirs) -> KeyTranslation:
    return settings(learner__optimizer__eps=number(value)) if value is not None else nothing_here("null")


def _decay(value: Any, theirs: Theirs) -> KeyTranslation:
    if value is None or theirs.get(f"{ACTOR}.strategy") != "torchtitan":
        return nothing_here("TorchTitan's: lr_scheduler_type says it")
    if value not in ("linear", "cosine"):
        return refused(f"{value!r} is neither linear nor cosine")
    return settings(learner__optimizer__schedule=value)


_LEARNERS: Final = "generators.count, generators.gpus"
GROUP: Final = mapped(
    "GROUP@SECTION",
    "",
    "Hydra's parts: verl's own mean verl's defaults; refused otherwise, but with --verl",
    _group,
)
RULES: Final[tuple[KeyRule, ...]] = (
    mapped("model_engine", "", "the learner is DeepSpeed's, whichever engine verl has", _engine),
    *(
        part_of(key, "trainer.n_gpus_per_node", _LEARNERS, "GPUs that generate")
        for keys in APART
        for key in keys
    ),
    nothing("rollout.n", "actor_rollout_ref.rollout.n says it"),
    nothing("rollout.total_epochs", f"how often the data may come again: {STEPS} says how much is sampled"),
    part_of(OLD_EVERY, EVERY, "evaluation.every", "of asynchronous runs up to 0.7"),
    mapped(STEPS, "learner.steps", "prompts divided by those of a step", _steps),
    mapped(STALENESS, "learner.max_lag", "with trigger_parameter_sync_step", _lag),
    part_of(SYNC_STEP, STALENESS, "learner.max_lag", "updates between two synchronizations"),
    part_of(REQUIRED, N, "learner.groups_per_step", "mini-batches of a step"),
    nothing(
        "async_training.partial_rollout", "an answer goes on with new weights, and knows each token's version"
    ),
    nothing("async_training.*", "generators are always processes of their own"),
    mapped(
        MODE,
        "learner.max_lag",
        "sync: 1, as everywhere here; separate_async: parameter_sync_step",
        _trainer_mode,
    ),
    part_of(SEPARATE, MODE, "learner.max_lag", "for separate_async"),
    only(
        "trainer.v1.sampler.custom_sampler.path",
        "null: the order is the seed's",
        else_="the order of prompts is the seed's here",
    ),
    nothing("trainer.v1.*", "generators are always processes of their own"),
    nothing("trainer.use_v1", "which of verl's trainers runs"),
    only(
        "distillation.enabled",
        "off: no teacher",
        False,
        else_="a teacher's distribution is not learned from here",
    ),
    nothing("distillation.*", "of distillation.enabled"),
    only(f"{ACTOR}.qat.enable", "off", False, else_="weights are trained as they are, without quantization"),
    nothing(f"{ACTOR}.qat.*", "of qat.enable"),
    *(
        nothing(f"{ACTOR}.{engine}.*", DEEPSPEED)
        for engine in ("veomni", "torchtitan", "automodel", "engine")
    ),
    nothing(f"{ACTOR}.pad_to_length*", "rows are packed without padding"),
    nothing(f"{ACTOR}.load_weight", "a learner always begins with the model's weights"),
    nothing(f"{ACTOR}.profile.*", _TIME),
    nothing(f"{ACTOR}.nccl_timeout", "ranks that lose each other end with the reason"),
    nothing(f"{ACTOR}.use_rollout_log_probs", "every token carries the sampler's log-probability"),
    mapped(f"{ACTOR}.optim.eps", "learner.optimizer.eps", "as it is", _eps),
    mapped(
        f"{ACTOR}.optim.decay_type", "learner.optimizer.schedule", "TorchTitan's, linear or cosine", _decay
    ),
    nothing(f"{ACTOR}.optim.exp_avg*", "the optimizer's state is float32"),
    nothing(f"{ACTOR}.optim.lr_min", "the rate ends at learner.optimizer.final_share"),
    nothing(f"{ACTOR}.optim.lr_start", "the rate rises from 0"),
    nothing(f"{ACTOR}.optim.lr_wsd_*", "of a schedule that is not here"),
    nothing(f"{ACTOR}.optim.main_*", "the optimizer's state is float32"),
    nothing(f"{ACTOR}.optim.min_lr_factor", "TorchTitan's: the rate ends at learner.optimizer.final_share"),
    nothing(f"{ACTOR}.optim.muon_*", "the optimizer is AdamW here"),
    only(f"{ACTOR}.optim.name", "AdamW", "AdamW", "adamw", "adam", else_="the optimizer is AdamW here"),
    nothing(f"{ACTOR}.optim.use_*", "the optimizer is DeepSpeed's AdamW"),
    nothing(f"{ACTOR}.optim.weight_decay_incr_style", "the decay is constant"),
    nothing(f"{ACTOR}.optim.zero_indexed_step", "the rate rises from 0"),
    nothing(f"{REF}.optim.*", "a reference is not trained"),
    nothing("skip.*", "answers are always sampled here; `millrace replay` trains on stored ones"),
    of_verl("_target_"),
)
