"""Wrong rewrites inside one value: a number, a sign, an exponent, a name, a function, a unit.

In: the text of a reference, and chance. Out: an answer that is wrong for certain, or None where a kind does not apply
or nothing shows that what it gives is wrong.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Final

from benchmarks.proofs.metamorphic import numeric
from benchmarks.proofs.metamorphic.certain import first_that_changes, says_otherwise, single
from benchmarks.proofs.metamorphic.structure import (
    NUMBER,
    UNIT,
    UNITS,
    Rewriter,
    Span,
    shape_of,
    sides,
    statements,
)

_ASIDE: Final = re.compile(r"[_\\&]\{?\s*\Z")  # before a digit that is an index or a row's end
_IN_UNIT: Final = re.compile(r"\\(?:mathrm|text|mbox)\{[^{}]*\}?\s*\Z")
_FRACTION: Final = re.compile(r"\\[dt]?frac\s*\{([^{}]+)\}\s*\{([^{}]+)\}")
_POWER: Final = re.compile(r"([0-9]+)\^\{?([0-9]+)\}?")
_LETTER: Final = re.compile(r"(?<![\\A-Za-z])[a-zA-Z](?![A-Za-z])")
_BOUND: Final = re.compile(r"\\(?:sum|int|prod|lim|math)|[A-Za-z]\(")
_FUNCTIONS: Final = {
    "\\sin": "\\cos", "\\cos": "\\sin", "\\tan": "\\cot", "\\ln": "\\exp", "\\arcsin": "\\arccos",
    "\\arctan": "\\arcsin", "\\sec": "\\csc", "\\csc": "\\sec", "\\sqrt": "\\cos", "\\cot": "\\tan",
}  # fmt: skip


def _numbers(text: str) -> list[Span]:
    found = NUMBER.finditer(text)
    return [Span(*one.span()) for one in found if not _ASIDE.search(text[: one.start()])]


def _other(digits: str, chance: random.Random) -> str:
    """Return another number that no rounding makes the first, and neither 0 nor 1."""
    first = chance.choice([digit for digit in "123456789" if digit != digits[0]])
    if "." in digits:
        whole, _, rest = digits.partition(".")
        return f"{int(whole or 0) + chance.choice((1, 2, 3))}.{rest}"
    if "," in digits or int(digits) >= 100:
        return f"{first}{digits[1:]}"
    other = int(digits) + chance.choice((1, 2, 3, 5, -1, -2))
    return str(other if other > 1 else int(digits) + 2)


def _with_another(text: str, places: list[Span], chance: random.Random) -> str | None:
    return first_that_changes(text, ((place, _other(place.of(text), chance)) for place in places))


def number(text: str, chance: random.Random) -> str | None:
    """Change one number, whichever."""
    places = _numbers(text)
    chance.shuffle(places)
    return _with_another(text, places, chance)


def first_number(text: str, chance: random.Random) -> str | None:
    """Change the first number."""
    return _with_another(text, _numbers(text)[:1], chance)


def last_number(text: str, chance: random.Random) -> str | None:
    """Change the last number."""
    return _with_another(text, _numbers(text)[-1:], chance)


def sign(text: str, chance: random.Random) -> str | None:
    """Turn one sign, or put one before a value that has none."""
    places = [Span(*one.span()) for one in re.finditer(r"[+-]", text)]
    places = [place for place in places if not _IN_UNIT.search(text[: place.start])]
    chance.shuffle(places)
    edits = ((place, "-" if place.of(text) == "+" else "+") for place in places)
    if (turned := first_that_changes(text, edits)) is not None:
        return turned
    for statement in statements(text):
        last = sides(text, statement)[-1]
        value = last.of(text)
        if re.match(r"\s*\\[pm][mp]", value):  # both signs, whichever comes first
            continue
        if numeric.differ(value, f"-({value})") and says_otherwise(text, last, f"-({value})"):
            is_sum = re.search(r"[+-]|\\[pm][mp]", value[1:])
            return last.replaced(text, f"-({value})" if is_sum else f"-{value}")
    return None


def exponent(text: str, chance: random.Random) -> str | None:
    """Change one exponent."""
    if re.search(r"=\s*0\b|\b0\s*=", text):
        return None
    found = [*re.finditer(r"\^\s*(?:\{\s*(-?\s*[0-9]+)\s*\}|([0-9]))", text)]
    chance.shuffle(found)
    edits = ((Span(*one.span()), f"^{{{int((one[1] or one[2]).replace(' ', '')) + 1}}}") for one in found)
    return first_that_changes(text, edits)


def swapped(text: str, chance: random.Random) -> str | None:
    """Turn a fraction over, or change the places of a base and its power."""
    edits = [(Span(*one.span()), f"\\frac{{{one[2]}}}{{{one[1]}}}") for one in _FRACTION.finditer(text)]
    edits += [(Span(*one.span()), f"{one[2]}^{{{one[1]}}}") for one in _POWER.finditer(text)]
    chance.shuffle(edits)
    return first_that_changes(text, edits)


def function(text: str, chance: random.Random) -> str | None:
    """Write another function for one."""
    found = [
        Span(*one.span()) for one in re.finditer(r"\\[a-z]+(?![A-Za-z\[])", text) if one[0] in _FUNCTIONS
    ]
    chance.shuffle(found)
    return first_that_changes(text, ((place, f"{_FUNCTIONS[place.of(text)]} ") for place in found))


def renamed(text: str, chance: random.Random) -> str | None:
    """Write another letter for a free variable of a single expression, wherever it stands."""
    if single(text) is None or UNIT.search(text) or _BOUND.search(text) or shape_of(text) != "expression":
        return None
    letters = _LETTER.findall(re.sub(r"\\[A-Za-z]+", lambda one: "\\" * len(one[0]), text))
    # Constants of integration and whole numbers may have any name, and a letter alone is a choice.
    names = sorted({letter for letter in letters if letter not in "eidcCkKnm"})
    if not names or not re.search(r"[0-9+\-^]", text):
        return None
    name = chance.choice(names)
    other = chance.choice([letter for letter in "xyztuvw" if letter not in letters])
    new = re.sub(rf"(?<![\\A-Za-z]){name}(?![A-Za-z])", other, text)
    return new if numeric.differ(text, new) else None


def unit(text: str, chance: random.Random) -> str | None:
    """Write another unit."""
    found = [one for one in UNIT.finditer(text) if one["word"].strip(" ~") in UNITS]
    if not found or shape_of(text) == "prose":
        return None
    one = chance.choice(found)
    word = one["word"].strip(" ~")
    if not re.search(r"[0-9})!a-z]\s*\Z", text[: one.start()]):
        return None
    start = one.start("word") + one["word"].index(word)
    return Span(start, start + len(word)).replaced(text, UNITS[word])


def transposed(text: str, chance: random.Random) -> str | None:
    """Write columns for the rows of a square matrix."""
    del chance
    found = re.search(r"(\\begin\{([pbv]matrix)\})(.*?)(\\end\{\2\})", text, re.DOTALL)
    if found is None:
        return None
    lines = re.split(r"\\\\(?:\[[^\]]*\])?", found[3])
    rows = [[entry.strip() for entry in line.split("&")] for line in lines if line.strip()]
    if {len(row) for row in rows} != {len(rows)}:
        return None
    columns = [*zip(*rows, strict=True)]
    if not any(map(numeric.differ, _flat(rows), _flat(columns))):
        return None
    body = " \\\\ ".join(" & ".join(column) for column in columns)
    return f"{text[: found.start()]}{found[1]}{body}{found[4]}{text[found.end() :]}"


def _flat(rows: list[list[str]] | list[tuple[str, ...]]) -> Iterator[str]:
    return (entry for row in rows for entry in row)


OF_VALUES: Final[dict[str, Rewriter]] = {
    "one number": number,
    "first number": first_number,
    "last number": last_number,
    "one sign": sign,
    "one exponent": exponent,
    "numbers swapped": swapped,
    "function": function,
    "variable renamed": renamed,
    "unit": unit,
    "transposed": transposed,
}
