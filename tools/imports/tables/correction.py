"""Rules of verl's rollout correction: weights and rejection where sampler and learner disagree.

verl 0.6 has `algorithm.rollout_is*`, 0.5 the cap `actor.tis_imp_ratio_cap`, and later versions
`algorithm.rollout_correction.*`, whose bounds are those of the inverse ratio (docs/objectives.md). Whether the loss
changes is decided here and read by the rule of `policy_loss.loss_mode`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tools.imports.rule import (
    KeyRule,
    KeyTranslation,
    flag,
    mapped,
    nothing,
    nothing_here,
    only,
    part_of,
    settings,
)
from tools.imports.theirs import Theirs, WrongValue

SECTION: Final = "algorithm.rollout_correction"
IS, RS = f"{SECTION}.rollout_is", f"{SECTION}.rollout_rs"
IS_THRESHOLD, RS_THRESHOLD = f"{SECTION}.rollout_is_threshold", f"{SECTION}.rollout_rs_threshold"
RS_LOWER: Final = f"{SECTION}.rollout_rs_threshold_lower"
BYPASS, LOSS = f"{SECTION}.bypass_mode", f"{SECTION}.loss_type"
OLD_BYPASS, OLD_PG = f"{SECTION}.bypass_old_logprob_for_rollout", f"{SECTION}.use_policy_gradient"
PURE: Final = f"{SECTION}.use_pure_rollout_correction"
CAP: Final = "actor_rollout_ref.actor.tis_imp_ratio_cap"
OLD_IS: Final = "algorithm.rollout_is"  # of 0.6: a switch
OLD_THRESHOLD, OLD_LOWER = "algorithm.rollout_is_threshold", "algorithm.rollout_is_threshold_lower"
OLD_LEVEL, OLD_MODE = "algorithm.rollout_is_level", "algorithm.rollout_is_mode"
OURS: Final = "learner.objective.correction"
_LOSS_MODE: Final = "actor_rollout_ref.actor.policy_loss.loss_mode"
_RULES: Final = {
    "token": "token_k1",
    "sequence": "seq_sum_k1",
    "geometric": "seq_mean_k1",
    "token_k1": "token_k1",
    "seq_sum_k1": "seq_sum_k1",
    "seq_mean_k1": "seq_mean_k1",
}
_OLD_NAMES: Final = frozenset({"token", "sequence", "geometric"})
_ALREADY: Final = "every loss here takes its ratio to the sampler already: docs/objectives.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The correction of the mismatch."""

    weights: str | None = None  # token, sequence
    threshold: float = 2.0
    is_reinforce: bool = False
    is_bypass: bool = False
    kept: dict[str, list[float]] = field(default_factory=dict)  # our rule -> its band


def _flag(theirs: Theirs, key: str) -> bool:
    return theirs.get(key) is not None and theirs.flag(key)


def correction_of(theirs: Theirs) -> Correction:
    """Return the configured correction. Raises WrongValue for unsupported ones."""
    if (
        theirs.get(IS) is not None
        or theirs.get(RS) is not None
        or _flag(theirs, BYPASS)
        or _is_old_bypass(theirs)
    ):
        return _new(theirs)
    if _flag(theirs, OLD_IS):
        return _old(theirs)
    if theirs.get(CAP) is not None and theirs.number(CAP) > 0:
        return Correction(weights="token", threshold=theirs.number(CAP))
    return Correction()


def _is_old_bypass(theirs: Theirs) -> bool:
    return any(_flag(theirs, key) for key in (OLD_BYPASS, OLD_PG, PURE))


def _new(theirs: Theirs) -> Correction:
    weights = theirs.get(IS)
    if weights not in (None, "token", "sequence"):
        raise WrongValue(f"{weights!r} is neither token nor sequence", IS)
    is_bypass = _flag(theirs, BYPASS) or _is_old_bypass(theirs)
    is_reinforce = is_bypass and (
        theirs.get(LOSS) == "reinforce" or _flag(theirs, OLD_PG) or _flag(theirs, PURE)
    )
    if is_reinforce and weights == "sequence":
        raise WrongValue("REINFORCE has one weight a token here: set it to token", IS)
    threshold = 2.0
    if weights is not None and theirs.get(IS_THRESHOLD) is not None:
        if "_" in str(theirs.get(IS_THRESHOLD)):
            raise WrongValue(
                "two bounds of a weight are not here: rollout_rs=token_k1 keeps the tokens between them",
                IS_THRESHOLD,
            )
        threshold = theirs.number(IS_THRESHOLD)
    return Correction(
        weights=str(weights) if weights else None,
        threshold=threshold,
        is_reinforce=is_reinforce,
        is_bypass=is_bypass,
        kept=_bands(theirs),
    )


def _bands(theirs: Theirs) -> dict[str, list[float]]:
    """Return the kept bands, by our rules: the inverse of verl's bounds, which were the ratio's own in 0.6."""
    written = theirs.get(RS)
    if written is None:
        return {}
    names = [one.strip() for one in str(written).split(",")]
    thresholds = [one.strip() for one in str(theirs.get(RS_THRESHOLD)).split(",")]
    if unknown := [name for name in names if name not in _RULES]:
        raise WrongValue(f"{', '.join(unknown)}: none of {', '.join(_RULES)}, which are here", RS)
    if theirs.get(RS_THRESHOLD) is None:
        raise WrongValue("rollout_rs needs it", RS_THRESHOLD)
    if len(thresholds) == 1:
        thresholds *= len(names)
    bands = {}
    for name, written_bounds in zip(names, thresholds, strict=False):
        low, high = _bounds(written_bounds, theirs)
        band = [low, high] if name in _OLD_NAMES else [1 / high, 1 / low if low else high]
        bands[_RULES[name]] = [round(one, 6) for one in band]
    return bands


