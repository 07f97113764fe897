r"""Sets of real numbers, however they are written: inequalities, chains, intervals, unions, set-builder notation.

In: a text in plain LaTeX (`scorers.math.notation.plain`), and a reader of one number. Out: the set as sympy has it,
with the name of its variable. Runs in the scoring child: its numbers are a model's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

import sympy

from scorers.math.text import split_outside

Number = Callable[[str], Any]
"""Reads one real number or an infinity; None where a text is none."""

_VARIABLE: Final = re.compile(  # `e` is a number
    r"(?:[A-DF-Za-df-z](?:_\w|_\{\w+\})?|\\(?:theta|alpha|beta|lambda|phi|mu|omega|varphi)(?![A-Za-z]))"
)
_RELATION: Final = re.compile(r"\\(?:le|ge|ne)(?![A-Za-z])|[<>=]")
_MEMBER: Final = re.compile(rf"({_VARIABLE.pattern})\s*\\in(?![A-Za-z])\s*(.+)\Z", re.DOTALL)
_SIGNS: Final = re.compile(r"[<>=]|\\(?:le|ge|ne|in|cup|cap|setminus|mathbb|emptyset)(?![A-Za-z])|\\\{|real")
_OR: Final = re.compile(
    r"\\text\{\s*or\s*\}|\\lor(?![A-Za-z])|\\(?:textbf|mathrm)\{\s*or\s*\}|(?<=\s)or(?=\s)"
)
_AND: Final = re.compile(r"\\text\{\s*and\s*\}|\\land(?![A-Za-z])|(?<=\s)and(?=\s)")
_BUILT: Final = re.compile(
    rf"\\\{{\s*({_VARIABLE.pattern})\s*(?:\\in(?![A-Za-z])\s*([^|:]+?))?\s*(?:\\mid(?![A-Za-z])|\\vert(?![A-Za-z])|[|:])\s*(.+)\\\}}\Z",
    re.DOTALL,
)
_PAIR: Final = re.compile(r"([(\[\]])(.+)([)\]\[])\Z", re.DOTALL)
_WORDS: Final = re.compile(
    r"\\text\{\s*(all|any)?\s*real\s*(numbers?)?\s*\}|all real numbers|all reals|\\text\{\s*all reals\s*\}",
    re.IGNORECASE,
)
_CUP: Final = re.compile(r"\\cup(?![A-Za-z])")
_CAP: Final = re.compile(r"\\cap(?![A-Za-z])")
_MINUS: Final = re.compile(
    r"\\setminus(?![A-Za-z])|\\backslash(?![A-Za-z])|(?<=\\mathbb\{R\})\s*-(?=\s*\\\{)|(?<=\\mathbb\{R\} )-(?=\s*\\\{)"
)
_BARS: Final = r"(?:\||\\vert(?![A-Za-z]))"
_ABSOLUTE: Final = re.compile(
    rf"{_BARS}\s*({_VARIABLE.pattern})\s*(?:([-+])\s*([^|]+?))?\s*{_BARS}\s*({_RELATION.pattern})\s*(.+)",
    re.DOTALL,
)
_EITHER: Final = re.compile(
    rf"({_VARIABLE.pattern})\s*(\\ne(?![A-Za-z])|=)\s*\\pm(?![A-Za-z])\s*(.+)", re.DOTALL
)
_NAMED: Final = {
    "\\mathbb{Z}": sympy.S.Integers,
    "\\mathbb{Q}": sympy.S.Rationals,
    "\\mathbb{R}": sympy.S.Reals,
    "\\mathbf{R}": sympy.S.Reals,
    "\\emptyset": sympy.S.EmptySet,
}
_HOLDS: Final[dict[str, Callable[[Any], Any]]] = {
    "<": lambda bound: sympy.Interval.open(-sympy.oo, bound),
    ">": lambda bound: sympy.Interval.open(bound, sympy.oo),
    "\\le": lambda bound: sympy.Interval(-sympy.oo, bound),
    "\\ge": lambda bound: sympy.Interval(bound, sympy.oo),
    "\\ne": lambda bound: sympy.Complement(sympy.S.Reals, sympy.FiniteSet(bound)),
    "=": sympy.FiniteSet,
}
_TURNED: Final = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\ne": "\\ne", "=": "="}


class RealSet(NamedTuple):
    """A set of real numbers as it was written."""

    members: Any  # a sympy set
    variable: str  # of the inequality or the set-builder; "" where none was named
    is_pair: bool  # two numbers in brackets and no more: an interval, or a tuple


class _NoSet(Exception):
    """The text is no set of real numbers."""


def read_set(text: str, number: Number) -> RealSet | None:
    """Return the set that a text describes; None where it describes none."""
    try:
        variable, members = _described(text.strip().strip("$").strip(), number)
    except _NoSet:
        return None
    return RealSet(members, variable, _PAIR.match(text.strip()) is not None and not _CUP.search(text))


def looks_like_set(text: str) -> bool:
    """Return whether a text may be a set that is no pair in brackets: it has a sign of one."""
    return _SIGNS.search(text) is not None


def same_set(one: RealSet, other: RealSet) -> bool:
    """Return whether two sets have the same members. Variables with two names are two variables."""
    if one.variable and other.variable and one.variable != other.variable:
        return False
    if one.members == other.members:
        return True
    difference = sympy.SymmetricDifference(one.members, other.members)
    return bool(difference is sympy.S.EmptySet or difference.is_empty)


def _described(text: str, number: Number) -> tuple[str, Any]:
    """Return the variable's name, "" without one, and the set. Raises _NoSet."""
    parts = [part.strip() for part in _CUP.split(text)]
    if len(parts) > 1 and any(map(_BUILT.match, parts)):
        return "", sympy.Union(*(_described(part, number)[1] for part in parts))
    if (built := _BUILT.match(text)) is not None:
        domain = _members(built[2], number) if built[2] else sympy.S.Reals
        variable, members = _condition(built[3], number)
        if variable not in ("", built[1]):
            raise _NoSet
        return "", sympy.Intersection(domain, members)  # the variable is bound
    if _MEMBER.match(text) is not None and not _OR.search(text) and not _RELATION.search(text):
        return _clause(text, number)
    if _RELATION.search(text):
        return _condition(text, number)
    return "", _members(text, number)


