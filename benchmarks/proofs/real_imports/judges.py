"""Who says what a launch script means: bash itself for the words, Hydra for the values that they make.

In: a script in a checkout. Out: the words of its call, as a bash of its own gives them, in a namespace without network
where every program but text tools writes down its arguments; and the 28 values of Hydra's composition of the checkout's
own base with these words. None of `tools.imports`' tables and rules is used.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sandbox.walls.bubblewrap import find_bwrap

SECONDS: Final = 30
_NOT_THERE: Final = r"""
command_not_found_handle() {
  printf '%s\0' "$PWD" "$@" $'\x1e' >> "$JUDGED"
  case $1 in python*|nvidia-smi) return 1;; esac
}
mkdir() { :; }; cp() { :; }; rm() { :; }; sleep() { :; }; touch() { :; }; ulimit() { :; }; tee() { command cat; }
cd() { builtin cd "$@" 2>/dev/null || PWD=${@: -1}; }
source() { [ -r "$1" ] && builtin source "$@"; }
date() { command date -d "@$SOURCE_DATE_EPOCH" "$@"; }
hostname() { printf 'host\n'; }
"""
_TOOLS: Final = (
    "[", "awk", "basename", "bash", "bc", "cat", "cut", "date", "dirname", "echo", "expr", "false", "find",
    "grep", "head", "ls", "mawk", "printf", "readlink", "realpath", "sed", "seq", "sort", "tail", "tr", "true",
    "uniq", "wc",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BashCall:
    """A call of the trainer as bash made it."""

    module: str
    config_path: str | None
    config_name: str | None
    words: tuple[str, ...]
    folder: str  # where it is made


def calls_of(
    script: Path, checkout: Path, mains: frozenset[str], scratch: Path, epoch: int
) -> list[BashCall]:
    """Run a script by bash, started in its checkout, and return its calls of the trainer.

    Args:
        script: the script.
        checkout: where it is started; a copy, since it may be written to.
        mains: modules' names that count.
        scratch: an empty folder.
        epoch: the time that `date` tells.
    """
    tools = scratch / "tools"
    if not tools.is_dir():
        tools.mkdir()
        for name in _TOOLS:
            if found := shutil.which(name, path="/usr/bin:/bin"):
                (tools / name).symlink_to(found)
        (scratch / "prelude.sh").write_text(_NOT_THERE, encoding="utf-8")
    judged = scratch / "judged"
    judged.write_bytes(b"")
    command = [str(find_bwrap()), "--unshare-all", "--die-with-parent", "--dev", "/dev", "--proc", "/proc"]
    for folder in ("/usr", "/bin", "/lib", "/lib64"):
        command += ["--ro-bind-try", folder, folder]
    command += [
        "--tmpfs",
        "/tmp",  # noqa: S108
        "--bind",
        str(checkout),
        str(checkout),
        "--bind",
        str(scratch),
        str(scratch),
    ]
    environment = {
        "PATH": str(tools),
        "HOME": str(Path.home()),
        "USER": os.environ.get("USER", "user"),
        "BASH_ENV": str(scratch / "prelude.sh"),
        "JUDGED": str(judged),
        "SOURCE_DATE_EPOCH": str(epoch),
        "DEVICE": "gpu",
        **_of_slurm(script.read_text(encoding="utf-8", errors="replace")),
    }
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [*command, "--chdir", str(checkout), "/bin/bash", str(script.relative_to(checkout))],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    text = judged.read_bytes().decode(errors="replace")
    commands = [one.split("\0")[:-1] for one in text.split("\x1e\0")]
    return [call for words in commands if (call := _call(words, mains)) is not None]


def _of_slurm(script: str) -> dict[str, str]:
    """Return what Slurm would set."""
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)", script, re.MULTILINE))
    names = {
        "nodes": "SLURM_NNODES",
        "gpus-per-node": "SLURM_GPUS_PER_NODE",
        "cpus-per-task": "SLURM_CPUS_PER_TASK",
        "job-name": "SLURM_JOB_NAME",
    }
    found = {name: asked[option] for option, name in names.items() if option in asked}
    return found | ({"SLURM_JOB_NUM_NODES": asked["nodes"]} if "nodes" in asked else {})


def _call(words: Sequence[str], mains: frozenset[str]) -> BashCall | None:
    for place, word in enumerate(words[:-1]):
        module = words[place + 1] if word == "-m" else ""
        if not module and word.endswith(".py"):
            module = word.removesuffix(".py").replace("/", ".")
        if module.rpartition(".")[2] in mains:
            rest, options = list(words[place + (2 if word == "-m" else 1) :]), {}
            kept: list[str] = []
            while rest:
                one = rest.pop(0)
                name, equals, value = one.partition("=")
                if name.replace("_", "-") in ("--config-path", "--config-name"):
                    options[name.replace("_", "-")] = value if equals else rest.pop(0)
                elif one.strip():
                    kept.append(one)
            return BashCall(
                module=module,
                config_path=options.get("--config-path"),
                config_name=options.get("--config-name"),
                words=tuple(kept),
                folder=words[0],
            )
    return None


ACTOR, ROLLOUT, ALGORITHM = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "algorithm"


def values_of(composed: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return the 28 values that decide on a run, of a composition, as verl's trainer reads them."""
    get = composed.get
    mode = get(f"{ACTOR}.policy_loss.loss_mode", "vanilla")
    # asynchronous trainers count versions of the weights
    updates = int(get("async_training.trigger_parameter_sync_step") or 1)
    tests = int(get("rollout.test_freq") or get("trainer.test_freq") or -1) * updates
    batch, n = _step(composed)
    low, high = (
        get(
            f"{ACTOR}.clip_ratio"
            if get(f"{ACTOR}.clip_ratio_{side}") is None
            else f"{ACTOR}.clip_ratio_{side}"
        )
        for side in ("low", "high")
    )
    warm = get(f"{ACTOR}.optim.lr_warmup_steps")
    coef, place = _divergence(composed)
    return {
        "model.path": get("actor_rollout_ref.model.path"),
        "data.train": _files(get("data.train_files"), folder),
        "data.held_out": _files(get("data.val_files"), folder) if tests > 0 else [],
        "data.max_prompt_tokens": get("data.max_prompt_length"),
        "sampling.max_tokens": get("data.max_response_length"),
        "sampling.group_size": n,
        "sampling.temperature": _number(get(f"{ROLLOUT}.temperature")),
        "learner.groups_per_step": batch,
        "learner.mini_batches": _mini_batches(composed, batch),
        "learner.optimizer.lr": _number(get(f"{ACTOR}.optim.lr")),
        "learner.optimizer.weight_decay": _number(get(f"{ACTOR}.optim.weight_decay", 0.01)),
        "learner.optimizer.grad_clip": _number(get(f"{ACTOR}.grad_clip", 1.0)),
        "learner.optimizer.warmup_steps": int(warm) if warm is not None and int(warm) >= 0 else None,
        "learner.optimizer.warmup_share": (_number(get(f"{ACTOR}.optim.lr_warmup_steps_ratio")) or None)
        if warm is None or int(warm) < 0
        else None,
        "learner.optimizer.schedule": _schedule(composed),
        "learner.objective.clip_low": None if mode == "cispo" and float(low or 0) >= 1 else _number(low),
        "learner.objective.clip_high": _number(high),
        "learner.objective.dual_clip": _number(get(f"{ACTOR}.clip_ratio_c")) if mode == "vanilla" else None,
        "learner.objective.entropy_coef": _number(get(f"{ACTOR}.entropy_coeff")),
        "learner.objective.aggregate": "sequence"
        if mode == "gspo"
        else _AGGREGATES.get(get(f"{ACTOR}.loss_agg_mode", "token-mean")),
        "learner.objective.kl.coef": coef,
        "learner.objective.kl.place": place,
        "learner.advantage.baseline": "leave_one_out"
        if get(f"{ALGORITHM}.adv_estimator") == "rloo"
        else "mean",
        "learner.filters.zero_variance": "replace"
        if _on(get(f"{ALGORITHM}.filter_groups.enable"))
        else "keep",
        "learner.epochs": None if get("trainer.total_training_steps") else get("trainer.total_epochs"),
        "learner.steps": get("trainer.total_training_steps") or _budget(composed, batch),
        "learner.checkpoint.every": max(0, int(get("trainer.save_freq") or 0) * updates),
        "evaluation.every": tests if tests > 0 else None,
    }


