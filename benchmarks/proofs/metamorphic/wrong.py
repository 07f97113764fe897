r"""Rewrites of a reference that make it wrong, each of one kind.

In: the text of a reference, and chance. Out: an answer that is wrong for certain, or None where a kind does not apply
or nothing shows that its result is wrong: a number changed in `0 \cdot 7` leaves the value alone. That two texts differ
in value is told by `numeric`, at a few points, and never by the scorer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks.proofs.metamorphic import numeric
from benchmarks.proofs.metamorphic.structure import (
    CONJUNCTION,
    NUMBER,
    RELATION,
    UNIT,
    Span,
    atoms,
    depths,
    relations,
    shape_of,
    sides,
    statements,
    trimmed,
)

Rewriter = Callable[[str, random.Random], str | None]

_NAME: Final = re.compile(r"(?:\\[A-Za-z]+|[A-Za-z])(?:_(?:\{[^{}]*\}|\w))?(?:'|\^\{\\prime\})*(?:\([^()]*\))?")
_ASIDE: Final = re.compile(r"[_\\&]\{?\s*\Z")  # before a digit that is an index or a row's end
_SAYS_TWICE: Final = re.compile(
    r"equivalent|i\.\s*e\.|that is|same as|or,|approx|≈|\\iff|\\Leftrightarrow|\\ldots|\\cdots|\\dots|\\therefore|where|with|for|if|when|since|because|parameter|arbitrary|real"
)
_FREE_OF_ORDER: Final = re.compile(r"^\s*(?:\\left)?\s*\\\{")
_TURNED: Final = {
    "<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\leq": "\\geq", "\\geq": "\\leq", "\\leqslant": "\\geqslant",
    "\\geqslant": "\\leqslant", "\\lt": "\\gt", "\\gt": "\\lt", "≤": "≥", "≥": "≤",
}  # fmt: skip
_STRICT: Final = {
    "<": "\\le ", ">": "\\ge ", "\\le": "<", "\\ge": ">", "\\leq": "<", "\\geq": ">", "\\leqslant": "<",
    "\\geqslant": ">", "\\lt": "\\le ", "\\gt": "\\ge ", "≤": "<", "≥": ">",
}  # fmt: skip
_UNITS: Final = {
    "cm": "m", "m": "cm", "km": "m", "ft": "in", "in": "ft", "feet": "inches", "inches": "feet", "mi": "km",
    "miles": "feet", "mph": "ft/s", "h": "min", "hr": "min", "hours": "minutes", "hour": "minute", "min": "hr",
    "minutes": "hours", "s": "min", "sec": "min", "seconds": "minutes", "days": "weeks", "years": "days",
    "weeks": "days", "kg": "g", "g": "kg", "lb": "oz", "N": "J", "J": "N", "m/s": "km/h", "L": "mL", "mL": "L",
    "gallons": "liters", "dollars": "cents", "cents": "dollars", "degrees": "radians", "units": "square units",
    "meters": "feet", "metres": "feet", "W": "J", "V": "A", "A": "V", "K": "m", "Hz": "s", "eV": "J", "mg": "g",
    "yd": "ft", "pounds": "ounces", "ohms": "volts", "mol": "kg", "M": "kg",
}  # fmt: skip
_FUNCTIONS: Final = {
    "\\sin": "\\cos", "\\cos": "\\sin", "\\tan": "\\cot", "\\ln": "\\exp", "\\arcsin": "\\arccos",
    "\\arctan": "\\arcsin", "\\sec": "\\csc", "\\csc": "\\sec", "\\cup": "\\cap", "\\sqrt": "\\cos", "\\cot": "\\tan",
}  # fmt: skip


def is_changed(text: str, span: Span, new: str) -> bool:
    """Return whether another text for the span gives the statement that holds it another value, for certain."""
    for atom in atoms(text, span.start):
        if span.end > atom.end:
            return False
        after = span.replaced(text, new)[atom.start : atom.end + len(new) - (span.end - span.start)]
        differs = numeric.differ(atom.of(text), after)
        if differs is None:
            continue
        return differs and _changes_relation(text, atom, after)
    return _stands_alone_in_prose(text, span)


def _changes_relation(text: str, side: Span, after: str) -> bool:
    """Return whether a side that is changed changes what its relation says: `2x = 0` and `3x = 0` are one."""
    for statement in statements(text):
        parts = sides(text, statement)
        if side not in parts or len(parts) != 2:
            continue
        other = parts[0] if parts[1] == side else parts[1]
        if _NAME.fullmatch(other.of(text)):
            return True
        is_same = numeric.proportional(
            f"({side.of(text)})-({other.of(text)})", f"({after})-({other.of(text)})"
        )
        return is_same is False and other.of(text) != "0"
    return True


def _stands_alone_in_prose(text: str, span: Span) -> bool:
    before, behind = text[: span.start].rstrip(" $"), text[span.end :].lstrip(" $")
    is_free = (not before or before[-1] in "=,(:" or before[-1].isalpha()) and (
        not behind or behind[0] in ",.):;" or behind[0].isalpha()
    )
    return shape_of(text) == "prose" and is_free and not re.search(r"\\[A-Za-z]+\Z", before)


def _numbers(text: str) -> Iterator[Span]:
    for found in NUMBER.finditer(text):
        if not _ASIDE.search(text[: found.start()]):
            yield Span(found.start(), found.end())


def _other_number(digits: str, chance: random.Random) -> str:
    """Return a number near the first, never 0 nor 1, in as many places."""
    if "," in digits:
        return f"{chance.choice([d for d in range(1, 10) if str(d) != digits[0]])}{digits[1:]}"
    if "." in digits:
        whole, _, rest = digits.partition(".")
        return f"{int(whole or 0) + chance.choice((1, 2, 3))}.{rest}"
    value = int(digits)
    other = value + chance.choice((1, 2, 3, 5, -1, -2)) if value < 100 else int(f"{chance.choice([d for d in range(1, 10) if str(d) != digits[0]])}{digits[1:]}")  # fmt: skip
    return str(other if other > 1 and other != value else value + 2)


def _first_that_changes(text: str, edits: Iterator[tuple[Span, str]]) -> str | None:
    return next((span.replaced(text, new) for span, new in edits if is_changed(text, span, new)), None)


def number(text: str, chance: random.Random) -> str | None:
    """Change one number, whichever."""
    places = [*_numbers(text)]
    chance.shuffle(places)
    return _first_that_changes(text, ((place, _other_number(place.of(text), chance)) for place in places))


def first_number(text: str, chance: random.Random) -> str | None:
    """Change the first number."""
    return _first_that_changes(
        text, ((place, _other_number(place.of(text), chance)) for place in [*_numbers(text)][:1])
    )


def last_number(text: str, chance: random.Random) -> str | None:
    """Change the last number."""
    return _first_that_changes(
        text, ((place, _other_number(place.of(text), chance)) for place in [*_numbers(text)][-1:])
    )


def sign(text: str, chance: random.Random) -> str | None:
    """Turn one sign, or put one before a value that has none."""
    places = [
        Span(found.start(), found.end())
        for found in re.finditer(r"[+-]", text)
        if not re.search(r"\\(?:mathrm|text|mbox)\{[^{}]*\}?\s*\Z", text[: found.start()])
    ]
    chance.shuffle(places)
    turned = _first_that_changes(text, ((place, "-" if place.of(text) == "+" else "+") for place in places))
    if turned is not None:
        return turned
    for statement in statements(text):
        last = sides(text, statement)[-1]
        old = last.of(text)
        if numeric.differ(old, f"-({old})") and _changes_relation(text, last, f"-({old})"):
            is_sum = re.search(r"[+-]|\\[pm][mp]", old[1:])
            return last.replaced(text, f"-({old})" if is_sum else f"-{old}")
    return None


def exponent(text: str, chance: random.Random) -> str | None:
    """Change one exponent."""
    found = [Span(*match.span(1)) for match in re.finditer(r"\^\s*\{?\s*(-?\s*[0-9]+)\s*\}?", text)]
    chance.shuffle(found)
    if re.search(r"=\s*0\b|\b0\s*=", text):
        return None
    edits = ((place, f"{{{int(re.sub(r' ', '', place.of(text))) + 1}}}" if text[place.start - 1] == "^" else str(int(place.of(text).replace(" ", "")) + 1)) for place in found)  # fmt: skip
    return _first_that_changes(text, edits)


def _values(text: str) -> list[Span] | None:
    """Return the statements of a list in which each says something of its own; None of a text that says things twice."""
    parts = statements(text)
    if len(parts) < 2 or _SAYS_TWICE.search(text) or re.search(r"\\in(?![A-Za-z])|\\begin|\\pm|∈", text):
        return None
    if shape_of(text) in ("prose", "percent") or "$" in re.sub(r"^\s*\$|\$\s*$", "", text):
        return None
    texts = [part.of(text) for part in parts]
    if any(texts[i] == texts[k] or numeric.differ(texts[i], texts[k]) is False for i in range(len(texts)) for k in range(i)):  # fmt: skip
        return None
    return parts


def drop(text: str, chance: random.Random) -> str | None:
    """Leave out one item of a list."""
    parts = _values(text)
    if parts is None:
        return None
    place = chance.randrange(len(parts))
    if place + 1 < len(parts):
        return text[: parts[place].start] + text[parts[place + 1].start :]
    return text[: parts[place - 1].end] + text[parts[place].end :]


def last_only(text: str, chance: random.Random) -> str | None:
    """Say the last statement alone."""
    del chance
    parts = _values(text)
    return None if parts is None else parts[-1].of(text)


def first_only(text: str, chance: random.Random) -> str | None:
    """Say the first statement alone."""
    del chance
    parts = _values(text)
    return None if parts is None else parts[0].of(text)


def _single(text: str) -> Span | None:
    """Return the one value of a reference that is no more than one expression."""
    parts = statements(text)
    if len(parts) != 1 or len(sides(text, parts[0])) != 1 or numeric.values(parts[0].of(text)) is None:
        return None
    return None if "%" in text or shape_of(text) in ("prose", "matrix") else parts[0]


def _is_number(text: str) -> bool:
    return _single(text) is not None and not re.search(
        r"[A-Za-z°']|\\\$", re.sub(r"\\(?:frac|dfrac|tfrac|sqrt|pi|left|right|cdot|times)(?![A-Za-z])", "", text)
    )


def add(text: str, chance: random.Random) -> str | None:
    """Add an item to a list, or a second value to one."""
    parts = _values(text) or ([one] if (one := _single(text)) is not None else None)
    if parts is None or UNIT.search(text):
        return None
    model = parts[-1].of(text)
    other = number(model, chance)
    if other is None or any(numeric.differ(other, part.of(text)) is False or other == part.of(text) for part in parts):
        return None
    return Span(parts[-1].end, parts[-1].end).replaced(text, f", {other}")


def repeat(text: str, chance: random.Random) -> str | None:
    """Say one item of a list twice, in the place of another one."""
    parts = _values(text)
    if parts is None:
        return None
    one, other = chance.sample(parts, 2)
    return one.replaced(text, other.of(text))


def _signs(text: str) -> list[Span]:
    return [Span(found.start(), found.end()) for found in RELATION.finditer(text)]


def turned(text: str, chance: random.Random) -> str | None:
    """Turn one relation round."""
    return _other_sign(text, chance, _TURNED)


def strictness(text: str, chance: random.Random) -> str | None:
    r"""Write `<` for `\le`, or the reverse."""
    return _other_sign(text, chance, _STRICT)


def _other_sign(text: str, chance: random.Random, table: dict[str, str]) -> str | None:
    signs = [sign for sign in _signs(text) if sign.of(text) in table]
    if not signs or "\\langle" in text or shape_of(text) == "prose" or re.search(r"parameter|\bif\b|\\infty", text):
        return None
    one = chance.choice(signs)
    return one.replaced(text, table[one.of(text)])


def left_side(text: str, chance: random.Random) -> str | None:
    """Change the left side of an equation that is no bare name: a number in it, or a value beside it."""
    return _changed_side(text, chance, 0)


def right_side(text: str, chance: random.Random) -> str | None:
    """Add to the right side of an equation."""
    return _changed_side(text, chance, -1)


def _changed_side(text: str, chance: random.Random, which: int) -> str | None:
    parts = [part for part in statements(text) if len(sides(text, part)) == 2 and "\\in" not in part.of(text)]
    if not parts or shape_of(text) in ("prose", "matrix"):
        return None
    side = sides(text, chance.choice(parts))[which]
    old = side.of(text)
    if which == 0 and (_NAME.fullmatch(old) or numeric.values(old) is None):
        return None
    if numeric.values(old) is None or UNIT.search(old):
        return None
    new = f"{old}+{chance.randrange(2, 9)}"
    return side.replaced(text, new) if numeric.differ(old, new) else None


def unit(text: str, chance: random.Random) -> str | None:
    """Write another unit."""
    found = [match for match in UNIT.finditer(text) if match["word"].strip(" ~") in _UNITS]
    if not found or shape_of(text) == "prose":
        return None
    one = chance.choice(found)
    word = one["word"].strip(" ~")
    if not re.search(r"[0-9})!a-z]\s*\Z", text[: one.start()]):
        return None
    start = one.start("word") + one["word"].index(word)
    return Span(start, start + len(word)).replaced(text, _UNITS[word])


def bracket(text: str, chance: random.Random) -> str | None:
    """Open one end of an interval that is closed, or close one that is open."""
    if not re.search(r"\\infty|\\cup|\[", text) or re.search(r"\\begin|\\sqrt\[|\\frac|\\lfloor|\\\[", text) or shape_of(text) == "prose":
        return None
    pairs = [*re.finditer(r"([(\[])\s*([^()\[\]]+?),\s*([^()\[\],]+?)\s*([)\]])", re.sub(r"\\left|\\right", lambda m: " " * len(m[0]), text))]  # fmt: skip
    pairs = [pair for pair in pairs if not re.search(r"[a-zA-Z}]\s*\Z", re.sub(r"\\[a-z]+\s*\Z|\\left\s*\Z|\\in\s*\Z|\\cup\s*\Z", "", text[: pair.start()]))]  # fmt: skip
    if not pairs:
        return None
    one = chance.choice(pairs)
    place = chance.choice((1, 4))
    swapped = {"(": "[", "[": "(", ")": "]", "]": ")"}[one[place]]
    return Span(*one.span(place)).replaced(text, swapped)


def renamed(text: str, chance: random.Random) -> str | None:
    """Write another letter for a free variable of a single expression, wherever it stands."""
    one = _single(text)
    if one is None or UNIT.search(text):
        return None
    letters = re.findall(r"(?<![\\A-Za-z])[a-zA-Z](?![A-Za-z])", re.sub(r"\\[A-Za-z]+", lambda m: "\\" * len(m[0]), text))
    names = sorted({letter for letter in letters if letter not in "eidcCkKnm"})
    if not names or re.search(r"\\(?:sum|int|prod|lim|math)|[A-Za-z]\(", text) or shape_of(text) not in ("expression",):
        return None
    if not re.search(r"[0-9+\-^]", text):  # one letter alone is a choice
        return None
    name = chance.choice(names)
    other = chance.choice([letter for letter in "xyztuvw" if letter not in letters])
    new = re.sub(rf"(?<![\\A-Za-z]){name}(?![A-Za-z])", other, text)
    return new if numeric.differ(text, new) else None


def swapped(text: str, chance: random.Random) -> str | None:
    """Change the places of two entries where their order matters: of a pair, of a fraction, of a power."""
    edits = []
    for found in re.finditer(r"\\[dt]?frac\s*\{([^{}]+)\}\s*\{([^{}]+)\}", text):
        edits.append((Span(*found.span()), f"\\frac{{{found[2]}}}{{{found[1]}}}"))
    for found in re.finditer(r"([0-9]+)\^\{?([0-9]+)\}?", text):
        edits.append((Span(*found.span()), f"{found[2]}^{{{found[1]}}}"))
    chance.shuffle(edits)
    return _first_that_changes(text, iter(edits))


def pair_swapped(text: str, chance: random.Random) -> str | None:
    """Change the places of two entries of a tuple."""
    bare = text.strip().strip("$").strip()
    found = re.fullmatch(r"((?:.*=)?\s*(?:\\left\s*)?\()([^()=]+|(?:[^()=]|\([^()]*\))+?)((?:\\right\s*)?\)\.?)", bare)
    if found is None or "infty" in bare or "\\text" in found[2] or "\\cup" in bare:
        return None
    entries = [span.of(found[2]) for span in statements(found[2])]
    if len(entries) < 2 or (found[1].count("(") > 1 and "=" not in found[1]):
        return None
    one, other = sorted(chance.sample(range(len(entries)), 2))
    if not numeric.differ(entries[one], entries[other]):
        return None
    entries[one], entries[other] = entries[other], entries[one]
    return f"{found[1]}{', '.join(entries)}{found[3]}"


def _named(text: str) -> list[tuple[Span, Span]]:
    """Return names and values of a list of named values."""
    pairs = [sides(text, part) for part in statements(text)]
    signs = [relations(text, part) for part in statements(text)]
    if not all(len(pair) == 2 and _NAME.fullmatch(pair[0].of(text)) for pair in pairs):
        return []
    if not all(len(one) == 1 and one[0].of(text) == "=" for one in signs):
        return []
    return [(pair[0], pair[1]) for pair in pairs]


def values_swapped(text: str, chance: random.Random) -> str | None:
    """Give two names each other's value."""
    named = _named(text) if _values(text) is not None else []
    if len(named) < 2 or len({name.of(text) for name, _ in named}) < len(named):
        return None
    (_, one), (_, other) = sorted(chance.sample(named, 2))
    if numeric.differ(one.of(text), other.of(text)) is not True:
        return None
    return one.replaced(other.replaced(text, one.of(text)), other.of(text))


