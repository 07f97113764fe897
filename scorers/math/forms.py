r"""Forms of one answer: a quantity, an angle, a set, a function's rule, a list, values with names, plus and minus.

In: a reference and an answer in plain LaTeX (`scorers.math.notation.plain`). Out: whether they are equal. What has one
of these forms is taken apart here, and its parts are compared; all else is left to math_verify
(`scorers.math.equality`), which also has the last word where a form is not decisive. Runs in the scoring child.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from scorers.math.functions import read_rule, renamed, with_dummy_of
from scorers.math.notation import layout_key
from scorers.math.text import has_percent, split_outside
from scorers.math.units import DEGREE, RADIAN, Quantity, quantity

_MOST_PARTS: Final = 12  # of a list whose parts are compared one by one
_DEEPEST: Final = 4  # forms within forms
_SYMBOL: Final = r"(?:[A-Za-z]|\\(?!frac|sqrt|text|infty|pi(?![A-Za-z]))[A-Za-z]+)(?:'|_\w|_\{\w+\})*"
_NAMED: Final = re.compile(rf"({_SYMBOL})\s*=\s*([^=<>]+)\Z", re.DOTALL)
_STATED: Final = re.compile(r"([^=<>]+)=\s*([^=<>]+)\Z", re.DOTALL)
_NO_SIDE: Final = re.compile(r"\\(?:le|ge|ne|in|to|mapsto|approx|equiv)(?![A-Za-z])")
_INNER: Final = re.compile(r"_\w|_\{[^{}]*\}|\([^()]*\)|\[[^\[\]]*\]|\|[^|]*\||\{[^{}]*\}")
_BARE_NAME: Final = re.compile(
    r"(?:(?:[A-Za-z]+|\\(?:det|deg|dim|angle|triangle|overline|vec|hat|bar|mathbf|mathrm|mathbb|operatorname|max|min|gcd"
    r"|alpha|beta|gamma|delta|Delta|epsilon|theta|lambda|mu|sigma|Sigma|phi|varphi|omega|Omega|rho|tau))'*\s*)*"
)
_AND: Final = re.compile(r"\\text\{\s*and\s*\}|(?<=\s)and(?=\s)|;")
_POINT: Final = re.compile(r"[A-Z](?:'|_\w|_\{\w+\})*\s*=?\s*(\(.+\))\Z", re.DOTALL)
_SIGNED: Final = re.compile(r"\\(pm|mp)(?![A-Za-z])")
_PERCENT: Final = re.compile(r"\s*\\?%\s*\Z")

Equal = Callable[[str, str], bool]
"""Compares a reference and an answer that have none of these forms."""


class FormComparer:
    """Compares texts by their forms.

    Args:
        equal: compares what has none of them.
        same_sets: compares two sets of real numbers; None where the texts are none.
        is_set: tells whether a text is a set of real numbers.
    """

    def __init__(
        self, *, equal: Equal, same_sets: Callable[[str, str], bool | None], is_set: Callable[[str], bool]
    ) -> None:
        self._equal = equal
        self._same_sets = same_sets
        self._is_set = is_set

    def same(self, reference: str, answer: str, *, depth: int = 0) -> bool:
        """Return whether two boxes are equal."""
        if depth > _DEEPEST or layout_key(reference) == layout_key(answer) != "":
            return depth <= _DEEPEST
        for look in (self._by_unit, self._as_sets, self._as_rules, self._as_named_values):
            if (is_same := look(reference, answer, depth)) is not None:
                return is_same
        return any(
            look(reference, answer, depth) for look in (self._as_stated, self._as_percentage, self._as_lists)
        ) or self._equal(quantity(reference).value, quantity(answer).value)

    def reads(self, reference: str) -> bool:
        """Return whether a reference has a form that needs no other reader."""
        return self._is_set(reference) or read_rule(reference) is not None

    def _by_unit(self, reference: str, answer: str, depth: int) -> bool | None:
        """Compare two quantities: a unit on one side alone is let go, but for degrees against multiples of pi."""
        wanted, given = quantity(reference), quantity(answer)
        units = {wanted.unit, given.unit}
        if None in units:
            return self._as_angles(wanted, given) if units == {DEGREE, None} else None
        if units == {DEGREE, RADIAN}:
            degrees, radians = (wanted, given) if wanted.unit == DEGREE else (given, wanted)
            return self._equal(_in_radians(degrees.value), radians.value)
        if wanted.unit is None or given.unit is None or wanted.unit.dimensions != given.unit.dimensions:
            return False
        ratio = given.unit.size / wanted.unit.size
        if ratio == 1:
            return self.same(wanted.value, given.value, depth=depth + 1)
        return self._equal(
            wanted.value, f"({given.value})\\cdot\\frac{{{ratio.numerator}}}{{{ratio.denominator}}}"
        )

    def _as_angles(self, wanted: Quantity, given: Quantity) -> bool | None:
        degrees, bare = (wanted, given) if wanted.unit == DEGREE else (given, wanted)
        if (
            "\\pi" not in bare.value
            or "\\pi" in degrees.value
            or split_outside(bare.value, ",") != [bare.value]
        ):
            return None
        named = _NAMED.match(degrees.value)
        value = degrees.value if named is None else named[2]
        bare_named = _NAMED.match(bare.value)
        return self._equal(_in_radians(value), bare.value if bare_named is None else bare_named[2])

    def _as_sets(self, reference: str, answer: str, _depth: int) -> bool | None:
        return self._same_sets(reference, answer)

    def _as_rules(self, reference: str, answer: str, depth: int) -> bool | None:
        wanted, given = read_rule(reference), read_rule(answer)
        if wanted is not None and given is not None and wanted.name == given.name:
            body = renamed(given, wanted.variables)
            return body is not None and self.same(wanted.body, body, depth=depth + 1)
        other = with_dummy_of(reference, answer)
        return None if other is None else self.same(reference, other, depth=depth + 1)

    def _as_named_values(self, reference: str, answer: str, depth: int) -> bool | None:
        """Compare `x = 1, y = 2` with a bare list or tuple: in the reference's order, or in that of the alphabet."""
        wanted, given = _named_values(reference), _named_values(answer)
        if (wanted is None) == (given is None):
            return None
        if wanted is not None:
            values, others = list(wanted.values()), _parts(answer)
        else:
            values, others = [value for _, value in sorted((given or {}).items())], _parts(reference)
        if others is None or len(values) != len(others):
            return None
        pairs = zip(values, others, strict=True) if wanted is not None else zip(others, values, strict=True)
        return all(self.same(one, other, depth=depth + 1) for one, other in pairs)

    def _as_stated(self, reference: str, answer: str, depth: int) -> bool:
        r"""Compare the right side of an equation that only names its value: `S = 5`, `\det A = 5`, `A(2, 3)`."""
        wanted, given = _stated(reference), _stated(answer)
        if wanted == ("", reference) and given == ("", answer):
            return False
        if wanted[0] and given[0] and layout_key(wanted[0]) != layout_key(given[0]):
            return False
        return self.same(wanted[1], given[1], depth=depth + 1)

    def _as_percentage(self, reference: str, answer: str, depth: int) -> bool:
        """Compare with a percentage: another one, the number of percents, or the share."""
        if not _PERCENT.search(reference):
            return False
        wanted = _PERCENT.sub("", reference)
        if _PERCENT.search(answer):
            return self.same(wanted, _PERCENT.sub("", answer), depth=depth + 1)
        if has_percent(answer):
            return False
        return self._equal(wanted, answer) or self._equal(wanted, f"({answer})\\cdot 100")

    def _as_lists(self, reference: str, answer: str, depth: int) -> bool:
        """Compare part by part: in order within brackets, else in any order, plus and minus as two parts."""
        wanted, given = _alternatives(reference), _alternatives(answer)
        if wanted is not None and given is not None and len(wanted) == len(given):
            return self._match(wanted, given, depth)
        ours, theirs = _parts(reference), _parts(answer)
        if ours is None or theirs is None or len(ours) != len(theirs):
            return False
        if reference[:1] + reference[-1:] != answer[:1] + answer[-1:]:
            return False
        return all(self.same(one, other, depth=depth + 1) for one, other in zip(ours, theirs, strict=True))

    def _match(self, wanted: Sequence[str], given: Sequence[str], depth: int) -> bool:
        """Return whether each wanted part has one of its own among the given ones."""
        left = list(given)
        for one in wanted:
            found = next((other for other in left if self.same(one, other, depth=depth + 1)), None)
            if found is None:
                return False
            left.remove(found)
        return True