_AGGREGATES: Final = {
    "token-mean": "token",
    "seq-mean-token-mean": "sequence",
    "seq-mean-token-sum": "constant",
    "seq-mean-token-sum-norm": "constant",
}


def _budget(composed: Mapping[str, Any], batch: int) -> int | None:
    """Return the steps of an asynchronous run's budget of prompts."""
    prompts = composed.get("rollout.total_rollout_steps")
    return (
        max(1, int(prompts) // batch)
        if prompts is not None and "async_training.require_batches" in composed
        else None
    )


def _step(composed: Mapping[str, Any]) -> tuple[int, int]:
    """Return the prompts of a step and the answers of a prompt; GAE's single answers are groups of eight here."""
    batch, n = int(composed.get("data.train_batch_size") or 0), int(composed.get(f"{ROLLOUT}.n", 1))
    if "async_training.require_batches" in composed:
        batch = int(composed[f"{ACTOR}.ppo_mini_batch_size"]) * int(
            composed["async_training.require_batches"]
        )
    return (
        (max(1, batch // 8), 8)
        if composed.get(f"{ALGORITHM}.adv_estimator") == "gae" and n == 1
        else (batch, n)
    )


def _mini_batches(composed: Mapping[str, Any], batch: int) -> int:
    whole = int(composed.get("data.train_batch_size") or 0) or batch
    return min(batch, max(1, whole // int(composed[f"{ACTOR}.ppo_mini_batch_size"])))


def _divergence(composed: Mapping[str, Any]) -> tuple[float | None, str | None]:
    """Return the coefficient and the place of the divergence; up to 0.3 it is in the reward if not in the loss."""
    in_loss = _on(composed.get(f"{ACTOR}.use_kl_loss"))
    in_reward = _on(composed.get(f"{ALGORITHM}.use_kl_in_reward", not in_loss))
    if not (in_loss or in_reward):
        return None, None
    coef = _number(composed.get(f"{ACTOR}.kl_loss_coef" if in_loss else f"{ALGORITHM}.kl_ctrl.kl_coef"))
    return (coef, "loss" if in_loss else "reward") if coef else (None, None)


def _schedule(composed: Mapping[str, Any]) -> str:
    names = ("warmup_style", "lr_scheduler_type", "lr_decay_style")
    return next(
        (str(found) for name in names if (found := composed.get(f"{ACTOR}.optim.{name}"))), "constant"
    )


def _on(value: Any) -> bool:
    return str(value).lower() in ("true", "1")


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _files(value: Any, folder: str) -> list[str]:
    """Return files, of a call that was made elsewhere below its folder."""
    if isinstance(value, str) and value.startswith("["):
        value = [one.strip(" '\"") for one in value.strip("[]").split(",")]
    files = [str(one) for one in (value if isinstance(value, list) else [] if value is None else [value])]
    is_elsewhere = folder != str(Path.cwd())
    return [
        os.path.normpath(one if one.startswith(("/", "~")) or not is_elsewhere else f"{folder}/{one}")
        for one in files
    ]