def other_name(text: str, chance: random.Random) -> str | None:
    """Say the value of another name."""
    named = _named(text)
    if not named or shape_of(text) in ("prose", "matrix"):
        return None
    name, value = chance.choice(named)
    letter = name.of(text)
    if not re.fullmatch(r"[A-Za-z]", letter) or re.search(rf"(?<![\\A-Za-z]){letter}(?![A-Za-z])", value.of(text)):
        return None
    taken = re.findall(r"[A-Za-z]", text)
    if re.search(r"[a-zA-Z]", re.sub(r"\\[a-z]+", "", value.of(text))):
        return None  # y = 2x and f(x) = 2x are one rule
    free = [one for one in "xyztuwabpq" if one not in taken]
    return name.replaced(text, chance.choice(free))


def negated(text: str, chance: random.Random) -> str | None:
    """Take the answer back."""
    if shape_of(text) in ("prose",):
        return None
    bare = text.strip().strip("$").strip().rstrip(".")
    return chance.choice((f"\\text{{not }} {bare}", f"{bare} \\text{{ is wrong}}", f"\\neq {bare}"))


def function(text: str, chance: random.Random) -> str | None:
    """Write another function for one."""
    found = [Span(*match.span()) for match in re.finditer(r"\\[a-z]+(?![A-Za-z])", text) if match[0] in _FUNCTIONS and match[0] != "\\cup"]
    chance.shuffle(found)
    return _first_that_changes(text, ((place, _FUNCTIONS[place.of(text)] + " ") for place in found if not text[place.end:].startswith("[")))


