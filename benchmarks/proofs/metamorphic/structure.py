r"""How a reference is built: its statements, the sides of each, the atoms inside brackets; and the name of its shape.

In: the text of a reference. Out: spans of the text. Plain splitting at the depth of brackets, with nothing of the
scorer's: a rewriter changes a span and leaves all else alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

Rewriter = Callable[[str, random.Random], str | None]

_OPEN: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
CONJUNCTION: Final = re.compile(
    r"\\(?:text|mathrm|mbox|textrm)\{\s*,?\s*(?:and|or)\s*,?\s*\}|\\(?:qquad|quad)(?![A-Za-z])"
    r"|(?<=[\s$])(?:and|or)(?=[\s$])"
)
RELATION: Final = re.compile(
    r"\\(?:le|leq|leqslant|ge|geq|geqslant|lt|gt|ne|neq|approx|equiv|sim|in|to|rightarrow|Rightarrow|Leftrightarrow"
    r"|iff|propto|mapsto|subset|subseteq|ll|gg)(?![A-Za-z])|[=<>≤≥≠≈]"
)
NUMBER: Final = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
UNIT: Final = re.compile(
    r"\\(?:text|mathrm|mbox|textrm|textnormal|operatorname)\s*\{(?P<word>[~\s]*[A-Za-z][A-Za-z.~\s/^0-9{}\\-]*)\}"
)
# A unit, and one that it is not.
UNITS: Final = {
    "cm": "m", "m": "cm", "km": "m", "ft": "in", "in": "ft", "feet": "inches", "inches": "feet", "mi": "km",
    "miles": "feet", "mph": "ft/s", "h": "min", "hr": "min", "hours": "minutes", "hour": "minute", "min": "hr",
    "minutes": "hours", "s": "min", "sec": "min", "seconds": "minutes", "days": "weeks", "years": "days",
    "weeks": "days", "kg": "g", "g": "kg", "lb": "oz", "N": "J", "J": "N", "m/s": "km/h", "L": "mL", "mL": "L",
    "gallons": "liters", "dollars": "cents", "cents": "dollars", "degrees": "radians", "units": "square units",
    "meters": "feet", "metres": "feet", "W": "J", "V": "A", "A": "V", "K": "m", "Hz": "s", "eV": "J", "mg": "g",
    "yd": "ft", "pounds": "ounces", "ohms": "volts", "mol": "kg", "M": "kg",
}  # fmt: skip
NAME: Final = re.compile(
    r"(?:\\[A-Za-z]+|[A-Za-z])(?:_(?:\{[^{}]*\}|\w))?(?:'|\^\{\\prime\})*(?:\([^()]*\))?"
)
_COMMAND: Final = re.compile(r"\\(?:begin|end)\{[a-z*]+\}|\\[A-Za-z]+(?:\{[A-Za-z~ ]*\})?")
_SEPARATOR: Final = re.compile(rf"(?<!\\),(?!\\!)|(?<!\\);|\n+|{CONJUNCTION.pattern}")
_INNER: Final = re.compile(
    rf"(?<!\\),|;|&|\\\\|\||\\mid(?![A-Za-z])|\\cup|\\cap|:|{RELATION.pattern}|{CONJUNCTION.pattern}"
)
_THOUSANDS: Final = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])")


class Span(NamedTuple):
    """A part of a text."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Return the part."""
        return text[self.start : self.end]

    def replaced(self, text: str, new: str) -> str:
        """Return the text with another part in its place."""
        return text[: self.start] + new + text[self.end :]


def bare_of(text: str) -> str | None:
    """Return a text without the dollar signs around it; None where more of them stand inside."""
    bare = text.strip()
    if len(bare) > 2 and bare[0] == bare[-1] == "$":
        bare = bare[1:-1].strip()
    return None if "$" in bare.replace("\\$", "") else bare


def depths(text: str) -> list[int]:
    """Return the depth of brackets of each character; a bracket itself is outside."""
    depth, found = 0, []
    for character in text:
        step = _OPEN.get(character, 0)
        depth += min(step, 0)
        found.append(depth)
        depth += max(step, 0)
    return found


def statements(text: str) -> list[Span]:
    r"""Return the parts of a list at the depth 0, where a comma, a semicolon, `and`, `or` or `\quad` parts them."""
    whole = _trimmed(text, Span(0, len(text)))
    if len(part := whole.of(text)) > 2 and part[0] == part[-1] == "$" and "$" not in part[1:-1]:
        whole = _trimmed(text, Span(whole.start + 1, whole.end - 1))
    if _THOUSANDS.fullmatch(whole.of(text)):
        return [whole]
    return [part for part in _split(text, whole, _SEPARATOR) if part.of(text)] or [whole]