def core(reference: str) -> str:
    """Return the part of a reference that has to be parsed: its value without unit, percent and one of two signs."""
    text = _PERCENT.sub("", quantity(reference).value)
    return _SIGNED.sub("+", text) if _alternatives(text) else text


def _in_radians(degrees: str) -> str:
    return f"({degrees})\\cdot\\frac{{\\pi}}{{180}}"


def _stated(text: str) -> tuple[str, str]:
    """Return the name and the value that a text states; "" and the text where it states none."""
    if (point := _POINT.match(text)) is not None and "," in point[1] and "=" not in point[1]:
        return "", point[1]
    found = _STATED.match(text)
    if found is None or _NO_SIDE.search(text):
        return "", text
    name = found[1].strip()
    bare = name
    while (outer := _INNER.sub("", bare)) != bare:
        bare = outer
    is_name = bool(name) and _BARE_NAME.fullmatch(bare) is not None and any(map(str.isalpha, name))
    return (name, found[2].strip()) if is_name else ("", text)


def _named_values(text: str) -> dict[str, str] | None:
    """Return values by their names, at least two of them; None where a text is anything else."""
    parts = [part for piece in _AND.split(text) for part in split_outside(piece, ",") or [""]]
    found = [_NAMED.match(part.strip()) for part in parts if part.strip()]
    named = {one[1]: one[2].strip() for one in found if one is not None}
    return named if 2 <= len(named) == len(found) <= _MOST_PARTS else None


