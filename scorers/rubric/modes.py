"""A mode makes one value of a rule's verdict and a served verifier's: TinyV's and RRM's modes, and a gate.

In: a mode and its weight, what the rule says, what the verifier says. Out: a value in [0, 1], and before that whether
the verifier has to be asked at all. Pure arithmetic; `scorers.rubric.verifier` uses it.
"""

from __future__ import annotations

from typing import Final

from config.scorer_kinds import VerifierMode

Mode = VerifierMode

ONLY: Final = "tinyv_only"  # the one mode that has no rule


def settled(mode: Mode, rule: float) -> float | None:
    """Give the value where the rule alone decides, and no verifier is asked; None where the rule does not."""
    if mode == "addon" and rule == 1.0:
        return 1.0
    return 0.0 if mode == "gate" and rule == 0.0 else None


def combined(mode: Mode, weight: float, rule: float | None, verifier: float) -> float:
    """Compute the value of an answer.

    Args:
        mode: `tinyv_only`: the verifier's. `addon`: 1 where the rule says right, else weight x the verifier's. `mixed`:
            weight x the verifier's + (1 - weight) x the rule's. `gate`: the verifier's where the rule says right,
            else 0.
        weight: from 0 to 1; `addon` and `mixed` have it.
        rule: 1.0 right, 0.0 wrong; None: the rule was not asked, as in `tinyv_only`.
        verifier: from 0 to 1.
    """
    if mode == ONLY:
        return verifier
    if rule is None:
        raise ValueError(f"mode {mode!r} needs what the rule says")
    if (value := settled(mode, rule)) is not None:
        return value
    match mode:
        case "addon":
            return weight * verifier
        case "mixed":
            return weight * verifier + (1.0 - weight) * rule
        case "gate":
            return verifier
