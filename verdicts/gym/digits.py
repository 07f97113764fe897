"""Check numbers in answers to reasoning-gym: written plainly, and correct to the last digit that they give.

In: an answer that the library gives full marks, and its row. Out: why it is wrong after all, or None. Called by
`verdicts.gym.second_look`. The library allows 1%, or 0.01, or a whole unit, whatever the task asks for. Here a number
has to be the row's own, or the exact value rounded to the number of digits that it gives. The row has the exact value,
or the values to compute it from; if it has neither, its own answer counts as exact. All arithmetic is exact.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from verdicts.gym.rows import GymRow

# Digits, maybe in groups as in English and Indian texts; then decimals, then a power of ten.
_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:\d{1,3}(?:,\d{2,3})*,\d{3}|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII
)
_POINT: Final = re.compile(r"\(\s*([^\s,()]+)\s*,\s*([^\s,()]+)\s*\)|([^\s,()]+)\s*,\s*([^\s,()]+)")
_TERM: Final = re.compile(r"([+-]?)(?:(\d+)\*?)?([a-z](?:\*\*(\d+))?)?")
_ROUND: Final = re.compile(r"([+-]?[\d,]*[1-9])(0+)", re.ASCII)
_DIGITS_ASKED: Final = re.compile(r"maximum of (\d+) significant digits")
_ROOT_UNIT: Final = Fraction(1, 10_000)  # the last place of a root, as the prompt asks for it
_CENT: Final = Fraction(1, 100)  # the last place of an average
_NOISE: Final = Fraction(1, 1_000_000)  # error of a candidate's sixth decimal in double precision
_ANOTHER: Final = "it is another number"
_NO_NUMBER: Final = "it is not one plain number"


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written."""

    value: Fraction
    unit: Fraction  # of its last digit

    @classmethod
    def of(cls, text: str) -> Number | None:
        """Return the number that a whole text is; None if it is not a number."""
        text = text.strip()
        if _NUMBER.fullmatch(text) is None:
            return None
        number = Decimal(text.replace(",", ""))
        return cls(Fraction(number), Fraction(10) ** int(number.as_tuple().exponent))

    def rounds(self, exact: Fraction) -> bool:
        """Return whether it is the exact value rounded to its last digit; a half may be rounded either way."""
        return abs(self.value - exact) <= self.unit / 2


def equal(answer: str, row: GymRow) -> str | None:
    """Refuse other numbers, and texts that are not a number: the library reads `1,2` as 12."""
    given, own = Number.of(answer), Number.of(row.gold)
    if given is None or own is None:
        return _NO_NUMBER
    return None if given.value == own.value else _ANOTHER


def power(answer: str, row: GymRow) -> str | None:
    """Check the digits after the first three, too, if there are any; final zeros of a whole number do not count."""
    if whole := _ROUND.fullmatch(answer.strip()):
        answer = f"{whole[1]}e{len(whole[2])}"
    base, exponent = exactly(row.metadata.get("base")), row.metadata.get("exponent")
    exact = base**exponent if base and isinstance(exponent, int) and abs(exponent) < 1000 else None
    return _rounded(answer, row.gold, exact)


def probability(answer: str, row: GymRow) -> str | None:
    """Check a fraction exactly, and all digits of a decimal number: the library allows a ten-thousandth."""
    parts = row.metadata.get("rational")
    exact = (
        exactly(f"{parts.get('numerator')}/{parts.get('denominator')}")
        if isinstance(parts, Mapping)
        else None
    )
    top, slash, bottom = answer.partition("/")
    if not slash:
        return _rounded(answer, row.gold, exact)
    given = exactly("".join((top + slash + bottom).split()))
    return (
        None if given is not None and given == (exactly(row.gold) if exact is None else exact) else _ANOTHER
    )


def decimal_expression(answer: str, row: GymRow) -> str | None:
    """Check all digits that are asked for, twelve of them: the library checks three decimals.

    The row's own answer was rounded at each step, so in one of ten rows its last digits differ from the exact value's.
    """
    question = str(row.entry.get("question", ""))
    asked = _DIGITS_ASKED.search(question)
    unit = Fraction(10) ** (Decimal(row.gold).adjusted() + 1 - (int(asked[1]) if asked else 12))
    return _rounded(answer, row.gold, _computed(question), coarsest=unit)


def candidate(answer: str, row: GymRow) -> str | None:
    """Refuse all numbers except the candidate that is the row's own: the library accepts all within a hundredth."""
    given, own = Number.of(answer), Number.of(row.gold)
    if given is None or own is None:
        return _NO_NUMBER
    far = abs(given.value - own.value)
    others = (exactly(other) for other in row.metadata.get("candidates") or ())
    is_nearest = all(other is None or abs(given.value - other) >= far for other in others)
    return None if is_nearest and given.rounds(own.value) and far <= _NOISE else _ANOTHER