def _parts(text: str) -> list[str] | None:
    """Return the parts of a list or a tuple, two at least; None where a text is anything else."""
    opening, closing = text[:1], text[-1:]
    is_tuple = opening in ("(", "[") and closing in (")", "]")
    inner = text[1:-1] if is_tuple else text
    parts = split_outside(inner, ",")
    if (parts is None or len(parts) < 2) and not is_tuple:
        parts = [part.strip() for part in _AND.split(text)]
    return parts if parts is not None and 2 <= len(parts) <= _MOST_PARTS and all(parts) else None


def _alternatives(text: str) -> list[str] | None:
    r"""Return the values of a list without an order, a set, or of `2 \pm \sqrt{3}`; None of all else."""
    if (named := _NAMED.match(text)) is not None:
        text = named[2].strip()
    if text.startswith("\\{") and text.endswith("\\}"):
        text = text[2:-2].strip()
    elif text[:1] in ("(", "[") and text[-1:] in (")", "]") and split_outside(text[1:-1], ",") is not None:
        return None
    parts = split_outside(text, ",") or []
    found = [value for part in parts for value in (_of_signs(part) if _SIGNED.search(part) else [part])]
    return found if 2 <= len(found) <= _MOST_PARTS and all(found) else None


def _of_signs(text: str) -> list[str]:
    """Return both values of a text with plus and minus; all its signs turn together."""

    def with_signs(upper: str, lower: str) -> str:
        return _SIGNED.sub(lambda sign: upper if sign[1] == "pm" else lower, text).strip().removeprefix("+")

    return [with_signs("+", "-"), with_signs("-", "+")]
