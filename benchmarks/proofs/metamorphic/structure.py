r"""How a reference is built: its statements, the sides of each, the atoms inside brackets; and the name of its shape.

In: the text of a reference. Out: spans of the text. Plain splitting at the depth of brackets, with nothing of the
scorer's: a rewriter changes a span and leaves all else alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_OPEN: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
CONJUNCTION: Final = re.compile(
    r"\\(?:text|mathrm|mbox|textrm)\{\s*,?\s*(?:and|or)\s*,?\s*\}|\\(?:qquad|quad)(?![A-Za-z])|(?<=[\s$])(?:and|or)(?=[\s$])"
)
RELATION: Final = re.compile(
    r"\\(?:le|leq|leqslant|ge|geq|geqslant|lt|gt|ne|neq|approx|equiv|sim|in|to|rightarrow|Rightarrow|Leftrightarrow"
    r"|iff|propto|mapsto|subset|subseteq|ll|gg)(?![A-Za-z])|[=<>≤≥≠≈]"
)
NUMBER: Final = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
UNIT: Final = re.compile(
    r"\\(?:text|mathrm|mbox|textrm|textnormal|operatorname)\s*\{(?P<word>[~\s]*[A-Za-z][A-Za-z.~\s/^0-9{}\\-]*)\}"
)
_PROSE: Final = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_COMMAND: Final = re.compile(r"\\(?:begin|end)\{[a-z*]+\}|\\[A-Za-z]+(?:\{[A-Za-z~ ]*\})?")


class Span(NamedTuple):
    """A part of a text."""

    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]

    def replaced(self, text: str, new: str) -> str:
        return text[: self.start] + new + text[self.end :]


def depths(text: str) -> list[int]:
    r"""Return the depth of brackets before each character; `\{` counts, `\left.` does not."""
    depth, found = 0, []
    for place, character in enumerate(text):
        step = _OPEN.get(character, 0)
        if step < 0:
            depth += step
        found.append(depth)
        if step > 0:
            depth += step
        del place
    return found


def _splits(text: str, span: Span, signs: re.Pattern[str]) -> list[Span]:
    inner = span.of(text)
    level = depths(inner)
    spans, start = [], 0
    for found in signs.finditer(inner):
        if level[found.start()] == 0:
            spans.append(Span(span.start + start, span.start + found.start()))
            start = found.end()
    spans.append(Span(span.start + start, span.end))
    return [trimmed(text, part) for part in spans]


def trimmed(text: str, span: Span) -> Span:
    part = span.of(text)
    return Span(span.start + len(part) - len(part.lstrip()), span.end - (len(part) - len(part.rstrip())))


_SEPARATORS: Final = re.compile(rf"(?<!\\),(?!\\!)|(?<!\\);|\n+|{CONJUNCTION.pattern}")
_THOUSANDS: Final = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])")


def statements(text: str) -> list[Span]:
    r"""Return the parts of a list at the depth 0, where a comma, a semicolon, `and`, `or` or `\quad` parts them."""
    whole = trimmed(text, Span(0, len(text)))
    while (inner := _unwrapped(text, whole)) is not None:
        whole = inner
    if _THOUSANDS.fullmatch(whole.of(text)):
        return [whole]
    return [part for part in _splits(text, whole, _SEPARATORS) if part.of(text)]


def _unwrapped(text: str, span: Span) -> Span | None:
    """Return what stands inside one pair of dollar signs."""
    part = span.of(text)
    if len(part) > 2 and part[0] == part[-1] == "$" and "$" not in part[1:-1]:
        return trimmed(text, Span(span.start + 1, span.end - 1))
    return None


def sides(text: str, span: Span) -> list[Span]:
    """Return the sides of one statement: one where it has no relation."""
    return _splits(text, span, RELATION)


def relations(text: str, span: Span) -> list[Span]:
    """Return where the signs of relations of a statement stand."""
    inner = span.of(text)
    level = depths(inner)
    return [
        Span(span.start + found.start(), span.start + found.end())
        for found in RELATION.finditer(inner)
        if level[found.start()] == 0
    ]


_INNER: Final = re.compile(
    rf"(?<!\\),|;|&|\\\\|\||\\mid(?![A-Za-z])|\\cup|\\cap|:|{RELATION.pattern}|{CONJUNCTION.pattern}"
)


def atoms(text: str, place: int) -> Iterator[Span]:
    """Yield what holds the place, from a whole side down to one entry of a tuple, a set, a matrix or an interval."""
    for statement in statements(text):
        if not statement.start <= place < statement.end:
            continue
        for side in sides(text, statement):
            if side.start <= place < side.end:
                yield side
                yield from _inside(text, side, place)


def _inside(text: str, span: Span, place: int) -> Iterator[Span]:
    r"""Yield the entries around the place inside brackets that are no argument of a command."""
    for part in _splits(text, span, _INNER):
        if part.start <= place < part.end and part != span:
            yield part
            span = part
    inner = span.of(text)
    stack: list[int] = []
    for offset, character in enumerate(inner):
        step = _OPEN.get(character, 0)
        if step > 0:
            stack.append(offset)
        elif step < 0:
            if not stack:
                return
            start = stack.pop()
            if not stack and span.start + start < place < span.start + offset:
                if not _is_container(inner, start):
                    return
                end = offset - 1 if inner[offset - 1] == "\\" else offset
                within = Span(span.start + start + 1, span.start + end)
                yield from _entries(text, within, place)
                return


def _entries(text: str, within: Span, place: int) -> Iterator[Span]:
    for part in _splits(text, within, _INNER):
        if part.start <= place < part.end:
            yield part
            yield from _inside(text, part, place)


def _is_container(text: str, start: int) -> bool:
    """Return whether the bracket holds entries, and is no argument of a command, a power, a factor or a function."""
    before = re.sub(r"\\left|\\", "", text[:start]).rstrip()
    if text[start] == "{" and not text[:start].endswith("\\"):
        return False
    return not before or before[-1] in "=,;({[<>"


def shape_of(text: str) -> str:  # noqa: PLR0911 - a table of shapes
    """Name the shape of a reference, for the table."""
    bare = text.strip().strip("$").strip()
    parts = statements(text)
    if re.search(r"\\begin\{[a-z]*(?:matrix|array)\}", bare):
        return "matrix"
    if re.search(r"(?<![\\A-Za-z{~])[a-z]{3,}", _COMMAND.sub(" ", bare)) or "\\text" in bare and len(bare) > 60:
        return "prose"
    if "%" in bare:
        return "percent"
    counts = [len(sides(text, part)) for part in parts]
    if len(parts) > 1:
        if all(count > 1 for count in counts):
            return "list of equations"
        if any(count > 1 for count in counts):
            return "mixed list"
        return "list of quantities" if UNIT.search(bare) else "list of values"
    if re.search(r"\\cup|\\infty", bare) or re.fullmatch(r"(?:\\left)?[(\[].*,.*[)\]]", bare):
        return "interval or tuple"
    if bare.startswith(("\\{", "\\left\\{", "\\left \\{")):
        return "set"
    if counts[0] > 1:
        return _shape_of_relation(bare, counts[0])
    if UNIT.search(bare) or "\\circ" in bare:
        return "quantity"
    if re.fullmatch(r"-?\s*[0-9][0-9,]*", bare):
        return "integer"
    if re.search(r"[A-Za-z]", _COMMAND.sub(" ", bare)):
        return "expression"
    return "number"


def _shape_of_relation(text: str, count: int) -> str:
    if "\\approx" in text or "≈" in text:
        return "approximation"
    if re.search(r"\\(?:leq?|geq?|lt|gt|neq?|leqslant|geqslant)(?![A-Za-z])|[<>]", text):
        return "inequality"
    return "equation" if count == 2 else "chain"