def hedged(text: str, chance: random.Random) -> str | None:
    """Offer two values for one."""
    one = _single(text)
    other = None if one is None else number(one.of(text), chance)
    if one is None or other is None or UNIT.search(text):
        return None
    joined = chance.choice((" \\text{ or } ", "\\quad ", "; ", " \\text{ and } "))
    first, second = (one.of(text), other) if chance.random() < 0.5 else (other, one.of(text))
    return f"{first}{joined}{second}"


def derivative(text: str, chance: random.Random) -> str | None:
    """Add a derivative to a value."""
    one = _single(text)
    return None if one is None or UNIT.search(text) else f"{one.of(text)}+\\frac{{d{chance.choice('xyV')}}}{{dt}}"


def ellipsis(text: str, chance: random.Random) -> str | None:
    """Leave a whole number open."""
    bare = text.strip().strip("$").strip()
    return bare + chance.choice(("\\ldots", "\\cdots", "...", "\\dots")) if re.fullmatch(r"-?[0-9]+", bare) else None


def approximated(text: str, chance: random.Random) -> str | None:
    """Say of an exact value that it is about another one."""
    if not _is_number(text):
        return None
    other = f"{chance.randrange(100, 999)}.{chance.randrange(1, 9)}"
    if not numeric.differ(text, other):
        return None
    return f"{text.strip().strip('$')} \\approx {other}"


