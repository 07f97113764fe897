"""Find settings without an effect: a coefficient whose switch is off, a group of one.

In: `Theirs`. Out: problems, where only the user knows what is meant, and notes, where the answer is written. Pure; used
by `tools.imports.translation`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.imports.tables import multi_turn
from tools.imports.tables.actor import ESTIMATOR, KL_LOSS, KL_REWARD, N, group_size
from tools.imports.tables.rewards import OVERLONG
from tools.imports.theirs import Theirs, WrongValue
from tools.imports.versions import KL_COEF, VERSIONS, WITHOUT_SWITCH

FUNCTION_PATH: Final = "custom_reward_function.path"
_LOSS_COEF: Final = "actor_rollout_ref.actor.kl_loss_coef"
# A coefficient and the switch that it needs.
_SWITCHED: Final = (
    (KL_COEF, KL_REWARD),
    (_LOSS_COEF, KL_LOSS),
    *((f"{section}.penalty_factor", f"{section}.enable") for section in OVERLONG),
)


def problems_of_effect(theirs: Theirs) -> list[str]:
    """Name each coefficient above 0 that would have no effect, unless that is explicit."""
    return [
        f"{theirs.said[key].where}: {theirs.said[key].shown}={theirs.get(key)} would do nothing: {switch} is not "
        f"written, and off in verl {VERSIONS[theirs.version]}; say which is meant, {switch}=True or {switch}=False"
        for key, switch in _idle(theirs)
        if not _is_said(theirs, key, switch)
    ]


def notes_of_effect(theirs: Theirs) -> list[str]:
    """Report settings without an effect, and groups that can't train."""
    notes = [
        f"{theirs.said[key].where}: {theirs.said[key].shown}={theirs.get(key)} does nothing, as in verl: "
        + (f"{KL_LOSS} is on" if not theirs.has(switch) else f"{switch} is off")
        for key, switch in _idle(theirs)
        if _is_said(theirs, key, switch)
    ]
    if multi_turn.plays(theirs):
        notes.append(multi_turn.NOTE)
    if has_single_answers(theirs):
        notes.append(
            f"{N}=1: a group of one has an advantage of 0 here, and nothing trains; verl takes its raw score. Set {N} "
            "to 2 or more"
        )
    if theirs.flag(KL_LOSS) and theirs.flag(KL_REWARD) and theirs.number(KL_COEF) > 0:
        notes.append(
            f"{KL_REWARD} is on beside {KL_LOSS}: the divergence has one place here, and it is the loss; "
            f"{KL_COEF}={theirs.get(KL_COEF)} in the reward is left out"
        )
    if theirs.paid and not theirs.text(FUNCTION_PATH):
        halved = [key for key, is_on in _of_the_scale(theirs) if is_on]
        notes += [
            f"{key}: verl pays {theirs.paid} +1 and -1, which are 1 and 0 here; rewards differ by half as much, "
            "and so should be its weight"
            for key in halved
        ]
    return notes


def _of_the_scale(theirs: Theirs) -> Iterator[tuple[str, bool]]:
    """Yield terms that compete with the size of a reward, and whether they are on."""
    yield KL_REWARD, theirs.flag(KL_REWARD) and not theirs.flag(KL_LOSS) and theirs.number(KL_COEF) > 0
    yield "algorithm.norm_adv_by_std_in_grpo", not theirs.flag("algorithm.norm_adv_by_std_in_grpo")


def has_single_answers(theirs: Theirs) -> bool:
    """Return whether a group has one answer, which is its own baseline."""
    return group_size(theirs) == 1 and theirs.text(ESTIMATOR) != "gae"


def _idle(theirs: Theirs) -> Iterator[tuple[str, str]]:
    """Yield each coefficient above 0 whose switch is off, with the switch."""
    for key, switch in _SWITCHED:
        try:
            if (
                theirs.has(key)
                and theirs.get(key) is not None
                and theirs.number(key) > 0
                and not theirs.flag(switch)
            ):
                yield key, switch
        except WrongValue:
            continue  # the key's own rule reports it


def _is_said(theirs: Theirs, key: str, switch: str) -> bool:
    """Return whether it is explicit that the coefficient has no effect: by its switch, or by the other term."""
    if theirs.has(switch):
        return True
    return key == KL_COEF and theirs.version <= WITHOUT_SWITCH and theirs.flag(KL_LOSS)
