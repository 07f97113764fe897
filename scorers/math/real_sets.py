r"""Sets of real numbers: inequalities, chains, intervals, unions, set-builder notation.

In: a reference and an answer in plain LaTeX (`scorers.math.notation.plain`). Out: whether they describe one set; None
where one of them describes none. Bounds are real numbers, read by the caller. Runs in the scoring child.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

import sympy

from scorers.math.text import split_outside

_VARIABLE: Final = re.compile(  # or what a function has for values, `f(x)`; `e` is a number
    r"(?:[f-hF-HPy](?:_\w|_\{\w+\})?'*\s*\(\s*[A-Za-z]\s*\)|[A-DF-Za-df-z](?:_\w|_\{\w+\})?|\\(?:theta|alpha|beta|lambda|phi|mu|omega|varphi)(?![A-Za-z]))"
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
_RING: Final = re.compile(
    r"([^|<>=]+?)\s*(\\le(?![A-Za-z])|<)\s*(\|[^|]+\|)\s*(\\le(?![A-Za-z])|<)\s*([^|<>=]+)", re.DOTALL
)
_EITHER: Final = re.compile(
    rf"({_VARIABLE.pattern})\s*(\\ne(?![A-Za-z])|=)\s*\\pm(?![A-Za-z])\s*(.+)", re.DOTALL
)
_NAMED: Final = {
    "\\mathbb{Z}": sympy.Integers,
    "\\mathbb{Q}": sympy.Rationals,
    "\\mathbb{R}": sympy.Reals,
    "\\mathbf{R}": sympy.Reals,
    "\\emptyset": sympy.EmptySet,
}
_HOLDS: Final[dict[str, Callable[[Any], Any]]] = {
    "<": lambda bound: sympy.Interval.open(-sympy.oo, bound),
    ">": lambda bound: sympy.Interval.open(bound, sympy.oo),
    "\\le": lambda bound: sympy.Interval(-sympy.oo, bound),
    "\\ge": lambda bound: sympy.Interval(bound, sympy.oo),
    "\\ne": lambda bound: sympy.Complement(sympy.Reals, sympy.FiniteSet(bound)),
    "=": sympy.FiniteSet,
}
_TURNED: Final = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\ne": "\\ne", "=": "="}


class _RealSet(NamedTuple):
    """A set of real numbers as it was written."""

    members: Any  # a sympy set
    variable: str  # of the inequality or the set-builder; "" where none was named
    is_pair: bool  # two numbers in brackets and no more: an interval, or a tuple


class _NoSet(Exception):
    """The text is no set of real numbers."""


class RealSets:
    """Reads sets, and compares them.

    Args:
        number: reads a real number or an infinity, in sympy's exact form; None of any other text.
    """

    def __init__(self, number: Callable[[str], Any]) -> None:
        self._number = number

    def is_set(self, text: str) -> bool:
        """Return whether a text describes a set of real numbers."""
        return _looks_like_set(text) and self._read_set(text) is not None

    def _read_set(self, text: str) -> _RealSet | None:
        """Return the set that a text describes; None where it describes none."""
        try:
            variable, members = self._described(text.strip().strip("$").strip())
        except _NoSet:
            return None
        return _RealSet(members, variable, _PAIR.match(text.strip()) is not None and not _CUP.search(text))

    def _described(self, text: str) -> tuple[str, Any]:
        """Return the variable's name, "" without one, and the set. Raises _NoSet."""
        parts = [part.strip() for part in _CUP.split(text)]
        if len(parts) > 1 and any(map(_BUILT.match, parts)):
            return "", sympy.Union(*(self._described(part)[1] for part in parts))
        if (built := _BUILT.match(text)) is not None:
            domain = self._members(built[2]) if built[2] else sympy.Reals
            variable, members = self._condition(built[3])
            if variable not in ("", built[1]):
                raise _NoSet
            return "", sympy.Intersection(domain, members)  # the variable is bound
        if _MEMBER.match(text) is not None and not _OR.search(text) and not _RELATION.search(text):
            return self._clause(text)
        if _RELATION.search(text):
            return self._condition(text)
        return "", self._members(text)

    def _condition(self, text: str) -> tuple[str, Any]:
        r"""Return what `x < 1 \text{ or } x > 2` describes. `or` binds weaker than `and`.

        A comma is an `and`, but between values of one variable, as in `x = 1, x = 2`. What nothing fulfils is no set
        that somebody would write so.
        """
        names, members = set(), []
        for alternative in _OR.split(text):
            pieces = [piece for part in _AND.split(alternative) for piece in split_outside(part, ",") or [""]]
            clauses = [self._clause(piece.strip()) for piece in pieces]
            names |= {name for name, _ in clauses}
            parts = [part for _, part in clauses]
            are_values = all(isinstance(part, sympy.FiniteSet) for part in parts)
            members.append(sympy.Union(*parts) if are_values else sympy.Intersection(*parts))
        if len(names) != 1 or sympy.EmptySet in members:
            raise _NoSet
        return names.pop(), sympy.Union(*members)

    def _clause(self, text: str) -> tuple[str, Any]:
        r"""Return what one chain of relations describes, as `1 < x \le 5`, or one membership."""
        if (member := _MEMBER.match(text)) is not None:
            return member[1], self._members(member[2])
        if (absolute := _ABSOLUTE.fullmatch(text)) is not None:
            return self._distance(absolute)
        if (ring := _RING.fullmatch(text)) is not None:
            outer = _ABSOLUTE.fullmatch(f"{ring[3]} {ring[4]} {ring[5]}")
            inner = _ABSOLUTE.fullmatch(f"{ring[3]} {_TURNED[ring[2]]} {ring[1]}")
            if outer is not None and inner is not None:
                (variable, within), (_, beyond) = self._distance(outer), self._distance(inner)
                return variable, sympy.Intersection(within, beyond)
        if (both := _EITHER.fullmatch(text)) is not None:
            value = self._read(both[3])
            return both[1], _HOLDS[both[2]](value) & _HOLDS[both[2]](-value) if both[
                2
            ] != "=" else sympy.FiniteSet(value, -value)
        signs = _RELATION.findall(text)
        sides = [side.strip() for side in _RELATION.split(text)]
        places = [place for place, side in enumerate(sides) if _VARIABLE.fullmatch(side)]
        if len(signs) not in (1, 2) or len(places) != 1 or (len(signs) == 2 and places != [1]):
            raise _NoSet
        if "(" in sides[places[0]] and "=" in signs:
            raise _NoSet  # `f(x) = 5` is a rule
        values = [self._read(side) if index != places[0] else None for index, side in enumerate(sides)]
        parts = []
        for sign, (left, right) in zip(signs, pairwise(values), strict=True):
            parts.append(_HOLDS[sign](right) if left is None else _HOLDS[_TURNED[sign]](left))
        if len(signs) == 2 and not {*signs} <= {"<", "\\le"} and not {*signs} <= {">", "\\ge"}:
            raise _NoSet  # `1 < x > 5` says nothing that a teacher would write
        return sides[places[0]], sympy.Intersection(*parts)

    def _distance(self, found: re.Match[str]) -> tuple[str, Any]:
        """Return what `|x - 2| < 3` describes."""
        centre = self._read(found[3]) * (1 if found[2] == "-" else -1) if found[2] else sympy.Integer(0)
        radius, sign = self._read(found[5]), found[4]
        if radius.is_negative or sign in ("=", "\\ne"):
            raise _NoSet
        inner = sympy.Interval(centre - radius, centre + radius, *(sign in ("<", "\\ge"),) * 2)
        return found[1], inner if sign in ("<", "\\le") else sympy.Complement(sympy.Reals, inner)

    def _members(self, text: str) -> Any:
        r"""Return the set that `(-\infty, 1) \cup [2, 3]` and the like name."""
        text = text.strip()
        for sign, combined in ((_CUP, sympy.Union), (_CAP, sympy.Intersection)):
            if len(parts := sign.split(text)) > 1:
                return combined(*(self._members(part) for part in parts))
        if len(parts := _MINUS.split(text)) == 2:
            return sympy.Complement(self._members(parts[0]), self._members(parts[1]))
        if text in _NAMED or _WORDS.fullmatch(text):
            return _NAMED.get(text, sympy.Reals)
        if text.startswith("\\{") and text.endswith("\\}"):
            return sympy.FiniteSet(*(self._read(part) for part in split_outside(text[2:-2], ",") or [""]))
        return self._interval(text)

    def _interval(self, text: str) -> Any:
        pair = _PAIR.match(text)
        bounds = split_outside(pair[2], ",") if pair is not None else None
        if pair is None or bounds is None or len(bounds) != 2:
            raise _NoSet
        low, high = (self._read(bound) for bound in bounds)
        opens = pair[1] != "[", pair[3] != "]"
        if not (low < high) == True:  # noqa: E712 - sympy's truth; (5, 2) is a point
            raise _NoSet
        if (low.is_infinite and not opens[0]) or (high.is_infinite and not opens[1]):
            raise _NoSet  # nothing reaches infinity
        return sympy.Interval(low, high, *opens)

    def _read(self, text: str) -> Any:
        value = self._number(text)
        if value is None:
            raise _NoSet
        return value

    def same(self, reference: str, answer: str) -> bool | None:
        """Return whether two texts describe one set; None where one of them describes none, or both are pairs."""
        if not _looks_like_set(reference) and not _looks_like_set(answer):
            return None
        wanted = self._read_set(reference)
        given = None if wanted is None else self._read_set(answer)
        if wanted is None or given is None or (wanted.is_pair and given.is_pair):
            return None
        return _are_one_set(wanted, given)


def _looks_like_set(text: str) -> bool:
    """Return whether a text may be a set that is no pair in brackets: it has a sign of one."""
    return _SIGNS.search(text) is not None


def _are_one_set(one: _RealSet, other: _RealSet) -> bool:
    """Return whether two sets have the same members. Variables with two names are two variables."""
    if one.variable and other.variable and one.variable != other.variable:
        return False
    if one.members == other.members:
        return True
    difference = sympy.SymmetricDifference(one.members, other.members)
    return bool(difference is sympy.EmptySet or difference.is_empty)