def echoed(text: str, chance: random.Random) -> str | None:
    """Say an equation whose right side is the value: it is not solved."""
    one = _single(text)
    if one is None or UNIT.search(text):
        return None
    if _is_number(text):
        return chance.choice((f"x+1={one.of(text)}", f"2x={one.of(text)}", f"x^2-3={one.of(text)}"))
    value = f"{chance.randrange(2, 99)}"
    return f"{value}={one.of(text)}" if shape_of(text) == "expression" and re.search(r"[0-9+^]", text) else None


def false_equation(text: str, chance: random.Random) -> str | None:
    """Say that the value equals another number."""
    one = _single(text)
    if one is None or not _is_number(text):
        return None
    other = number(one.of(text), chance)
    if other is None:
        return None
    return chance.choice((f"{other}={one.of(text)}", f"{one.of(text)}={other}"))


def multiplied(text: str, chance: random.Random) -> str | None:
    """Scale a number by a word, a power of ten, or a percent sign."""
    one = _single(text)
    if one is None or not _is_number(text) or numeric.differ(one.of(text), "0") is not True:
        return None
    return one.of(text) + chance.choice(("\\text{ dozen}", "\\text{ thousand}", " \\times 10^3", "\\%", "\\text{ hundred}"))


def ratio(text: str, chance: random.Random) -> str | None:
    """Change one part of a ratio."""
    found = re.fullmatch(r"\s*\$?\s*([0-9]+)\s*((?::\s*[0-9]+\s*)+)\$?\s*", text)
    if found is None:
        return None
    parts = [int(part) for part in re.findall(r"[0-9]+", text)]
    place = chance.randrange(len(parts))
    changed = [*parts]
    changed[place] += 1
    if all(one * parts[0] == parts_one * changed[0] for one, parts_one in zip(changed, parts, strict=True)):
        return None
    return ":".join(map(str, changed))


