r"""Vectors and solutions: rows, columns and tuples of values, and several tuples with or without names.

In: a text in plain LaTeX (`scorers.math.notation.plain`). Out: its parts as text, in their order. Pure functions on
text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from scorers.math.text import split_outside

_MOST_PARTS: Final = 12
_MATRIX: Final = re.compile(
    r"(?P<open>[(\[]?)\s*\\begin\{(?P<kind>[pb]?matrix|smallmatrix|array)\}(?:\{[lcr|\s]*\})?(?P<cells>.*)"
    r"\\end\{(?P=kind)\}\s*(?P<close>[)\]]?)",
    re.DOTALL,
)
_TRANSPOSED: Final = re.compile(
    r"\s*\^\s*\{?\s*(?:T|\\top|\\intercal|\\(?:text|mathrm|mathsf)\s*\{?\s*T\s*\}?)\s*\}?\Z"
)
_SYMBOL: Final = r"(?:[A-Za-z]|\\(?:alpha|beta|gamma|theta|lambda|mu|phi))(?:_\w|_\{\w+\})?"
_NAMES: Final = rf"\(\s*({_SYMBOL}(?:\s*,\s*{_SYMBOL})+)\s*\)"
_NAMED_TUPLE: Final = re.compile(rf"{_NAMES}\s*=\s*(\(.+\))\Z", re.DOTALL)
_NAMED_SET: Final = re.compile(rf"{_NAMES}\s*(?:\\in(?![A-Za-z])|=)\s*\\\{{(.+)\\\}}\Z", re.DOTALL)
_NAMED_VALUE: Final = re.compile(rf"({_SYMBOL})\s*=\s*([^=<>]+)\Z", re.DOTALL)
_OR: Final = re.compile(r"\\text\{\s*or\s*\}|\\lor(?![A-Za-z])|(?<=\s)or(?=\s)|;")
_AND: Final = re.compile(r"\\text\{\s*and\s*\}|(?<=\s)and(?=\s)")


class Vector(NamedTuple):
    """The parts of a vector; its shape is "row" or "column", "" of a tuple."""

    parts: tuple[str, ...]
    shape: str


class Solutions(NamedTuple):
    """Several tuples of values; no names where none of them has any."""

    names: tuple[str, ...]
    tuples: tuple[tuple[str, ...], ...]

    def in_order(self, names: Sequence[str]) -> list[str]:
        """Return each tuple as text, its values in the order of these names."""
        places = [self.names.index(name) for name in names] if self.names else None
        return [
            f"({', '.join(values if places is None else [values[place] for place in places])})"
            for values in self.tuples
        ]


def read_vector(text: str) -> Vector | None:
    """Return the vector that a text is; None of any other text, and of a matrix with several rows and columns."""
    bare = _TRANSPOSED.sub("", text)
    is_turned = bare != text
    if (found := _MATRIX.fullmatch(bare)) is None:
        parts = _tuple_parts(f"({bare[1:-1]})" if is_turned and bare[:1] + bare[-1:] == "[]" else bare)
        if parts is None:
            return None
        return Vector(parts, "column" if is_turned else "")
    if (found["open"], found["close"]) not in (("", ""), ("(", ")"), ("[", "]")):
        return None
    lines = found["cells"].strip().removesuffix("\\\\").split("\\\\")
    rows = [[cell.strip() for cell in line.split("&")] for line in lines]
    if min(len(rows), max(map(len, rows))) != 1 or len(rows) == max(map(len, rows)):
        return None
    parts = tuple(cell for row in rows for cell in row)
    is_column = (len(rows) > 1) != is_turned
    return (
        Vector(parts, "column" if is_column else "row") if all(parts) and len(parts) <= _MOST_PARTS else None
    )


def read_matrix(text: str) -> tuple[tuple[str, ...], ...] | None:
    """Return the rows of a matrix; None of any other text, and of a determinant."""
    found = _MATRIX.fullmatch(text) if "\\begin" in text else None
    if found is None or (found["open"], found["close"]) not in (("", ""), ("(", ")"), ("[", "]")):
        return None
    lines = found["cells"].strip().removesuffix("\\\\").split("\\\\")
    rows = tuple(tuple(cell.strip() for cell in line.split("&")) for line in lines)
    return rows if "\\begin" not in found["cells"] and all(all(row) for row in rows) else None


def _tuple_parts(text: str) -> tuple[str, ...] | None:
    """Return the parts of a tuple in round brackets, two at least; None of any other text."""
    if not text.startswith("(") or not text.endswith(")"):
        return None
    parts = split_outside(text[1:-1], ",")
    return tuple(parts) if parts is not None and 2 <= len(parts) <= _MOST_PARTS and all(parts) else None


def read_solutions(text: str) -> Solutions | None:
    r"""Return two tuples or more: `(x,y) = (1,5) \text{ or } (2,3)`, `x=1, y=5 \text{ or } x=2, y=3`; None of all else.

    Names hold until others come, and all tuples have the same ones.
    """
    if "(" not in text and "=" not in text:
        return None
    names: tuple[str, ...] = ()
    if (named := _NAMED_SET.match(text)) is not None:
        names, text = _split(named[1]), named[2]
    elif text.startswith("\\{") and text.endswith("\\}"):
        text = text[2:-2]
    all_names, tuples = {names} - {()}, []
    for piece in _OR.split(text):
        if (values := _named_values(piece)) is not None:
            found: list[tuple[tuple[str, ...], tuple[str, ...]]] | None = [values]
        else:
            found = _tuples(piece)
        if found is None:
            return None
        all_names |= {one for one, _ in found} - {()}
        tuples += found
    if len(set(map(frozenset, all_names))) > 1:
        return None
    names = names or next((one for one, _ in tuples if one), ())
    ordered = [_ordered(values, one or names, names) for one, values in tuples]
    is_whole = 2 <= len(tuples) <= _MOST_PARTS and len(set(map(len, ordered))) == 1
    return (
        Solutions(names, tuple(ordered))
        if is_whole and (not names or len(names) == len(ordered[0]))
        else None
    )


def _ordered(values: tuple[str, ...], own: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    if own == names or len(own) != len(values):
        return values
    return tuple(values[own.index(name)] for name in names)


def _named_values(piece: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the names and values of `x = 1, y = 5`; None of any other text."""
    parts = [part for text in _AND.split(piece) for part in split_outside(text, ",") or [""]]
    found = [_NAMED_VALUE.match(part.strip()) for part in parts if part.strip()]
    values = {one[1]: one[2].strip() for one in found if one is not None}
    return (tuple(values), tuple(values.values())) if 2 <= len(found) == len(values) else None


def _tuples(piece: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]] | None:
    """Return the tuples of a list with the names that stand before each; None where a part is no tuple."""
    found = []
    for text in _AND.split(piece):
        for part in split_outside(text.strip().removesuffix(","), ",") or [""]:
            named = _NAMED_TUPLE.match(part)
            values = _tuple_parts(part if named is None else named[2])
            if values is None or (named is not None and len(_split(named[1])) != len(values)):
                return None
            found.append((() if named is None else _split(named[1]), values))
    return found


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(","))