def _bounds(written: str, theirs: Theirs) -> tuple[float, float]:
    low, _, high = written.rpartition("_")
    try:
        upper = float(high)
        lower = (
            float(low) if low else theirs.number(RS_LOWER) if theirs.get(RS_LOWER) is not None else 1 / upper
        )
    except (ValueError, ZeroDivisionError):
        raise WrongValue(
            f"a bound, or two as LOWER_UPPER, are expected, got {written!r}", RS_THRESHOLD
        ) from None
    if not 0 <= lower < upper:
        raise WrongValue(f"the lower bound has to be below the upper one, got {written!r}", RS_THRESHOLD)
    return lower, upper


def _old(theirs: Theirs) -> Correction:
    """Read verl 0.6's switch: a level, and `truncate` for weights or `mask` for a band of ratios."""
    level = theirs.get(OLD_LEVEL) or "token"
    if level not in _OLD_NAMES:
        raise WrongValue(f"{level!r} is none of {', '.join(sorted(_OLD_NAMES))}", OLD_LEVEL)
    upper = theirs.number(OLD_THRESHOLD) if theirs.get(OLD_THRESHOLD) is not None else 2.0
    if theirs.get(OLD_MODE) == "mask":
        lower = theirs.number(OLD_LOWER) if theirs.get(OLD_LOWER) is not None else 1 / upper
        return Correction(kept={_RULES[str(level)]: [round(lower, 6), upper]})
    if level == "geometric":
        raise WrongValue("a weight by the geometric mean is not here: token or sequence", OLD_LEVEL)
    return Correction(weights=str(level), threshold=upper)


def _weights(value: Any, theirs: Theirs) -> KeyTranslation:
    found = correction_of(theirs)
    if value is None or (not isinstance(value, str) and not found.weights):
        return nothing_here("null: no weights")
    if found.is_bypass and not found.is_reinforce:
        return nothing_here(f"in bypass mode the ratio is the sampler's: {_ALREADY}")
    return settings(f"with {_LOSS_MODE}: {'reinforce' if found.is_reinforce else 'decoupled_ppo'}")


def _rejects(value: Any, theirs: Theirs) -> KeyTranslation:
    found = correction_of(theirs)
    if value is None or not found.kept:
        return nothing_here("null: nothing is rejected")
    return KeyTranslation(
        verdict=settings().verdict,
        settings={
            f"{OURS}.rollout_rs": list(found.kept),
            **{f"{OURS}.{rule}": band for rule, band in found.kept.items()},
        },
        words="a band of the learner's ratio to the sampler",
    )


def _old_switch(value: Any, theirs: Theirs) -> KeyTranslation:
    if value is None or not flag(value):
        return nothing_here("off")
    return _rejects(True, theirs) if correction_of(theirs).kept else _weights(value, theirs)


def _cap(value: Any, theirs: Theirs) -> KeyTranslation:
    if value is None or theirs.number(CAP) <= 0:
        return nothing_here("off")
    return settings(f"with {_LOSS_MODE}: decoupled_ppo")


_TYPE: Final = "learner.objective.type, learner.objective.correction.rollout_is"
RULES: Final[tuple[KeyRule, ...]] = (
    mapped(IS, _TYPE, "decoupled_ppo; in bypass mode with loss_type reinforce: reinforce", _weights),
    part_of(IS_THRESHOLD, IS, f"{OURS}.rollout_is_threshold, max_weight", "as it is"),
    mapped(RS, f"{OURS}.rollout_rs", "token_k1, seq_sum_k1, seq_mean_k1, and their older names", _rejects),
    part_of(RS_THRESHOLD, RS, f"{OURS}.token_k1", "its inverse, since verl bounds the inverse ratio"),
    part_of(RS_LOWER, RS, f"{OURS}.token_k1", "the lower bound"),
    part_of(
        BYPASS, _LOSS_MODE, "learner.objective.type", "on: the ratio to the sampler, as in each loss but one"
    ),
    part_of(LOSS, _LOSS_MODE, "learner.objective.type", "reinforce, in bypass mode"),
    part_of(OLD_BYPASS, _LOSS_MODE, "learner.objective.type", "an older name of bypass_mode"),
    part_of(OLD_PG, _LOSS_MODE, "learner.objective.type", "reinforce"),
    part_of(PURE, _LOSS_MODE, "learner.objective.type", "reinforce"),
    only(
        f"{SECTION}.rollout_is_batch_normalize",
        "off: weights as they are",
        False,
        else_="weights are not normalized here",
    ),
    only(
        f"{SECTION}.rollout_token_veto_threshold",
        "null: no token rejects its answer",
        else_="a token does not reject its answer here: rollout_rs=token_k1 rejects the token",
    ),
    nothing(f"{SECTION}.*", "of verl's own bookkeeping"),
    mapped(OLD_IS, _TYPE, "verl 0.6's switch, with its level and mode", _old_switch),
    part_of(OLD_THRESHOLD, OLD_IS, f"{OURS}.rollout_is_threshold", "as it is"),
    part_of(OLD_LOWER, OLD_IS, f"{OURS}.token_k1", "the lower bound, for mask"),
    part_of(OLD_LEVEL, OLD_IS, f"{OURS}.rollout_is", "token or sequence; geometric for mask"),
    part_of(OLD_MODE, OLD_IS, f"{OURS}.rollout_rs", "truncate: a weight; mask: a band"),
    nothing("algorithm.rollout_is*", "of verl's own bookkeeping"),
    mapped(CAP, _TYPE, "above 0: decoupled_ppo with this largest weight of a token", _cap),
)
