"""Wrong rewrites of what is stated: items of lists, relations and their sides, names, order, doubts.

In: the text of a reference, and chance. Out: an answer that is wrong for certain, or None where a kind does not apply
or nothing shows that what it gives is wrong.
"""

from __future__ import annotations

import random
import re
from typing import Final

from benchmarks.proofs.metamorphic import numeric
from benchmarks.proofs.metamorphic.certain import items, single, single_number
from benchmarks.proofs.metamorphic.structure import (
    NAME,
    RELATION,
    UNIT,
    Rewriter,
    Span,
    bare_of,
    relations,
    shape_of,
    sides,
    statements,
)
from benchmarks.proofs.metamorphic.wrong_values import number

_TURNED: Final = {
    "<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\leq": "\\geq", "\\geq": "\\leq", "\\leqslant": "\\geqslant",
    "\\geqslant": "\\leqslant", "\\lt": "\\gt", "\\gt": "\\lt", "≤": "≥", "≥": "≤",
}  # fmt: skip
_STRICT: Final = {
    "<": "\\le ", ">": "\\ge ", "\\le": "<", "\\ge": ">", "\\leq": "<", "\\geq": ">", "\\leqslant": "<",
    "\\geqslant": ">", "\\lt": "\\le ", "\\gt": "\\ge ", "≤": "<", "≥": ">",
}  # fmt: skip
_PAIR: Final = re.compile(r"([(\[])\s*([^()\[\]]+?),\s*([^()\[\],]+?)\s*([)\]])")
_NO_INTERVAL: Final = re.compile(r"\\begin|\\sqrt\[|\\frac|\\lfloor|\\\[")
_TUPLE: Final = re.compile(r"((?:.*=)?\s*(?:\\left\s*)?\()((?:[^()=]|\([^()]*\))+?)((?:\\right\s*)?\)\.?)")
_SET_OF_TWO: Final = re.compile(r"(?:\\left)?\s*\\\{([^{},|=<>\\]+),([^{},|=<>\\]+)(?:\\right)?\s*\\\}")
_OTHERWISE: Final = {
    "\\cup": "\\cap", "\\cap": "\\cup", "\\mathbb{Z}": "\\mathbb{R}", "\\mathbb{R}": "\\mathbb{Q}",
    "\\mathbb{N}": "\\mathbb{R}", "\\pm": "+", "\\mp": "-",
}  # fmt: skip
_OPPOSITES: Final = {
    one: other
    for pair in (
        "maximum minimum", "increasing decreasing", "up down", "converges diverges", "convergent divergent",
        "even odd", "true false", "Yes No", "yes no",
        "consistent inconsistent", "independent dependent", "AM PM", "north south",
    )
    for one, other in (pair.split(), reversed(pair.split()))
}  # fmt: skip
_SCALES: Final = (
    "\\text{ dozen}", "\\text{ hundred}", "\\text{ thousand}", "\\text{ score}", "\\text{k}", "\\text{ bn}",
    "\\text{ million}", "\\text{ squared}", "\\text{ factorial}", "\\text{ times } 3", " \\times 10^3", "\\%",
)  # fmt: skip
_RATIO: Final = re.compile(r"\s*\$?\s*[0-9]+\s*(?::\s*[0-9]+\s*)+\$?\s*")


def drop(text: str, chance: random.Random) -> str | None:
    """Leave out one item of a list."""
    if not (parts := items(text)):
        return None
    place = chance.randrange(len(parts))
    if place + 1 < len(parts):
        return text[: parts[place].start] + text[parts[place + 1].start :]
    return text[: parts[place - 1].end] + text[parts[place].end :]


def last_only(text: str, chance: random.Random) -> str | None:
    """Say the last statement alone."""
    del chance
    parts = items(text)
    return parts[-1].of(text) if parts else None


def first_only(text: str, chance: random.Random) -> str | None:
    """Say the first statement alone."""
    del chance
    parts = items(text)
    return parts[0].of(text) if parts else None


def add(text: str, chance: random.Random) -> str | None:
    """Add an item to a list, or a second value to one."""
    parts = items(text) or (statements(text) if single(text) is not None else [])
    other = number(parts[-1].of(text), chance) if parts and not UNIT.search(text) else None
    if other is None:
        return None
    if any(other == part.of(text) or numeric.differ(other, part.of(text)) is False for part in parts):
        return None
    return Span(parts[-1].end, parts[-1].end).replaced(text, f", {other}")


def repeat(text: str, chance: random.Random) -> str | None:
    """Say one item of a list twice, in the place of another one."""
    if not (parts := items(text)):
        return None
    one, other = chance.sample(parts, 2)
    return one.replaced(text, other.of(text))


