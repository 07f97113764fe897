"""Map key names since verl 0.8 to the older names in the tables.

In: a key. Out: the older name. `reward.*` was `reward_model.*`, `custom_reward_function.*` and `sandbox_fusion.*` until
2026-02-11. Pure; used by `tools.imports.reading`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tools.imports.theirs import VerlSetting

_SECTIONS: Final = (
    ("reward.custom_reward_function.", "custom_reward_function."),
    ("reward.sandbox_fusion.", "reward_model.sandbox_fusion."),
    ("sandbox_fusion.", "reward_model.sandbox_fusion."),
    ("reward.reward_kwargs.", "reward_model.reward_kwargs."),
    ("reward.reward_manager.name", "reward_model.reward_manager"),
    ("reward.reward_manager.", "reward_model.reward_loop."),
    ("reward.reward_model.", "reward_model."),
    ("reward.", "reward_model."),
)


def older(key: str) -> str:
    """Return a key's name in the tables."""
    for new, old in _SECTIONS:
        if key.startswith(new):
            return old + key.removeprefix(new)
    return key


def with_older_names(said: Mapping[str, VerlSetting]) -> dict[str, VerlSetting]:
    """Give each key its older name; where both are written, the one with a value counts, as in verl."""
    found: dict[str, VerlSetting] = {}
    for key, one in said.items():
        name = older(key)
        if name not in found or one.value is not None:
            found[name] = one if name == key else replace(one, key=name, written=key)
    return found
