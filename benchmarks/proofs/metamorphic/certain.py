r"""Whether an edit of a reference makes it wrong, for certain: by values, and never by the scorer's own word.

In: a reference's text, a span of it, and what is written there instead. Out: True only where the statement that holds
the span has another value at some point. A number changed in `0 \cdot 7` leaves the value alone, and so does one in
`2x = 0` the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from benchmarks.proofs.metamorphic import numeric
from benchmarks.proofs.metamorphic.structure import NAME, Span, atoms, depths, shape_of, sides, statements

# Texts that may say one thing twice, or say what is no value: leaving a part of them out need not be wrong.
_SAYS_TWICE: Final = re.compile(
    r"equivalent|i\.\s*e\.|that is|same as|or,|approx|≈|\\iff|\\Leftrightarrow|\\ldots|\\cdots|\\dots|\\therefore"
    r"|where|with|for|if|when|since|because|parameter|arbitrary|real|\\in(?![A-Za-z])|∈|\\begin|\\pm"
)
_OF_NUMBERS: Final = re.compile(r"\\(?:[dt]?frac|sqrt|pi|left|right|cdot|times)(?![A-Za-z])")


def is_changed(text: str, span: Span, new: str) -> bool:
    """Return whether another text for the span gives the statement that holds it another value."""
    for atom in atoms(text, span.start):
        if span.end > atom.end:
            return False
        after = span.replaced(text, new)[atom.start : atom.end + len(new) - (span.end - span.start)]
        differs = numeric.differ(atom.of(text), after)
        if differs is not None:
            return differs and says_otherwise(text, atom, after)
    return _stands_alone_in_prose(text, span)


def first_that_changes(text: str, edits: Iterable[tuple[Span, str]]) -> str | None:
    """Return the text after the first edit that changes it for certain."""
    return next((span.replaced(text, new) for span, new in edits if is_changed(text, span, new)), None)


def says_otherwise(text: str, side: Span, after: str) -> bool:
    """Return whether a side with another value changes what its relation says: `2x = 0` and `3x = 0` are one."""
    for statement in statements(text):
        parts = sides(text, statement)
        if side not in parts or len(parts) != 2:
            continue
        other = (parts[0] if parts[1] == side else parts[1]).of(text)
        if NAME.fullmatch(other):
            return True
        before = f"({side.of(text)})-({other})"
        is_product = not any(
            sign in "+-" and not depth
            for sign, depth in zip(side.of(text), depths(side.of(text)), strict=True)
        )
        if other == "0" and is_product:
            return False  # `x^2 = 0` and `x^3 = 0`
        return numeric.proportional(before, f"({after})-({other})") is False
    return True


def _stands_alone_in_prose(text: str, span: Span) -> bool:
    before, behind = text[: span.start].rstrip(" $"), text[span.end :].lstrip(" $")
    is_free = (not before or before[-1] in "=,(:" or before[-1].isalpha()) and (
        not behind or behind[0] in ",.):;" or behind[0].isalpha()
    )
    return shape_of(text) == "prose" and is_free and not re.search(r"\\[A-Za-z]+\Z", before)


def items(text: str) -> list[Span]:
    """Return the statements of a list in which each says something of its own; none of any other text."""
    parts = statements(text)
    is_joined = "$" in re.sub(r"^\s*\$|\$\s*$", "", text) or shape_of(text) in ("prose", "percent")
    if len(parts) < 2 or is_joined or _SAYS_TWICE.search(text):
        return []
    texts = [part.of(text) for part in parts]
    is_said_twice = any(
        one == other or numeric.differ(one, other) is False
        for place, one in enumerate(texts)
        for other in texts[:place]
    )
    return [] if is_said_twice else parts


def single(text: str) -> str | None:
    """Return the one value of a reference that is no more than an expression."""
    parts = statements(text)
    if len(parts) != 1 or len(sides(text, parts[0])) != 1 or numeric.values(parts[0].of(text)) is None:
        return None
    return None if "%" in text or shape_of(text) in ("prose", "matrix") else parts[0].of(text)


def single_number(text: str) -> str | None:
    """Return the same where it has neither letters nor a unit."""
    value = single(text)
    return None if value is None or re.search(r"[A-Za-z°']|\\\$", _OF_NUMBERS.sub("", value)) else value