def pooled(answer: str, row: GymRow) -> str | None:
    """Check each cell of a matrix, its shape, and additional text: the library allows 1%, and comments."""
    own = _cells(row.gold)
    exact = row.metadata.get("solution")
    given = _cells(answer)
    if [len(line) for line in given] != [len(line) for line in own]:
        return "it has another shape"
    for i, line in enumerate(given):
        for j, cell in enumerate(line):
            if reason := _rounded(cell, own[i][j], _at(exact, i, j), coarsest=_CENT):
                return reason
    return None


def ordered(answer: str, row: GymRow) -> str | None:
    """Refuse a list of other numbers: the library allows each to be 1 too large or too small."""
    given, own = _listed(answer), _listed(row.gold)
    return None if own and given == own else "it has other numbers"


def roots(answer: str, row: GymRow) -> str | None:
    """Check each root to four decimals, and refuse texts that are not numbers: the library ignores them.

    The prompt asks for "rounding down when the 5th decimal place is 5 or greater", and the library rounds up: both
    count, if according to the polynomial there is something to round.
    """
    if not row.gold.strip():
        return None  # its form has been checked before
    given = [Number.of(item) for item in answer.split(",")]
    own = sorted(number.value for number in map(Number.of, row.gold.split(",")) if number)
    if None in given:
        return _NO_NUMBER
    values = sorted(number.value for number in given if number)
    polynomial = _polynomial(str(row.metadata.get("polynomial_expr", "")))
    if len(values) == len(own) and all(
        abs(value - root) <= _ROOT_UNIT / 2 or (polynomial and _is_cut(value, root, polynomial))
        for value, root in zip(values, own, strict=True)
    ):
        return None
    return "it has other roots"


def geometry(answer: str, row: GymRow) -> str | None:
    """Check all digits of an angle or a point, and the text after it."""
    match row.metadata.get("task_type"):
        case "angle_measure":
            exact = exactly(row.metadata.get("angle_ABC_degrees"))
            return _rounded(answer.removesuffix("\u00b0"), row.gold.removesuffix("\u00b0"), exact)
        case "orthocenter":
            given, own = _point(answer), _point(row.gold)
            if len(given) != 2 or len(own) != 2:
                return "it is not one point"
            exacts = [exactly(one) for one in row.metadata.get("ortho", ())]
            return next(
                (reason for x, y, z in zip(given, own, exacts, strict=True) if (reason := _rounded(x, y, z))),
                None,
            )
        case _:
            return None  # a radius is compared as text


def exactly(value: Any) -> Fraction | None:
    """Return a row's printed number or fraction; None if it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        return None


def _rounded(
    answer: str, own: str, exact: Fraction | None, *, coarsest: Fraction | None = None
) -> str | None:
    """Refuse a number that is neither the row's own nor the exact value, rounded to the number's own last digit.

    Args:
        answer: text that may be a number.
        own: the row's own number; always right.
        exact: the value that it was rounded from; None if unknown: then the row's own number is used.
        coarsest: the largest unit that the last digit may have.
    """
    given, right = Number.of(answer), Number.of(own)
    if given is None or right is None:
        return _NO_NUMBER
    if given.value == right.value:
        return None
    is_fine = coarsest is None or given.unit <= coarsest
    return None if is_fine and given.rounds(right.value if exact is None else exact) else _ANOTHER


def _computed(question: str) -> Fraction | None:
    """Return the value of the expression in a row's question; None if there is none."""
    expression = question.rpartition("\n")[2].partition("=")[0].strip()
    try:
        return _value(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left) + _value(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left) - _value(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left) * _value(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _value(left) / _value(right)
    raise ValueError("no arithmetic")


def _polynomial(text: str) -> dict[int, int]:
    """Return a polynomial's coefficients by power, as sympy prints it; nothing for other notations."""
    text, found, position = "".join(text.split()), {}, 0
    for term in _TERM.finditer(text):
        if term.start() != position or not term[0]:
            break
        position = term.end()
        degree = int(term[4] or 1) if term[3] else 0
        found[degree] = int(term[1] + (term[2] or "1"))
    return found if position == len(text) else {}


def _is_cut(value: Fraction, root: Fraction, polynomial: Mapping[int, int]) -> bool:
    """Return whether the library rounded the root away from zero, and `value` is rounded towards zero."""
    unit = _ROOT_UNIT if root > 0 else -_ROOT_UNIT
    at_half, at_root = (
        sum(factor * at**degree for degree, factor in polynomial.items()) for at in (root - unit / 2, root)
    )
    return value == root - unit and at_root != 0 and at_half * at_root <= 0


def _cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def _at(table: Any, i: int, j: int) -> Fraction | None:
    try:
        return exactly(table[i][j])
    except (TypeError, LookupError):
        return None


def _listed(text: str) -> Sequence[Fraction] | None:
    """Return the numbers of a list in JSON, each a number or the text of one; None if it is not such a list."""
    try:
        items = json.loads(text.replace("'", '"'), parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    if not isinstance(items, list):
        return None
    numbers = [Number.of(item) if isinstance(item, str) else None for item in items]
    return None if None in numbers else [number.value for number in numbers if number]


def _point(text: str) -> list[str]:
    found = _POINT.fullmatch(text.strip())
    return [part for part in found.groups() if part is not None] if found else []
