"""These rules say what an answer must be before reasoning-gym's scorer is asked, and what of its value counts.

In: an answer, and its row. Out: why it is refused, or the value that counts. Called by `verdicts.gym.judging`. The
library's scorers are made for texts that mean well: some parse their text as Python, and some pay in full for what is
no answer. Examples are any text where a game of life halts, NaN for a complex number, `0` for a probability, and any
four numbers that make 24. What these scorers would pay for without need is refused here, and so is every text that
their parser could do more with than arithmetic. What they do pay is looked at again in `verdicts.gym.second_look`.
Everything is linear in the length of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from verdicts.gym.rows import Row
from verdicts.gym.second_look import differs, worthless

MAX_ANSWER_CHARS: Final = 50_000
FLOOR: Final = 0.1  # the most that the library pays for an attempt that is wrong
# The least value that may be a right answer's. Only roots, which are rounded, lose by their distance; 0.99 is near
# enough for a second look.
_RIGHT: Final[Mapping[str, float]] = {"polynomial_equations": 0.99}
_EXACT: Final = 1.0 - 1e-9

# All characters of an answer, where the library takes more than can be meant.
_CHARACTERS: Final[Mapping[str, str]] = {
    "countdown": r"[\d\s+\-*/()]+",
    "puzzle24": r"[\d\s+\-*/()]+",
    "complex_arithmetic": r"[\d\s+\-*.()ijIJ]+",
    "number_sorting": r"[\d\s+\-.,eE\[\]'\"]+",
    "polynomial_equations": r"[\d\s+\-.,eE]+",
    "quantum_lock": r"[A-Ca-c\s,>\-\u2192]+",
    "coin_flip": r"[\d\s.]+(?:[eE][+\-]?\d{1,3})?(?:/[\d\s]+)?",
    "rubiks_cube": r"[\w\s']+",
    "rush_hour": r"(?:[A-Z]{1,2}[+\-]\d{1,2}[\s,]*){1,200}",  # what can't be moved is passed over: no endless trying
}
_SYMBOLIC: Final = ("simple_integration", "intermediate_integration", "polynomial_multiplication")
_TOKEN: Final = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d*)?|\*\*|[-+*/^()\s]")
_FUNCTIONS: Final = frozenset(
    (
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "exp",
        "log",
        "ln",
        "sqrt",
        "Abs",
        "pi",
    )
)
_OTHERS: Final = frozenset("_NOQS")  # letters that mean more to sympy than a symbol
_MOVE: Final = re.compile(r"[A-Za-z']{1,4}\d{0,2}'?", re.ASCII)
_NUMBER: Final = re.compile(r"[-\u2212]?\d[\d.]*")
_MAY_BE_EMPTY: Final = ("ab",)  # data sets whose right answer may be the empty text, also by the library
NO_ROOT: Final = ('""', "''")  # polynomial_equations wants this where nothing solves the equation


def refusal(answer: str, row: Row) -> str | None:
    """Return why the answer is wrong whatever the library says of it; None where that decides."""
    name = row.dataset.name
    if not answer and (row.gold.strip() or name not in _MAY_BE_EMPTY):
        return "it is empty"
    if len(answer) > MAX_ANSWER_CHARS:
        return f"it has {len(answer)} characters; {MAX_ANSWER_CHARS} is the limit"
    if name == "polynomial_equations" and not row.gold.strip():
        return None if answer in NO_ROOT else 'nothing solves the equation, and that is written ""'
    if name in _CHARACTERS and re.fullmatch(_CHARACTERS[name], answer, re.ASCII) is None:
        return f"it is not written as an answer of {name} is"
    if name in _SYMBOLIC and (word := _other_word(answer)):
        return f"it holds {word!r}, which is no part of an expression"
    rule = _RULES.get(name)
    return None if rule is None else rule(answer, row)


def counted(value: float, answer: str, row: Row, *, partial: bool) -> float:
    """Return what of the library's value counts, in [0, 1]: all or nothing, or with its partial values above FLOOR.

    A text that only holds the right one somewhere gets nothing either way: "I don't know" holds "no", and a list of all
    options holds each.
    """
    if not 0.0 <= value <= 1.0 + 1e-9:
        return 0.0  # the library's formula has gone astray: further from right, it grows
    if _is_right(value, row) and doubt(value, answer, row) is None:
        return 1.0
    is_share = partial and FLOOR < value < _EXACT and not _is_mention(value, answer, row.gold)
    return value if is_share and worthless(answer, row) is None else 0.0


def doubt(value: float, answer: str, row: Row) -> str | None:
    """Return why what the library says is right is not, after a second look; None where that is, or says nothing."""
    if not _is_right(value, row):
        return None
    return worthless(answer, row) or differs(answer, row)


def _is_right(value: float, row: Row) -> bool:
    return _RIGHT.get(row.dataset.name, _EXACT) <= value <= 1.0 + 1e-9


def _is_mention(value: float, answer: str, gold: str) -> bool:
    """Return whether the library paid `value` for a text with the right one in it: the share of its length."""
    bare = (answer.replace(",", ""), gold.replace(",", ""))
    return any(
        right and right in text and abs(value * len(text) - len(right)) < 1e-6
        for text, right in ((answer, gold), bare, (answer.upper(), gold.strip()))
    )


def _other_word(answer: str) -> str | None:
    """Return the first part that no expression of numbers, letters and the usual functions holds; None without one."""
    position = 0
    for token in _TOKEN.finditer(answer):
        if token.start() != position:
            break
        position = token.end()
        word = token.group()
        if (word[0].isalpha() or word[0] == "_") and len(word) > 1 and word not in _FUNCTIONS:
            return word[:40]
        if not word.isascii() or word in _OTHERS:
            return word[:40]
    return answer[position] if position < len(answer) else None


def _halting(answer: str, row: Row) -> str | None:
    """Refuse any other text: the library only compares whether both texts have any characters."""
    return None if answer.lower() == row.gold.strip().lower() else "it is not what the game does"


def _numbers(answer: str, row: Row) -> str | None:
    """Refuse other numbers: the library takes any four for 24, and digits apart that stand together in a power."""
    given = row.metadata.get("numbers")
    used = [int(digits) for digits in re.findall(r"\d{1,9}", answer)]
    if "**" in answer or "//" in answer:
        return "it holds an operator other than + - * /"
    return (
        None
        if isinstance(given, list) and sorted(used) == sorted(given)
        else "it does not use the given numbers"
    )


def _probability(answer: str, row: Row) -> str | None:
    """Refuse another number: the library pays for the right one's beginning, and for 0 where the right one is small."""
    try:
        top, _, bottom = answer.partition("/")
        value, right = float(top) / float(bottom or 1), float(row.gold)
    except (ValueError, ZeroDivisionError, OverflowError):
        return "it is no number"
    return None if abs(value - right) <= min(1e-4, 0.01 * abs(right)) else "it is another number"