def transposed(text: str, chance: random.Random) -> str | None:
    """Write columns for the rows of a square matrix."""
    del chance
    found = re.search(r"(\\begin\{([pbv]matrix)\})(.*?)(\\end\{\2\})", text, re.DOTALL)
    if found is None:
        return None
    rows = [[entry.strip() for entry in row.split("&")] for row in re.split(r"\\\\(?:\[[^\]]*\])?", found[3]) if row.strip()]
    if len({len(row) for row in rows}) != 1 or len(rows) != len(rows[0]) or len(rows) < 2:
        return None
    columns = [*map(list, zip(*rows, strict=True))]
    if not any(numeric.differ(a, b) for x, y in zip(rows, columns, strict=True) for a, b in zip(x, y, strict=True)):
        return None
    body = " \\\\ ".join(" & ".join(row) for row in columns)
    return text[: found.start()] + found[1] + body + found[4] + text[found.end() :]


WRONG: Final[dict[str, Rewriter]] = {
    "one number": number,
    "first number": first_number,
    "last number": last_number,
    "one sign": sign,
    "one exponent": exponent,
    "item dropped": drop,
    "item added": add,
    "item repeated": repeat,
    "first only": first_only,
    "last only": last_only,
    "relation turned": turned,
    "strictness": strictness,
    "left side": left_side,
    "right side": right_side,
    "unit": unit,
    "bracket": bracket,
    "variable renamed": renamed,
    "numbers swapped": swapped,
    "entries swapped": pair_swapped,
    "values swapped": values_swapped,
    "another name": other_name,
    "negated": negated,
    "function": function,
    "two offered": hedged,
    "derivative added": derivative,
    "left open": ellipsis,
    "approximated": approximated,
    "unsolved": echoed,
    "false equation": false_equation,
    "multiplied": multiplied,
    "ratio": ratio,
    "transposed": transposed,
}
