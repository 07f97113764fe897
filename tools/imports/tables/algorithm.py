"""Rules of verl's sections `algorithm` and `critic`."""

from __future__ import annotations

from typing import Any, Final

from tools.imports.rule import (
    KeyRule,
    KeyTranslation,
    flag,
    mapped,
    nothing,
    nothing_here,
    of_verl,
    only,
    part_of,
    refused,
    settings,
    whole,
)
from tools.imports.tables.actor import ACTOR, ESTIMATOR, KL_LOSS, KL_REWARD, groups_per_step, kl_term
from tools.imports.theirs import Theirs

NO_CRITIC: Final = "no objective here has a value model (docs/decisions/0018)"
FILTER: Final = "algorithm.filter_groups"
_BY_SCORE: Final = frozenset({"acc", "score"})  # of filter_groups.metric: without penalties
_OVERLONG: Final = ("reward_model.overlong_buffer", "reward_model.reward_kwargs.overlong_buffer_cfg")
_NEAR_0: Final = 1e-4  # below one right answer in any group
_WHITENED: Final = (
    "divided by the deviation of the step's rewards; verl divides by that of its tokens' advantages, and takes off "
    "their mean"
)
# verl's advantage estimator -> ours, and what changes.
_ADVANTAGES: Final[dict[str, tuple[dict[str, str], str]]] = {
    "grpo": ({"baseline": "mean"}, ""),
    "gae": (
        {"baseline": "mean"},
        f"{NO_CRITIC}: GAE with a critic becomes GRPO, whose baseline is the group's mean",
    ),
    "rloo": ({"baseline": "leave_one_out", "scale": "none"}, ""),
    "reinforce_plus_plus_baseline": ({"baseline": "mean", "scale": "batch_std"}, _WHITENED),
}


def _estimator(value: Any, theirs: Theirs) -> KeyTranslation:
    if value not in _ADVANTAGES:
        return refused(f"{value!r} is none of {', '.join(_ADVANTAGES)}, which are here")
    ours, words = _ADVANTAGES[value]
    scale = "std" if theirs.flag("algorithm.norm_adv_by_std_in_grpo") else "none"
    return KeyTranslation(
        verdict=settings().verdict,
        settings={f"learner.advantage.{key}": one for key, one in {"scale": scale, **ours}.items()},
        words=words,
    )


def _kl_reward(value: Any, theirs: Theirs) -> KeyTranslation:
    if not flag(value):
        return nothing_here("no term in the reward")
    if theirs.flag(KL_LOSS) and theirs.number(f"{ACTOR}.kl_loss_coef"):
        return nothing_here(f"left out: {KL_LOSS} is on, and the term has one place here")
    kind = theirs.text("algorithm.kl_ctrl.type")
    outcome = kl_term(
        theirs, theirs.number("algorithm.kl_ctrl.kl_coef"), theirs.text("algorithm.kl_penalty"), "reward"
    )
    if kind == "adaptive" and outcome.settings.get("learner.objective.kl.coef"):
        adaptive = {
            "learner.objective.kl.target": theirs.number("algorithm.kl_ctrl.target_kl"),
            "learner.objective.kl.horizon": theirs.whole("algorithm.kl_ctrl.horizon"),
        }
        return KeyTranslation(verdict=outcome.verdict, settings={**outcome.settings, **adaptive})
    return outcome


def _filter_groups(value: Any, theirs: Theirs) -> KeyTranslation:
    if not flag(value):
        return settings(learner__filters__zero_variance="keep")
    if theirs.get(f"{FILTER}.metric") in _BY_SCORE and any(
        theirs.flag(f"{section}.enable") for section in _OVERLONG
    ):
        return settings(
            "by scores without penalties: those that are all right or all wrong are replaced",
            learner__filters__zero_variance="replace",
            learner__filters__pass_rate=[_NEAR_0, 1 - _NEAR_0],
        )
    return settings(learner__filters__zero_variance="replace")


def _most_batches(value: Any, theirs: Theirs) -> KeyTranslation:
    if not theirs.flag(f"{FILTER}.enable") or value is None or whole(value) <= 0:
        return nothing_here("nothing is filtered, or without a bound")
    return settings(
        f"{whole(value)} batches of {groups_per_step(theirs)} groups",
        learner__filters__max_replaced=whole(value) * groups_per_step(theirs),
    )


RULES: Final[tuple[KeyRule, ...]] = (
    nothing("critic.*", NO_CRITIC),
    mapped(
        ESTIMATOR,
        "learner.advantage",
        "grpo and gae: the group's mean; rloo: leave_one_out; reinforce_plus_plus_baseline: batch_std",
        _estimator,
        default="gae",
    ),
    part_of(
        "algorithm.norm_adv_by_std_in_grpo",
        ESTIMATOR,
        "learner.advantage.scale",
        "std, or none",
        default=True,
    ),
    mapped(KL_REWARD, "learner.objective.kl", "place: reward", _kl_reward, default=False),
    part_of(
        "algorithm.kl_penalty",
        KL_REWARD,
        "learner.objective.kl.estimator",
        "where use_kl_in_reward is on",
        default="kl",
        is_switch=True,
    ),
    part_of(
        "algorithm.kl_ctrl.type",
        KL_REWARD,
        "learner.objective.kl.target",
        "adaptive has one",
        default="fixed",
        is_switch=True,
    ),
    part_of(
        "algorithm.kl_ctrl.kl_coef",
        KL_REWARD,
        "learner.objective.kl.coef",
        "where use_kl_in_reward is on",
        default=0.001,
        is_switch=True,
    ),
    part_of(
        "algorithm.kl_ctrl.horizon",
        KL_REWARD,
        "learner.objective.kl.horizon",
        "for adaptive",
        default=10000,
        is_switch=True,
    ),
    part_of(
        "algorithm.kl_ctrl.target_kl",
        KL_REWARD,
        "learner.objective.kl.target",
        "for adaptive",
        default=0.1,
        is_switch=True,
    ),
    nothing("algorithm.gamma", "a reward belongs to a whole answer, and no objective here discounts"),
    nothing("algorithm.lam", NO_CRITIC),
    mapped(
        f"{FILTER}.enable",
        "learner.filters.zero_variance",
        "true: replace; false: keep",
        _filter_groups,
        default=False,
    ),
    part_of(
        f"{FILTER}.metric",
        f"{FILTER}.enable",
        "learner.filters.pass_rate",
        "acc with the overlong buffer: by scores without penalties; else by rewards",
        is_switch=True,
    ),
    mapped(
        f"{FILTER}.max_num_gen_batches",
        "learner.filters.max_replaced",
        "batches x groups of a step",
        _most_batches,
    ),
    nothing(f"{FILTER}.*", "stray keys of Reasoning360's file, which verl does not read there"),
    only("algorithm.use_pf_ppo", "off", False, else_="prompts are not weighed by their rewards here"),
    nothing("algorithm.pf_ppo.*", "of use_pf_ppo, which is not here"),
    of_verl("algorithm._target_"),
    of_verl("algorithm.kl_ctrl._target_"),
)
