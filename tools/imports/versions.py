"""Determine the version of verl that a run was written for, by its keys, and that version's defaults.

In: the keys in the sources, and signs in the call. Out: a `Base`: a version with its defaults, and how it was found.
`tables/verl_versions.txt` has each key of verl's own configurations with the first and the last version that has it
(tags v0.2, v0.3.0.post1, v0.4.1, v0.5.0, v0.6.1, v0.7.1, v0.8.0, v0.9.0, and 0.10.0.dev of 2026-08-22, composed by
Hydra 1.3.8). Pure; called by `tools.imports.reading`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.imports.theirs import VerlSetting, WrongValue, flag, number

VERSIONS: Final = ("0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "0.10")
ENGINES: Final = ("megatron", "veomni", "torchtitan")  # their bases have their own defaults
NEWEST: Final = len(VERSIONS) - 1
WITHOUT_SWITCH: Final = 1  # the last one without `use_kl_in_reward`: the divergence is in the reward
II_VERL: Final = "II-VERL"
KL_LOSS, KL_REWARD = "actor_rollout_ref.actor.use_kl_loss", "algorithm.use_kl_in_reward"
KL_COEF: Final = "algorithm.kl_ctrl.kl_coef"
GSM8K_TEST: Final = "~/data/rlhf/gsm8k/test.parquet"
_TINYV: Final = ("reward_model.tinyv_setup", "reward_model.tinyv_weight")
# Signs of older files.
_OLD: Final = frozenset(
    {
        "actor_rollout_ref.actor.ppo_micro_batch_size",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size",
        "actor_rollout_ref.ref.log_prob_micro_batch_size",
        "actor_rollout_ref.actor.fsdp_config.grad_offload",
        "critic.ppo_micro_batch_size",
        "data.val_batch_size",
        "trainer.val_generations_to_log_to_wandb",
        "actor_rollout_ref.actor.checkpoint.contents",
    }
)


def _table() -> dict[str, tuple[int, int]]:
    text = (Path(__file__).parent / "tables" / "verl_versions.txt").read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines())
    return {key: (VERSIONS.index(first), VERSIONS.index(last)) for key, first, last in rows}


KEYS: Final = _table()


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A version of verl, and its defaults."""

    version: int  # of VERSIONS
    defaults: Mapping[str, Any]  # where they differ from today's
    words: str  # for people: which one it is, and why

    @property
    def name(self) -> str:
        """Return the version's name."""
        return VERSIONS[self.version]


def base_of(
    said: Mapping[str, VerlSetting],
    *,
    added: Collection[str] = (),
    is_ii_verl: bool = False,
    engine: str = "dp",
) -> Base:
    """Find the version and its defaults.

    Args:
        said: the keys with their values.
        added: those that the call adds with `+`, which the version need not have.
        is_ii_verl: from its call or its own keys; its base is verl's of February 2025.
        engine: `dp`, or one of ENGINES.
    """
    is_tinyv = any(key in said for key in _TINYV)
    if is_tinyv:
        version, words = WITHOUT_SWITCH, "TinyV's fork of verl 0.3"
    elif is_ii_verl:
        version, words = WITHOUT_SWITCH, f"{II_VERL}, whose base is verl 0.3's"
    else:
        version, words = _version(said, added)
    defaults = _defaults(version, said, engine, is_ii_verl=is_ii_verl)
    if is_tinyv:  # both terms of the divergence are on in its base
        defaults |= {KL_LOSS: True, KL_REWARD: True}
    return Base(version=version, defaults=defaults, words=words)


def _version(said: Mapping[str, VerlSetting], added: Collection[str]) -> tuple[int, str]:
    """Return the version that lacks the fewest keys: the newest of equals, or the oldest with signs of old files."""
    written = [key for key in said if key in KEYS and key not in added]
    lacks = [
        sum(not first <= version <= last for first, last in (KEYS[key] for key in written))
        for version in range(len(VERSIONS))
    ]
    fitting = [version for version, number_ in enumerate(lacks) if number_ == min(lacks)]
    old = sorted(key for key in said if key in _OLD)
    if KL_COEF in said and KL_REWARD not in said and not _is_off(said[KL_COEF]):
        old.append(KL_COEF)
    if old and fitting[0] <= WITHOUT_SWITCH:
        version = max(one for one in fitting if one <= WITHOUT_SWITCH)
        return version, f"verl {VERSIONS[version]}, by {old[0]}"
    version = fitting[-1]
    if len(fitting) == 1:
        return version, f"verl {VERSIONS[version]}, by its keys"
    return (
        version,
        f"verl {VERSIONS[version]}: its keys are those of {VERSIONS[fitting[0]]} to {VERSIONS[version]}",
    )


def _is_off(coefficient: VerlSetting) -> bool:
    try:
        return number(coefficient.value) == 0
    except WrongValue:
        return False


def _is_on(said: Mapping[str, VerlSetting], key: str) -> bool:
    """Return whether a switch is written and on; an invalid value is its own rule's error."""
    try:
        return key in said and said[key].value is not None and flag(said[key].value)
    except WrongValue:
        return False


def _defaults(
    version: int, said: Mapping[str, VerlSetting], engine: str, *, is_ii_verl: bool
) -> dict[str, Any]:
    """Return the defaults that differ from today's."""
    found: dict[str, Any] = {}
    if version <= WITHOUT_SWITCH:
        found |= {
            "actor_rollout_ref.actor.entropy_coeff": 0.001,
            "actor_rollout_ref.actor.clip_ratio_c": None,
            KL_REWARD: not _is_on(said, KL_LOSS),
        }
    if version >= VERSIONS.index("0.7"):
        found["actor_rollout_ref.rollout.mode"] = "async"
    if engine == "veomni":
        found["actor_rollout_ref.actor.optim.lr_scheduler_type"] = "cosine"
    elif engine == "torchtitan":
        found["actor_rollout_ref.actor.optim.decay_type"] = "linear"
        found["actor_rollout_ref.actor.strategy"] = "torchtitan"
    elif engine == "megatron":
        found["actor_rollout_ref.actor.strategy"] = "megatron"
        if version <= WITHOUT_SWITCH and not is_ii_verl:
            found |= {"trainer.test_freq": 2, "data.val_files": GSM8K_TEST}
        if version <= VERSIONS.index("0.6"):
            found["actor_rollout_ref.model.enable_gradient_checkpointing"] = False
        if version in (VERSIONS.index("0.4"), VERSIONS.index("0.5")):
            found["actor_rollout_ref.rollout.tensor_model_parallel_size"] = 1
        if version == VERSIONS.index("0.4"):
            found["actor_rollout_ref.actor.optim.lr_decay_style"] = "linear"
    return found