def turned(text: str, chance: random.Random) -> str | None:
    """Turn one relation round."""
    return _with_sign(text, chance, _TURNED)


def strictness(text: str, chance: random.Random) -> str | None:
    r"""Write `<` for `\le`, or the reverse."""
    return _with_sign(text, chance, _STRICT)


def _with_sign(text: str, chance: random.Random, table: dict[str, str]) -> str | None:
    signs = [Span(*one.span()) for one in RELATION.finditer(text) if one[0] in table]
    is_remark = (
        "\\langle" in text or shape_of(text) == "prose" or re.search(r"parameter|\bif\b|\\infty", text)
    )
    if not signs or is_remark:
        return None
    one = chance.choice(signs)
    return one.replaced(text, table[one.of(text)])


def left_side(text: str, chance: random.Random) -> str | None:
    """Add to the left side of an equation, where it is no bare name."""
    return _with_side(text, chance, 0)


def right_side(text: str, chance: random.Random) -> str | None:
    """Add to the right side of an equation."""
    return _with_side(text, chance, -1)


def _with_side(text: str, chance: random.Random, which: int) -> str | None:
    if shape_of(text) in ("prose", "matrix"):
        return None
    parts = [part for part in statements(text) if len(sides(text, part)) == 2 and "\\in" not in part.of(text)]
    if not parts:
        return None
    side = sides(text, chance.choice(parts))[which]
    old = side.of(text)
    new = f"{old}+{chance.randrange(2, 9)}"
    if UNIT.search(old) or (which == 0 and NAME.fullmatch(old)) or not numeric.differ(old, new):
        return None
    return side.replaced(text, new)


def bracket(text: str, chance: random.Random) -> str | None:
    """Open one end of an interval that is closed, or close one that is open."""
    is_interval = re.search(r"\\infty|\\cup|\[", text) and not _NO_INTERVAL.search(text)
    if not is_interval or shape_of(text) == "prose":
        return None
    bare = re.sub(r"\\left|\\right|\\in(?![a-z])|\\cup", lambda one: " " * len(one[0]), text)
    pairs = [pair for pair in _PAIR.finditer(bare) if not re.search(r"[a-zA-Z}]\s*\Z", bare[: pair.start()])]
    if not pairs:
        return None
    pair, which = chance.choice(pairs), chance.choice((1, 4))
    other = {"(": "[", "[": "(", ")": "]", "]": ")"}[pair[which]]
    return Span(*pair.span(which)).replaced(text, other)


def entries_swapped(text: str, chance: random.Random) -> str | None:
    """Change the places of two entries of a tuple."""
    bare = text.strip().strip("$").strip()
    found = _TUPLE.fullmatch(bare)
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
    """Return the names and values of a list of named values; none of any other text."""
    found = []
    for part in statements(text):
        pair = sides(text, part)
        signs = [sign.of(text) for sign in relations(text, part)]
        if len(pair) != 2 or signs != ["="] or not NAME.fullmatch(pair[0].of(text)):
            return []
        found.append((pair[0], pair[1]))
    return found


def values_swapped(text: str, chance: random.Random) -> str | None:
    """Give two names each other's value."""
    named = _named(text) if items(text) else []
    if len(named) < 2 or len({name.of(text) for name, _ in named}) < len(named):
        return None
    (_, one), (_, other) = sorted(chance.sample(named, 2))
    if not numeric.differ(one.of(text), other.of(text)):
        return None
    return one.replaced(other.replaced(text, one.of(text)), other.of(text))


def other_name(text: str, chance: random.Random) -> str | None:
    """Say another name's value."""
    named = _named(text)
    if not named or shape_of(text) in ("prose", "matrix"):
        return None
    name, value = chance.choice(named)
    # `y = 2x` and `f(x) = 2x` are one rule, and `a` has any name in it.
    is_rule = re.search(r"[a-zA-Z]", re.sub(r"\\[a-z]+", "", value.of(text)))
    if is_rule or not re.fullmatch(r"[A-Za-z]", name.of(text)):
        return None
    return name.replaced(text, chance.choice([one for one in "xyztuwabpq" if one not in text]))


def negated(text: str, chance: random.Random) -> str | None:
    """Take the answer back."""
    if shape_of(text) == "prose":
        return None
    bare = text.strip().strip("$").strip().rstrip(".")
    return chance.choice((f"\\text{{not }} {bare}", f"{bare} \\text{{ is wrong}}", f"\\neq {bare}"))


def hedged(text: str, chance: random.Random) -> str | None:
    """Offer two values for one."""
    one = single(text)
    other = None if one is None or UNIT.search(text) else number(one, chance)
    if one is None or other is None:
        return None
    pair = [one, other]
    chance.shuffle(pair)
    return chance.choice((" \\text{ or } ", "\\quad ", "; ", " \\text{ and } ")).join(pair)


