"""Wrong answers to any entry of reasoning-gym, made of its own answer, its question and another entry's answer.

Each is wrong whatever the data set is, but for what `MAY_BE_RIGHT` names, and says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any, Final

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_UNITS: Final = {
    "days": "weeks",
    "\u00b0": " rad",
    "knight": "knave",
    "True": "False",
    "Yes": "No",
    "on": "off",
}
# What is no wrong answer of these data sets, and why.
MAY_BE_RIGHT: Final[Mapping[str, frozenset[str]]] = {
    # Its own answers are rounded at each step, so the digit beside the last may be the exact value's.
    "decimal_arithmetic": frozenset({"the last digit is one more"}),
    # Half of a number with many digits can be the same number, rounded.
    # And where the digit cut off is a five, the last one may be rounded either way.
    "coin_flip": frozenset({"its first half", "without its end", "the last digit is one more"}),
    # Seventeen digits may be the same number, of double precision.
    "codeio": frozenset({"the last digit is one more"}),
    # Another conclusion may follow as well, and its opposite from other premises where these contradict each other.
    "propositional_logic": frozenset({"another's", "negated in a formula"}),
    # The unit is the question's.
    "time_intervals": frozenset({"its first half"}),
    # It is as the candidates are written, with six decimals.
    "number_format": frozenset({"without its end"}),
    # The prompt would have roots rounded down where the library rounds up.
    "polynomial_equations": frozenset({"without its end"}),
    # A car may as well go one further.
    "rush_hour": frozenset({"its first number is one more"}),
    # Another colouring is as good.
    "graph_color": frozenset({"the last digit is one more", "another's"}),
    "power_function": frozenset({"its first half", "without its end"}),
    "advanced_geometry": frozenset({"without its end"}),
    "pool_matrix": frozenset({"without its end"}),
}


def nudged(text: str, which: int, by: str) -> str | None:
    """Return the text with one of its numbers changed by so much, or by a unit of its last digit; None without one."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return None
    number = found[which]
    old = Decimal(number[0])
    with localcontext(prec=100):  # making entries of decimal_arithmetic sets the process's own to 12
        new = old + (Decimal(1).scaleb(int(old.as_tuple().exponent)) if by == "a unit" else Decimal(by))
    return f"{text[: number.start()]}{new}{text[number.end() :]}"


def other_unit(text: str) -> str | None:
    return next((text.replace(one, other) for one, other in _UNITS.items() if one in text), None)


def wrong_answers(name: str, entry: Mapping[str, Any], own: str, other: str | None) -> dict[str, str]:
    """Return answers that are wrong, by what is wrong with them.

    Args:
        name: of the data set.
        entry: of it.
        own: an answer that is right.
        other: an answer that is right of another entry, and not the same.
    """
    premises = entry["metadata"].get("premises") or [""]
    made = {
        "the last digit is one more": nudged(own, -1, "a unit"),
        "its first number is one more": nudged(own, 0, "1"),
        "its last number is half more": nudged(own, -1, "0.5"),
        "its last number is a thousandth more": nudged(own, -1, "0.001"),
        "another unit": other_unit(own),
        "a unit behind it": f"{own} weeks",
        "without its end": own[:-1].rstrip(),
        "its first half": own[: len(own) // 2],
        "or not": f"{own}, or not",
        "or not, on a line of its own": f"{own}\nor not",
        "a comment": f"{own} # or not",
        "both": None if other is None else f"{own}\n{other}",
        "both, the other first": None if other is None else f"{other} {own}",
        "another's": other,
        "negated": f"not {own}",
        "negated in a formula": f"\u00ac({own})",
        "with a sentence before it": f"The answer is not {own}",
        "empty": "",
        "a dash": "-",
        "the question": str(entry["question"]),
        "its last line": str(entry["question"]).strip().rpartition("\n")[2],
        "the premises": json.dumps(premises, ensure_ascii=False) if premises != [""] else None,
        "a premise twice": f"{premises[0]} \u2227 {premises[0]}" if premises != [""] else None,
        "no answer": "I don't know",
    }
    fine = MAY_BE_RIGHT.get(name, frozenset())
    return {
        what: text
        for what, text in made.items()
        if text is not None and what not in fine and not _is_same(text, own)
    }


def _is_same(text: str, own: str) -> bool:
    """Return whether it is the same text, or the same number without its last zeros."""
    try:
        return Decimal(text) == Decimal(own)
    except InvalidOperation:
        return text.strip(" \n.") == own.strip(" \n.")