def sides(text: str, statement: Span) -> list[Span]:
    """Return the sides of a statement: one where it has no relation."""
    return _split(text, statement, RELATION)


def relations(text: str, statement: Span) -> list[Span]:
    """Return the signs of a statement's relations."""
    return _signs(text, statement, RELATION)


def atoms(text: str, place: int) -> Iterator[Span]:
    """Yield what holds the place, from a whole side down to one entry of a tuple, a set, a matrix or an interval."""
    for statement in statements(text):
        for side in sides(text, statement):
            if side.start <= place < side.end:
                yield side
                yield from _inside(text, side, place)


def _signs(text: str, span: Span, sign: re.Pattern[str]) -> list[Span]:
    level = depths(span.of(text))
    found = sign.finditer(span.of(text))
    return [
        Span(span.start + one.start(), span.start + one.end()) for one in found if level[one.start()] == 0
    ]


def _split(text: str, span: Span, sign: re.Pattern[str]) -> list[Span]:
    signs = _signs(text, span, sign)
    starts = [span.start, *(one.end for one in signs)]
    ends = [*(one.start for one in signs), span.end]
    return [_trimmed(text, Span(start, end)) for start, end in zip(starts, ends, strict=True)]


def _trimmed(text: str, span: Span) -> Span:
    part = span.of(text)
    return Span(span.start + len(part) - len(part.lstrip()), span.end - len(part) + len(part.rstrip()))


def _inside(text: str, span: Span, place: int) -> Iterator[Span]:
    """Yield the entries around the place inside brackets that are no argument of a command."""
    for part in _split(text, span, _INNER):
        if part.start <= place < part.end and part != span:
            yield part
            span = part
    inner, opened = span.of(text), -1
    level = depths(inner)
    for offset, character in enumerate(inner):
        if level[offset] == 0 and _OPEN.get(character, 0) > 0:
            opened = offset
        if level[offset] == 0 and _OPEN.get(character, 0) < 0 and opened < place - span.start < offset:
            if _holds_entries(inner, opened):
                end = offset - 1 if inner[offset - 1] == "\\" else offset
                yield from _entries(text, Span(span.start + opened + 1, span.start + end), place)
            return


def _entries(text: str, within: Span, place: int) -> Iterator[Span]:
    for part in _split(text, within, _INNER):
        if part.start <= place < part.end:
            yield part
            yield from _inside(text, part, place)


def _holds_entries(text: str, opened: int) -> bool:
    """Return whether a bracket holds entries, and is no argument of a command, a power, a factor or a function."""
    if text[opened] == "{" and not text[:opened].endswith("\\"):
        return False
    before = re.sub(r"\\left|\\", "", text[:opened]).rstrip()
    return not before or before[-1] in "=,;({[<>"


def shape_of(text: str) -> str:
    """Name the shape of a reference, for the table."""
    bare = text.strip().strip("$").strip()
    if re.search(r"\\begin\{[a-z]*(?:matrix|array)\}", bare):
        return "matrix"
    has_words = re.search(r"(?<![\\A-Za-z{~])[a-z]{3,}", _COMMAND.sub(" ", bare))
    if has_words or ("\\text" in bare and len(bare) > 60):
        return "prose"
    if "%" in bare:
        return "percent"
    counts = [len(sides(text, part)) for part in statements(text)]
    return _shape_of_list(bare, counts) if len(counts) > 1 else _shape_of_one(bare, counts[0])


def _shape_of_one(bare: str, num_sides: int) -> str:
    if re.search(r"\\cup|\\infty", bare) or re.fullmatch(r"(?:\\left)?[(\[].*,.*[)\]]", bare):
        return "interval or tuple"
    if bare.startswith(("\\{", "\\left\\{", "\\left \\{")):
        return "set"
    return _shape_of_relation(bare, num_sides) if num_sides > 1 else _shape_of_value(bare)


def _shape_of_list(text: str, counts: list[int]) -> str:
    if min(counts) > 1:
        return "list of equations"
    if max(counts) > 1:
        return "mixed list"
    return "list of quantities" if UNIT.search(text) else "list of values"


def _shape_of_value(text: str) -> str:
    if UNIT.search(text) or "\\circ" in text:
        return "quantity"
    if re.fullmatch(r"-?\s*[0-9][0-9,]*", text):
        return "integer"
    return "expression" if re.search(r"[A-Za-z]", _COMMAND.sub(" ", text)) else "number"


def _shape_of_relation(text: str, count: int) -> str:
    if "\\approx" in text or "≈" in text:
        return "approximation"
    if re.search(r"\\(?:leq?|geq?|lt|gt|neq?|leqslant|geqslant)(?![A-Za-z])|[<>]", text):
        return "inequality"
    return "equation" if count == 2 else "chain"
