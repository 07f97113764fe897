"""Check answers before reasoning-gym's scorer is asked, and decide how much of its value counts.

In: an answer, and its row. Out: why it is refused, or the value that counts. Called by `verdicts.gym.judging`. The
library's scorers expect honest texts: some parse their text as Python, and some give full marks to texts that are no
answer. Examples are any text where a game of life halts, NaN for a complex number, `0` for a probability, and any four
numbers that make 24. Such texts are refused here, and so is every text with which their parser could do more than
arithmetic. Accepted answers are checked again in `verdicts.gym.second_look`. Everything takes time linear in the length
of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from verdicts.gym.rows import GymRow
from verdicts.gym.second_look import differs, worthless

MAX_ANSWER_CHARS: Final = 50_000
FLOOR: Final = 0.1  # the most that the library gives for a wrong attempt
# The least value that a right answer may have. Only roots, which are rounded, lose value by their distance; 0.99 is
# near enough for a second look.
_RIGHT: Final[Mapping[str, float]] = {"polynomial_equations": 0.99}
_EXACT: Final = 1.0 - 1e-9

# Allowed characters of an answer, if the library accepts more than is meaningful.
_CHARACTERS: Final[Mapping[str, str]] = {
    "countdown": r"[\d\s+\-*/()]+",
    "puzzle24": r"[\d\s+\-*/()]+",
    "complex_arithmetic": r"[\d\s+\-*.()ijIJ]+",
    "number_sorting": r"[\d\s+\-.,eE\[\]'\"]+",
    "polynomial_equations": r"[\d\s+\-.,eE]+",
    "quantum_lock": r"[A-Ca-c\s,>\-\u2192]+",
    "coin_flip": r"[\d\s.]+(?:[eE][+\-]?\d{1,3})?(?:/[\d\s]+)?",
    "rubiks_cube": r"[\w\s']+",
    "rush_hour": r"(?:[A-Z]{1,2}[+\-]\d{1,2}[\s,]*){1,200}",  # the library tries all moves: limit them
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
_OTHERS: Final = frozenset("_NOQS")  # letters that sympy does not read as a symbol
_MOVE: Final = re.compile(r"[A-Za-z']{1,4}\d{0,2}'?", re.ASCII)
_NUMBER: Final = re.compile(r"[-\u2212]?\d[\d.]*")
_MAY_BE_EMPTY: Final = ("ab",)  # data sets whose right answer may be the empty text, also for the library
NO_ROOT: Final = ('""', "''")  # polynomial_equations expects this if the equation has no solution


def refusal(answer: str, row: GymRow) -> str | None:
    """Return why the answer is wrong in any case; None if the library decides."""
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


def counted(value: float, answer: str, row: GymRow, *, partial: bool) -> float:
    """Return how much of the library's value counts, in [0, 1]: all or nothing, or with partial values above FLOOR.

    A text that only contains the right one somewhere always gets nothing: "I don't know" contains "no", and a list of
    all options contains each.
    """
    if not 0.0 <= value <= 1.0 + 1e-9:
        return 0.0  # the library's formula is wrong here: it grows with the error
    if _is_right(value, row) and doubt(value, answer, row) is None:
        return 1.0
    is_share = partial and FLOOR < value < _EXACT and not _is_mention(value, answer, row.gold)
    return value if is_share and worthless(answer, row) is None else 0.0


def doubt(value: float, answer: str, row: GymRow) -> str | None:
    """Return why an answer that the library calls right is wrong after a second look; None in all other cases."""
    if not _is_right(value, row):
        return None
    return worthless(answer, row) or differs(answer, row)


def _is_right(value: float, row: GymRow) -> bool:
    return _RIGHT.get(row.dataset.name, _EXACT) <= value <= 1.0 + 1e-9


def _is_mention(value: float, answer: str, gold: str) -> bool:
    """Return whether `value` is only the right text's share of a longer text that contains it."""
    bare = (answer.replace(",", ""), gold.replace(",", ""))
    return any(
        right and right in text and abs(value * len(text) - len(right)) < 1e-6
        for text, right in ((answer, gold), bare, (answer.upper(), gold.strip()))
    )


def _other_word(answer: str) -> str | None:
    """Return the first part that is not in expressions of numbers, letters and the usual functions, or None."""
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


def _halting(answer: str, row: GymRow) -> str | None:
    """Refuse any other text: the library only compares whether both texts are empty."""
    return None if answer.lower() == row.gold.strip().lower() else "it is not what the game does"


def _numbers(answer: str, row: GymRow) -> str | None:
    """Refuse other numbers: the library accepts any four for 24, and separate digits that are joined in a power."""
    given = row.metadata.get("numbers")
    used = [int(digits) for digits in re.findall(r"\d{1,9}", answer)]
    if "**" in answer or "//" in answer:
        return "it holds an operator other than + - * /"
    return (
        None
        if isinstance(given, list) and sorted(used) == sorted(given)
        else "it does not use the given numbers"
    )


def _probability(answer: str, row: GymRow) -> str | None:
    """Refuse another number: the library accepts the right one's beginning, and 0 if the right one is small."""
    try:
        top, _, bottom = answer.partition("/")
        value, right = float(top) / float(bottom or 1), float(row.gold)
    except (ValueError, ZeroDivisionError, OverflowError):
        return "it is no number"
    return None if abs(value - right) <= min(1e-4, 0.01 * abs(right)) else "it is another number"


def _one_number(answer: str, row: GymRow) -> str | None:
    """Refuse several numbers and a wrong sign: the library reads the first number and ignores its sign."""
    found = _NUMBER.findall(answer)
    if len(found) != 1:
        return "it does not have one number"
    return None if found[0][0].isdigit() or row.gold.strip().startswith("-") else "it is below zero"


def _one_fraction(answer: str, row: GymRow) -> str | None:
    """Refuse texts that are not one fraction: the library accepts any text that begins with the right one in LaTeX."""
    del row
    return None if len(_NUMBER.findall(answer)) == 2 else "it does not have one fraction"


def _decimal(answer: str, row: GymRow) -> str | None:
    """Refuse a number too far off: the library allows a thousandth, so 0 would be right for all small values."""
    try:
        value, right = float(answer), float(row.gold)
    except (ValueError, OverflowError):
        return "it is no number"
    return None if abs(value - right) <= 1e-3 * abs(right) else "it is another number"


def _no_longer(answer: str, row: GymRow) -> str | None:
    """Refuse a longer text: the library accepts the right beginning with any text after it."""
    given, right = answer.lower(), row.gold.strip().lower()
    return "it goes on after the right one" if given != right and given.startswith(right) else None


def _moves(answer: str, row: GymRow) -> str | None:
    """Refuse texts that are not a sequence of moves: the library repeats a move by the number after it."""
    del row
    return None if all(map(_MOVE.fullmatch, answer.split())) else "it is no sequence of moves"


_RULES: Final[Mapping[str, Callable[[str, GymRow], str | None]]] = {
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
