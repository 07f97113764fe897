r"""Statements are compared side by side: an equation by both sides, an inequality by its sign, a list one by one.

In: a reference and an answer of which one is more than a single value (`scorers.math.statements`). Out: whether they
say the same. What a statement's sides are is compared by the caller's own comparer. Runs in the scoring child.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, Protocol

from scorers.math.names import are_one_name, are_points, is_letters_alone, is_name, is_within
from scorers.math.notation import layout_key
from scorers.math.statements import (
    SYMMETRIC,
    TURNED,
    Level,
    Statement,
    Statements,
    is_value,
    read_ratio,
    read_statements,
)
from scorers.math.text import split_outside
from scorers.math.units import name_other_things, quantity

_MOST_STATEMENTS: Final = 12
_HALF_DAY: Final = re.compile(r"(?<![A-Za-z])[ap]\.?\s*m\b", re.IGNORECASE)
_MARKED: Final = re.compile(r"\\(?:text|mathrm)|[$%]")  # a part of a ratio that is more than a number
_LEVEL: Final = frozenset({"=", "\\approx"})
_OR: Final = re.compile(r"\\lor(?![A-Za-z])|(?<![A-Za-z\\])or(?![A-Za-z])")
_AND: Final = re.compile(r"\\land(?![A-Za-z])|(?<![A-Za-z\\])and(?![A-Za-z])")
_BOUNDS: Final = frozenset({"<", ">", "\\le", "\\ge"})
_TIME: Final = re.compile(r"(?:1?[0-9]|2[0-4]):[0-5][0-9]")  # and as a ratio it would be in lower terms
_DECIMAL: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")


class Compare(Protocol):
    """Compares two texts within others."""

    def __call__(self, reference: str, answer: str, *, depth: int) -> bool:
        """Return whether they are equal."""
        ...


class StatementComparer:
    """Compares statements.

    Args:
        same: compares two sides.
        equal: compares two single values.
        proportional: tells of two relations, four values, by how many times the difference of the second's sides is
            that of the first's: 1, -1, or 0 where there is no such number, or it can't be told.
        about: tells whether a decimal is what a value rounds to.
    """

    def __init__(
        self,
        *,
        same: Compare,
        equal: Callable[[str, str], bool],
        proportional: Callable[[tuple[str, ...], tuple[str, ...]], int],
        about: Callable[[str, str], bool],
    ) -> None:
        self._same = same
        self._equal = equal
        self._proportional = proportional
        self._about = about

    def same(self, reference: str, answer: str, *, depth: int) -> bool:
        """Return whether two texts, one of them no single value, say the same."""
        is_set = reference.startswith("\\{") and reference.endswith("\\}")
        wanted, given = read_statements(reference[2:-2] if is_set else reference), read_statements(answer)
        if len(wanted.parts) == len(given.parts) == 1:
            return self._one(wanted.parts[0], given.parts[0], depth)
        if _are_joined_otherwise(reference, answer) and all(map(_are_bounds, (wanted.parts, given.parts))):
            return False
        if self._several(wanted, given, depth, is_set=is_set):
            return True
        ours, theirs = _flat(reference), _flat(answer)  # their names tell them apart, however they are joined
        return _have_own_names(ours) and _have_own_names(theirs) and self._match(ours, theirs, depth)

    def same_ratios(self, reference: str, answer: str, *, depth: int) -> bool | None:
        """Compare ratios up to a factor; None where there are none, or a ratio of more than two faces a number."""
        wanted, given = read_ratio(reference), read_ratio(answer)
        if (wanted or given) and (_HALF_DAY.search(reference) is None) != (_HALF_DAY.search(answer) is None):
            return False  # a time of day
        if wanted is not None and given is not None:
            if len(wanted) != len(given) or _are_measured_otherwise(wanted, given):
                return False
            return all(self._same(*pair, depth=depth + 1) for pair in zip(wanted, given, strict=True)) or (
                _TIME.fullmatch(reference.strip()) is None and self._are_multiples(wanted, given)
            )
        if wanted is not None and len(wanted) == 2 and all(map(is_value, (*wanted, answer))):
            return self._equal(_quotient(wanted), answer)
        if given is not None and len(given) == 2 and all(map(is_value, (*given, reference))):
            return self._equal(reference, _quotient(given))
        return None

    def _are_multiples(self, wanted: Sequence[str], given: Sequence[str]) -> bool:
        """Return whether the numbers of one ratio are as many times those of the other, and none of them is 0."""
        numbers = (*wanted, *given)
        if any(map(_MARKED.search, numbers)) or any(self._equal("0", number) for number in numbers):
            return False
        if all(map(_DECIMAL.fullmatch, numbers)):
            ours, theirs = ([Fraction(number) for number in side] for side in (wanted, given))
            return all(one * theirs[0] == other * ours[0] for one, other in zip(ours, theirs, strict=True))
        return all(
            self._equal(f"({one})\\cdot({given[0]})", f"({other})\\cdot({wanted[0]})")
            for one, other in zip(wanted, given, strict=True)
        )

    def _one(self, wanted: Statement, given: Statement, depth: int) -> bool:
        if wanted.signs and given.signs:
            return self._relations(wanted, given, depth)
        if wanted.signs:
            return self._value_of(wanted, given.text, depth)
        return bool(given.signs) and self._gives(given, wanted.text, depth)

    def _several(self, wanted: Statements, given: Statements, depth: int, *, is_set: bool) -> bool:
        """Compare lists: each statement has one of its own; values alone are in the order of the other's names.

        A set of values is met by names for them in any order.
        """
        ours, theirs = wanted.parts, given.parts
        if len(ours) != len(theirs) or len(ours) > _MOST_STATEMENTS:
            return False
        if are_points([one.text for one in ours]) != are_points([one.text for one in theirs]):
            pairs = zip(ours, theirs, strict=True)  # in the order of their names
            return all(self._same(one.text, other.text, depth=depth + 1) for one, other in pairs)
        named = next((side for side in (ours, theirs) if _are_named(side)), ())
        is_mixed = bool(named) and not any(one.signs for one in (theirs if named is ours else ours))
        is_ordered = is_mixed and not is_set and len({one.sides[0] for one in named}) > 1
        if is_ordered or (Level.WORD in (wanted.level, given.level) and not (_have_own_names(ours))):
            return all(
                self._same(one.sides[-1], other.sides[-1], depth=depth + 1)
                if is_mixed
                else self._same_statement(one, other, depth)
                for one, other in zip(ours, theirs, strict=True)
            )
        if is_mixed:
            ours, theirs = (tuple(Statement(one.sides[-1:], ()) for one in side) for side in (ours, theirs))
        return self._match(ours, theirs, depth)

    def _match(self, wanted: Sequence[Statement], given: Sequence[Statement], depth: int) -> bool:
        """Return whether each wanted statement has one of its own among the given ones."""
        left = list(given)
        for one in wanted:
            found = next((other for other in left if self._same_statement(one, other, depth)), None)
            if found is None:
                return False
            left.remove(found)
        return not left

    def _same_statement(self, wanted: Statement, given: Statement, depth: int) -> bool:
        """Compare two of several statements, which the words behind their values tell apart, too."""
        if bool(wanted.signs) != bool(given.signs) or name_other_things(wanted.text, given.text):
            return False
        return self._same(wanted.text, given.text, depth=depth + 1)

    def _relations(self, wanted: Statement, given: Statement, depth: int) -> bool:
        if len(set(map(layout_key, given.sides))) == 1 < len(set(map(layout_key, wanted.sides))):
            return False  # `x = x` says nothing
        wanted = self._shortened(wanted, depth)
        for turned in (given, _turned(given)):
            other = None if turned is None else self._shortened(turned, depth)
            if other is None or list(map(_level, wanted.signs)) != list(map(_level, other.signs)):
                continue
            if all(self._same_side(*sides, depth) for sides in zip(wanted.sides, other.sides, strict=True)):
                return True
        return len(wanted.signs) == len(given.signs) and self._are_proportional(wanted, given)

    def _same_side(self, wanted: str, given: str, depth: int) -> bool:
        if layout_key(wanted) == layout_key(given) != "":
            return True
        if is_name(wanted) and is_name(given):
            return are_one_name(wanted, given, equal=self._equal)
        return self._same(wanted, given, depth=depth + 1)

    def _are_proportional(self, wanted: Statement, given: Statement) -> bool:
        r"""Return whether one relation is a multiple of the other: `2x + 2y = 2` and `x + y = 1`.

        One that is solved for a name, `x = 5`, is met by no other that leaves it to be solved, `2x = 10`.
        """
        if len(wanted.signs) != 1 or not all(map(is_value, (*wanted.sides, *given.sides))):
            return False
        sign, other = wanted.signs[0], given.signs[0]
        if sign not in ("=", "\\ne", "<", ">", "\\le", "\\ge") or _is_solved(wanted) != _is_solved(given):
            return False
        ratio = self._proportional(wanted.sides, given.sides)
        if not ratio or (sign in SYMMETRIC) != (other in SYMMETRIC):
            return False
        return other == (sign if ratio > 0 or sign in SYMMETRIC else TURNED[sign])

    def _value_of(self, wanted: Statement, answer: str, depth: int) -> bool:
        """Return whether a value is what a relation says: what it names, or the right side of what always holds."""
        if not set(wanted.signs) <= _LEVEL:
            return False
        if "\\approx" in wanted.signs:
            return any(
                not is_name(side) and self._same(side, answer, depth=depth + 1) for side in wanted.sides
            )
        head, value = wanted.sides[0], wanted.sides[-1]
        if not (is_name(head) or self._same(head, value, depth=depth + 1)):
            return False
        return self._same(value, answer, depth=depth + 1)

    def _gives(self, given: Statement, value: str, depth: int) -> bool:
        """Return whether a relation is a way to say a value: a name for it, or steps to it that hold."""
        if not set(given.signs) <= _LEVEL:
            return False
        sides = [side for side in given.sides if side]
        if len(sides) == 1:
            return self._same(value, sides[0], depth=depth + 1)  # `\approx 5.2`
        if is_name(sides[-1]) and not is_name(sides[0]):
            sides.reverse()  # `7 = x`
        if (is_name(sides[0]) and not is_within(sides[0], sides[-1])) or is_letters_alone(sides[0]):
            sides = sides[1:]
        if "\\approx" not in given.signs[1:] and (
            len(sides) == len(given.sides) - 1 or "\\approx" not in given.signs
        ):
            return self._same(value, sides[-1], depth=depth + 1) and all(
                self._same(step, sides[-1], depth=depth + 1) or self._same(sides[-1], step, depth=depth + 1)
                for step in sides[:-1]
            )
        return self._rounds(sides, value, depth)

    def _rounds(self, sides: Sequence[str], value: str, depth: int) -> bool:
        r"""Return whether `\sqrt{2} \approx 1.414` says a value: one side is it, and the others are about the same."""
        said = next((side for side in sides if self._same(value, side, depth=depth + 1)), None)
        return said is not None and all(
            side is said or self._about(said, side) or self._about(side, said) for side in sides
        )

    def _shortened(self, statement: Statement, depth: int) -> Statement:
        """Return a chain of equal sides without the steps between its first and its last."""
        first, *rest = statement.sides
        if not statement.is_equation or len(rest) < 2:
            return statement
        if all(self._same(rest[-1], step, depth=depth + 1) for step in rest[:-1]):
            return Statement((first, rest[-1]), ("=",))
        return statement


def _are_joined_otherwise(one: str, other: str) -> bool:
    """Return whether one text says `and` and no `or`, and the other the reverse; a comma says neither."""
    said = [(_AND.search(text) is not None, _OR.search(text) is not None) for text in (one, other)]
    return sorted(said) == [(False, True), (True, False)]


def _are_bounds(statements: Sequence[Statement]) -> bool:
    """Return whether statements bound one name: both bounds hold, or one of them."""
    names = {side for one in statements for side in one.sides if is_name(side)}
    return len(names) == 1 and all(one.signs and set(one.signs) <= _BOUNDS for one in statements)


def _are_measured_otherwise(wanted: Sequence[str], given: Sequence[str]) -> bool:
    """Return whether one ratio is of bare numbers, and the other of numbers in several units."""
    ours, theirs = ({quantity(part).unit for part in ratio} for ratio in (wanted, given))
    return (ours == {None} and len(theirs) > 1) or (theirs == {None} and len(ours) > 1)


def _quotient(ratio: Sequence[str]) -> str:
    return f"\\frac{{{ratio[0]}}}{{{ratio[1]}}}"


def _flat(text: str) -> tuple[Statement, ...]:
    """Return all statements of a text, with `(x, y) = (1, 2)` as two."""
    return tuple(part for one in read_statements(text, is_flat=True).parts for part in _by_name(one))


def _have_own_names(statements: Sequence[Statement]) -> bool:
    """Return whether each is an equation for another name, so that none can be taken for another one."""
    return _are_named(statements) and len({layout_key(one.sides[0]) for one in statements}) == len(statements)


def _by_name(statement: Statement) -> Sequence[Statement]:
    if statement.signs != ("=",):
        return (statement,)
    names, values = map(_parts, statement.sides)
    if names is None or values is None or len(names) != len(values) or not all(map(is_name, names)):
        return (statement,)
    return [Statement(pair, ("=",)) for pair in zip(names, values, strict=True)]


def _parts(text: str) -> list[str] | None:
    """Return the parts of a tuple in round brackets; None of any other text."""
    if not text.startswith("(") or not text.endswith(")"):
        return None
    parts = split_outside(text[1:-1], ",")
    return parts if parts is not None and len(parts) > 1 else None


def _are_named(statements: Sequence[Statement]) -> bool:
    return all(one.is_equation and len(one.sides) == 2 and is_name(one.sides[0]) for one in statements)


def _turned(statement: Statement) -> Statement | None:
    """Return a statement read from the right; None where a sign can't be."""
    signs = [sign if sign in SYMMETRIC else TURNED.get(sign) for sign in reversed(statement.signs)]
    turned = tuple(sign for sign in signs if sign is not None)
    return Statement(statement.sides[::-1], turned) if len(turned) == len(signs) else None


def _level(sign: str) -> str:
    """Return the sign, and one for an equals sign and its rounded kind."""
    return "=" if sign in _LEVEL else sign


def _is_solved(statement: Statement) -> bool:
    """Return whether a relation has a name alone on one side, and on the other a value without names."""
    sides = statement.sides
    return any(
        is_name(one)
        and not any(map(str.isalpha, other.replace("\\pi", "").replace("\\sqrt", "").replace("\\frac", "")))
        for one, other in (sides, sides[::-1])
    )