def derivative(text: str, chance: random.Random) -> str | None:
    """Add a derivative to a value, or take that of an expression."""
    one = single(text)
    if one is None or UNIT.search(text):
        return None
    ways = ["%s+\\frac{dx}{dt}", "%s+\\frac{dy}{dx}", "%s-\\frac{dV}{dt}", "%s+y'"]
    if single_number(text) is None and "^" in one and "e" not in one:
        ways += ["(%s)'", "\\frac{d}{dx}(%s)"]
    return chance.choice(ways) % one


def ellipsis(text: str, chance: random.Random) -> str | None:
    """Leave a whole number open."""
    bare = text.strip().strip("$").strip()
    return (
        bare + chance.choice(("\\ldots", "\\cdots", "...", "\\dots"))
        if re.fullmatch(r"-?[0-9]+", bare)
        else None
    )


def approximated(text: str, chance: random.Random) -> str | None:
    """Say of an exact value that it is about another one."""
    one = single_number(text)
    other = f"{chance.randrange(100, 999)}.{chance.randrange(1, 9)}"
    return f"{one} \\approx {other}" if one is not None and numeric.differ(one, other) else None


def unsolved(text: str, chance: random.Random) -> str | None:
    """Say an equation whose right side is the value."""
    if (one := single_number(text)) is not None:
        return f"{chance.choice(('x+1', '2x', 'x^2-3'))}={one}"
    is_sum = shape_of(text) == "expression" and re.search(r"[0-9+^]", text)
    return f"{chance.randrange(2, 99)}={single(text)}" if is_sum and single(text) else None


def false_equation(text: str, chance: random.Random) -> str | None:
    """Say that the value equals another number."""
    one = single_number(text)
    other = None if one is None else number(one, chance)
    return None if other is None else chance.choice((f"{other}={one}", f"{one}={other}"))


def multiplied(text: str, chance: random.Random) -> str | None:
    """Scale a number by a word, a power of ten, or a percent sign."""
    one = single_number(text)
    # 1 is its own square, and 2 its own factorial.
    if one is None or not all(numeric.differ(one, small) for small in ("0", "1", "2")):
        return None
    return one + chance.choice(_SCALES)


def ratio(text: str, chance: random.Random) -> str | None:
    """Change one part of a ratio."""
    if _RATIO.fullmatch(text) is None:
        return None
    parts = [int(part) for part in re.findall(r"[0-9]+", text)]
    parts[chance.randrange(len(parts))] += 1
    return ":".join(map(str, parts))


def otherwise(text: str, chance: random.Random) -> str | None:
    """Write another sign between sets, another domain, or one of two signs."""
    found = [
        one for one in re.finditer(r"\\mathbb\{[A-Z]\}|\\[a-z]+(?![A-Za-z])", text) if one[0] in _OTHERWISE
    ]
    if not found:
        return None
    one = chance.choice(found)
    return Span(*one.span()).replaced(text, f"{_OTHERWISE[one[0]]} ")


def opposite(text: str, chance: random.Random) -> str | None:
    """Write the opposite of a word."""
    found = [one for one in re.finditer(r"(?<![\\A-Za-z])[A-Za-z]+", text) if one[0] in _OPPOSITES]
    if not found:
        return None
    one = chance.choice(found)
    return Span(*one.span()).replaced(text, _OPPOSITES[one[0]])


def set_as_interval(text: str, chance: random.Random) -> str | None:
    """Write an interval for a set of two numbers."""
    found = _SET_OF_TWO.fullmatch(bare_of(text) or "")
    brackets = chance.choice(("[]", "()", "[)"))
    return None if found is None else f"{brackets[0]}{found[1]},{found[2]}{brackets[1]}"


OF_STATEMENTS: Final[dict[str, Rewriter]] = {
    "item dropped": drop,
    "item added": add,
    "item repeated": repeat,
    "first only": first_only,
    "last only": last_only,
    "relation turned": turned,
    "strictness": strictness,
    "left side": left_side,
    "right side": right_side,
    "bracket": bracket,
    "entries swapped": entries_swapped,
    "values swapped": values_swapped,
    "another name": other_name,
    "negated": negated,
    "two offered": hedged,
    "derivative added": derivative,
    "left open": ellipsis,
    "approximated": approximated,
    "unsolved": unsolved,
    "false equation": false_equation,
    "multiplied": multiplied,
    "ratio": ratio,
    "another sign": otherwise,
    "opposite": opposite,
    "set as interval": set_as_interval,
}