def _one_number(answer: str, row: Row) -> str | None:
    """Refuse several numbers and a wrong sign: the library takes the first number and does not see its sign."""
    found = _NUMBER.findall(answer)
    if len(found) != 1:
        return "it does not have one number"
    return None if found[0][0].isdigit() or row.gold.strip().startswith("-") else "it is below zero"


def _one_fraction(answer: str, row: Row) -> str | None:
    """Refuse what is not one fraction: the library is content with the beginning of a text in LaTeX."""
    del row
    return None if len(_NUMBER.findall(answer)) == 2 else "it does not have one fraction"


def _decimal(answer: str, row: Row) -> str | None:
    """Refuse a number too far off: the library is content with a thousandth, so 0 is as good as whatever is small."""
    try:
        value, right = float(answer), float(row.gold)
    except (ValueError, OverflowError):
        return "it is no number"
    return None if abs(value - right) <= 1e-3 * abs(right) else "it is another number"


def _no_longer(answer: str, row: Row) -> str | None:
    """Refuse a longer text: the library pays for the right beginning, whatever follows it."""
    given, right = answer.lower(), row.gold.strip().lower()
    return "it goes on after the right one" if given != right and given.startswith(right) else None


def _moves(answer: str, row: Row) -> str | None:
    """Refuse what is no sequence of moves: the library repeats a move as often as the number after it says."""
    del row
    return None if all(map(_MOVE.fullmatch, answer.split())) else "it is no sequence of moves"


_RULES: Final[Mapping[str, Callable[[str, Row], str | None]]] = {
    "game_of_life_halting": _halting,
    "countdown": _numbers,
    "puzzle24": _numbers,
    "coin_flip": _probability,
    "gsm_symbolic": _one_number,
    "rubiks_cube": _moves,
    "fraction_simplification": _one_fraction,
    "decimal_arithmetic": _decimal,
    "spell_backward": _no_longer,
    "letter_jumble": _no_longer,
}