def _condition(text: str, number: Number) -> tuple[str, Any]:
    r"""Return what `x < 1 \text{ or } x > 2` describes. `or` binds weaker than `and`.

    A comma is an `and`, but between values of one variable, as in `x = 1, x = 2`. What nothing fulfils is no set that
    somebody would write so.
    """
    names, members = set(), []
    for alternative in _OR.split(text):
        pieces = [piece for part in _AND.split(alternative) for piece in split_outside(part, ",") or [""]]
        clauses = [_clause(piece.strip(), number) for piece in pieces]
        names |= {name for name, _ in clauses}
        parts = [part for _, part in clauses]
        are_values = all(isinstance(part, sympy.FiniteSet) for part in parts)
        members.append(sympy.Union(*parts) if are_values else sympy.Intersection(*parts))
    if len(names) != 1 or sympy.S.EmptySet in members:
        raise _NoSet
    return names.pop(), sympy.Union(*members)


def _clause(text: str, number: Number) -> tuple[str, Any]:
    r"""Return what one chain of relations describes, as `1 < x \le 5`, or one membership."""
    if (member := _MEMBER.match(text)) is not None:
        return member[1], _members(member[2], number)
    if (absolute := _ABSOLUTE.fullmatch(text)) is not None:
        return _distance(absolute, number)
    if (both := _EITHER.fullmatch(text)) is not None:
        value = _read(both[3], number)
        return both[1], _HOLDS[both[2]](value) & _HOLDS[both[2]](-value) if both[
            2
        ] != "=" else sympy.FiniteSet(value, -value)
    signs = _RELATION.findall(text)
    sides = [side.strip() for side in _RELATION.split(text)]
    places = [place for place, side in enumerate(sides) if _VARIABLE.fullmatch(side)]
    if len(signs) not in (1, 2) or len(places) != 1 or (len(signs) == 2 and places != [1]):
        raise _NoSet
    values = [_read(side, number) if index != places[0] else None for index, side in enumerate(sides)]
    parts = []
    for sign, (left, right) in zip(signs, pairwise(values), strict=True):
        parts.append(_HOLDS[sign](right) if left is None else _HOLDS[_TURNED[sign]](left))
    if len(signs) == 2 and not {*signs} <= {"<", "\\le"} and not {*signs} <= {">", "\\ge"}:
        raise _NoSet  # `1 < x > 5` says nothing that a teacher would write
    return sides[places[0]], sympy.Intersection(*parts)


def _distance(found: re.Match[str], number: Number) -> tuple[str, Any]:
    """Return what `|x - 2| < 3` describes."""
    centre = _read(found[3], number) * (1 if found[2] == "-" else -1) if found[2] else sympy.Integer(0)
    radius, sign = _read(found[5], number), found[4]
    if radius.is_negative or sign in ("=", "\\ne"):
        raise _NoSet
    inner = sympy.Interval(centre - radius, centre + radius, *(sign in ("<", "\\ge"),) * 2)
    return found[1], inner if sign in ("<", "\\le") else sympy.Complement(sympy.S.Reals, inner)


def _members(text: str, number: Number) -> Any:
    r"""Return the set that `(-\infty, 1) \cup [2, 3]` and the like name."""
    text = text.strip()
    for sign, combined in ((_CUP, sympy.Union), (_CAP, sympy.Intersection)):
        if len(parts := sign.split(text)) > 1:
            return combined(*(_members(part, number) for part in parts))
    if len(parts := _MINUS.split(text)) == 2:
        return sympy.Complement(_members(parts[0], number), _members(parts[1], number))
    if text in _NAMED or _WORDS.fullmatch(text):
        return _NAMED.get(text, sympy.S.Reals)
    if text.startswith("\\{") and text.endswith("\\}"):
        return sympy.FiniteSet(*(_read(part, number) for part in split_outside(text[2:-2], ",") or [""]))
    return _interval(text, number)


def _interval(text: str, number: Number) -> Any:
    pair = _PAIR.match(text)
    bounds = split_outside(pair[2], ",") if pair is not None else None
    if pair is None or bounds is None or len(bounds) != 2:
        raise _NoSet
    low, high = (_read(bound, number) for bound in bounds)
    opens = pair[1] != "[", pair[3] != "]"
    if not (low < high) == True:  # noqa: E712 - sympy's truth; (5, 2) is a point
        raise _NoSet
    return sympy.Interval(low, high, *opens)


def _read(text: str, number: Number) -> Any:
    value = number(text)
    if value is None:
        raise _NoSet
    return value
