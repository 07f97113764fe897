"""Rules of verl's section `trainer`, and of sections without a counterpart: how long, how often, where to."""

from __future__ import annotations

import re
from typing import Any, Final

from tools.imports.hardware import GPUS, split, updates
from tools.imports.rule import (
    KeyRule,
    KeyTranslation,
    mapped,
    nothing,
    nothing_here,
    of_verl,
    only,
    part_of,
    refused,
    settings,
    taken,
    whole,
)
from tools.imports.tables.actor import ACTOR
from tools.imports.tables.data import EVERY, HELD_OUT, every
from tools.imports.theirs import UNKNOWN, Theirs, texts

RESUME: Final = "trainer.resume_mode"
NAME: Final = "trainer.experiment_name"
ROLLOUTS: Final = "trainer.rollout_data_dir"
MOST_PROMPTS: Final = 100_000  # per round: all rows
WITH_FILES: Final = ("console", "file", "tensorboard")


def run_name(written: str) -> str:
    """Return a valid run name."""
    known = written.partition(UNKNOWN)[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", known).strip("-_")[:100] or "imported"


def _name(value: Any, _theirs: Theirs) -> KeyTranslation:
    name = run_name(str(value))
    return settings("" if name == value else "letters, digits, `_` and `-`", name=name)


def _gpus(_value: Any, theirs: Theirs) -> KeyTranslation:
    found = split(theirs)
    ours: dict[str, Any] = {"generators.count": found.generators, "learner.ranks": found.ranks}
    if found.generator_gpus:
        ours |= {"generators.gpus": list(found.generator_gpus), "learner.gpus": list(found.learner_gpus)}
    return KeyTranslation(verdict=settings().verdict, settings=ours, words=found.words)


def _validation(value: Any, theirs: Theirs) -> KeyTranslation:
    if value is None:
        return nothing_here("null: none are written")
    if value == theirs.get(ROLLOUTS):
        return settings(
            "beside the rollouts, whose files have the same names",
            learner__dumps__held_out=f"{value}/validation",
        )
    return settings(learner__dumps__held_out=value)


def _save(value: Any, theirs: Theirs) -> KeyTranslation:
    contents = (
        theirs.get(f"{ACTOR}.checkpoint.save_contents") or theirs.get(f"{ACTOR}.checkpoint.contents") or []
    )
    ours: dict[str, Any] = {"learner.checkpoint.every": max(0, whole(value) * updates(theirs))}
    if "hf_model" in texts(contents):
        ours["learner.checkpoint.export"] = True
    return KeyTranslation(
        verdict=settings().verdict,
        settings=ours,
        words=_of_versions(theirs)[2:] if whole(value) > 0 else "only the last one",
    )


def _of_versions(theirs: Theirs) -> str:
    count = updates(theirs)
    return f"; counted there in versions of the weights, of {count} steps each" if count > 1 else ""


def _test(_value: Any, theirs: Theirs) -> KeyTranslation:
    if every(theirs) <= 0:
        return nothing_here("no evaluation")
    if theirs.get(HELD_OUT) in (None, "", []):
        return refused(f"there is no {HELD_OUT} to evaluate")
    return settings(
        f"of all rows that are held out{_of_versions(theirs)}",
        evaluation__every=every(theirs),
        evaluation__prompts=MOST_PROMPTS,
    )


def _resume(value: Any, theirs: Theirs) -> KeyTranslation:
    if value == "resume_path":
        return refused(
            "verl's checkpoints can't be read: export the model, and name its folder as the model's path"
        )
    del theirs
    return settings(learner__resume="never" if value == "disable" else "auto")


def _loggers(value: Any, theirs: Theirs) -> KeyTranslation:
    names = texts(value)
    ours: list[dict[str, Any]] = [{"type": "metrics_file"}, {"type": "tensorboard"}]
    offline = (
        str(theirs.environment["WANDB_MODE"].value) == "offline"
        if "WANDB_MODE" in theirs.environment
        else False
    )
    off = any(
        name in theirs.environment and str(theirs.environment[name].value).lower() in {"true", "disabled"}
        for name in ("WANDB_DISABLED", "WANDB_MODE")
    )
    if "wandb" in names and not off:
        project = theirs.text("trainer.project_name") or "verl"
        ours.append({"type": "wandb", "project": project, **({"mode": "offline"} if offline else {})})
    if "trackio" in names:
        ours.append({"type": "trackio", "project": theirs.text("trainer.project_name") or "verl"})
    others = sorted(set(names) - {*WITH_FILES, "wandb", "trackio"})
    words = (
        f"{', '.join(others)} is not here: a logger of type custom could send the numbers there"
        if others
        else ""
    )
    if "wandb" in names and off:
        words = "wandb is switched off in the environment"
    return settings(words, learner__loggers=ours)


def _project(_value: Any, theirs: Theirs) -> KeyTranslation:
    if "wandb" in texts(theirs.get("trainer.logger")):
        return settings("with trainer.logger")
    return nothing_here("no logger has projects")


RULES: Final[tuple[KeyRule, ...]] = (
    mapped(NAME, "name", "other characters become `-`", _name, default="imported"),
    mapped("trainer.project_name", "learner.loggers", "of Weights & Biases and trackio", _project),
    mapped(
        "trainer.logger",
        "learner.loggers",
        "console is metrics_file and tensorboard; wandb, trackio",
        _loggers,
        default=["console"],
    ),
    taken("trainer.total_epochs", "learner.epochs", whole, default=30),
    taken("trainer.total_training_steps", "learner.steps", whole),
    mapped(
        GPUS,
        "learner.ranks, learner.gpus, generators.count, generators.gpus",
        "one half generates, the other trains",
        _gpus,
        default=8,
    ),
    part_of(
        "trainer.nnodes", GPUS, "", "the ranks of all machines; more than one: docs/clusters.md", default=1
    ),
    mapped(
        "trainer.save_freq", "learner.checkpoint.every", "0 and below: only the last one", _save, default=-1
    ),
    mapped(EVERY, "evaluation.every", "0 and below: none", _test, default=-1),
    nothing("trainer.val_after_train", "the last version is evaluated wherever there is an evaluation"),
    nothing("trainer.hf_hub_model_id", "`millrace export` writes a folder that any hub takes"),
    nothing("trainer.val_before_train", "version 0 is evaluated wherever there is an evaluation"),
    only(
        "trainer.val_only", "off", False, else_="`millrace score` scores stored answers; a run always trains"
    ),
    taken("trainer.max_actor_ckpt_to_keep", "learner.checkpoint.keep", whole),
    mapped(RESUME, "learner.resume", "auto as it is; disable: never", _resume),
    part_of("trainer.resume_from_path", RESUME, "", "read for resume_mode resume_path, which is refused"),
    taken(
        "trainer.default_local_dir", "runs_dir", about="the run's folder, named like the run, is made in it"
    ),
    taken(ROLLOUTS, "learner.dumps.rollouts"),
    mapped(
        "trainer.validation_data_dir",
        "learner.dumps.held_out",
        "as it is; `validation` in the folder of the rollouts where both are one",
        _validation,
    ),
    nothing("trainer.default_hdfs_dir", "checkpoints are written to runs_dir, which may be mounted"),
    nothing("trainer.controller_nsight_options.*", "`millrace top` and `millrace trace` say where time goes"),
    nothing("trainer.worker_nsight_options.*", "`millrace top` and `millrace trace` say where time goes"),
    nothing("trainer.critic_warmup", "no objective here has a value model"),
    nothing("trainer.max_critic_ckpt_to_keep", "no objective here has a value model"),
    nothing("trainer.balance_batch", "micro-batches are balanced by tokens over the ranks"),
    nothing(
        "trainer.log_val_generations",
        "samples are printed and kept: learner.samples_every, `millrace report`",
    ),
    nothing(
        "trainer.val_generations_to_log_to_wandb",
        "samples are printed and kept: learner.samples_every, `millrace report`",
    ),
    nothing("trainer.del_local_ckpt_after_load", "learner.checkpoint.keep says what stays"),
    nothing("trainer.remove_previous_ckpt_in_save", "learner.checkpoint.keep says what stays"),
    nothing("trainer.esi_redundant_time", "`millrace drain` checkpoints and ends"),
    nothing("trainer.ray_wait_register_center_timeout", "nothing here is Ray's"),
    nothing("trainer.use_legacy_worker_impl", "a class of verl's"),
    nothing("trainer.device", "learner.device: CUDA where there is one"),
    nothing("trainer.profile_steps", "`millrace top` and `millrace trace` say where time goes"),
    nothing("trainer.npu_profile.*", "`millrace top` and `millrace trace` say where time goes"),
    of_verl("trainer._target_"),
    nothing("global_profiler.*", "`millrace top` and `millrace trace` say where time goes"),
    nothing("ray_init.*", "nothing here is Ray's"),
    nothing("ray_kwargs.*", "nothing here is Ray's"),
    nothing("transfer_queue.*", "groups travel through Redis: broker"),
    nothing("hydra.*", "how Hydra writes its own files"),
)
