"""Right rewrites that say the same in another order or form: lists, sides, sums, fractions, names.

In: the text of a reference, and chance. Out: another form of the same, or None where a kind does not apply or exact
arithmetic and values at a few points don't show that it is the same.
"""

from __future__ import annotations

import random
import re
from fractions import Fraction
from itertools import pairwise
from typing import Final

from benchmarks.proofs.metamorphic import numeric
from benchmarks.proofs.metamorphic.right_spelling import changed
from benchmarks.proofs.metamorphic.structure import (
    NAME,
    UNIT,
    UNITS,
    Rewriter,
    bare_of,
    depths,
    relations,
    shape_of,
    sides,
    statements,
)

_SAME: Final = 1e-9  # relative difference of two values that are one, but for rounding
_FRACTION: Final = re.compile(r"(-?)\s*\\[dt]?frac\s*\{\s*([0-9]+)\s*\}\s*\{\s*([1-9][0-9]*)\s*\}")
_SET: Final = re.compile(r"(\s*\$?\s*(?:\\left)?\s*\\\{)([^|:=<>{}]+)((?:\\right)?\s*\\\}\s*\$?\s*)")
_PLAIN: Final = re.compile(r"(?:[0-9a-z+\- ]|\^\{[0-9]+\}|\^[0-9]|\\pi(?![A-Za-z]))+")
_IN_WORDS: Final = re.compile(r"\\(?:text|mathrm|mbox|quad|qquad|[lc]?dots|mid|in)(?![A-Za-z])|\n|\.\.\.|\$")
_MIRRORED: Final = {
    "<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\leq": "\\geq", "\\geq": "\\leq", "\\lt": "\\gt",
    "\\gt": "\\lt", "=": "=", "\\ne": "\\ne", "\\neq": "\\neq", "\\leqslant": "\\geqslant", "\\geqslant": "\\leqslant",
}  # fmt: skip


def reordered(text: str, chance: random.Random) -> str | None:
    """Say the items of a list of values, of named values, or of a set, in another order."""
    if _IN_WORDS.search(text) or "\\langle" in text:
        return None
    if (found := _SET.fullmatch(text)) is not None:
        entries = [span.of(found[2]) for span in statements(found[2])]
        chance.shuffle(entries)
        return changed(f"{found[1]}{', '.join(entries)}{found[3]}", text)
    if not _is_free_of_order(text):
        return None
    parts = statements(text)
    separator = text[parts[0].end : parts[1].start]
    texts = [part.of(text) for part in parts]
    chance.shuffle(texts)
    return None if "and" in separator or "or" in separator else changed(separator.join(texts), text)


def _is_free_of_order(text: str) -> bool:
    """Return whether a text is a list of values, or of equations that each have a name on the left."""
    if shape_of(text) == "list of values":
        return "\\{" not in text and "[" not in text
    pairs = [sides(text, part) for part in statements(text)]
    are_named = all(len(pair) == 2 and NAME.fullmatch(pair[0].of(text)) for pair in pairs)
    return shape_of(text) == "list of equations" and are_named


def separator(text: str, chance: random.Random) -> str | None:
    """Join the items of a list by `and`, `or`, a semicolon or a space, for a comma."""
    shape = shape_of(text)
    if shape not in ("list of values", "list of equations") or _IN_WORDS.search(text):
        return None
    texts = [part.of(text) for part in statements(text)]
    ways = [" \\text{ and } ", "; ", ", \\quad ", ",\\ "]
    if shape == "list of values":
        ways.append(" \\text{ or } ")
    way = chance.choice(ways)
    if "text" in way:
        return f"{', '.join(texts[:-1])}{way}{texts[-1]}"
    return changed(way.join(texts), text)


def sides_swapped(text: str, chance: random.Random) -> str | None:
    """Write an equation, or a chain of inequalities, from right to left."""
    del chance
    parts = statements(text)
    if len(parts) != 1 or re.search(r"\$|\\text|\\mathrm|\\begin", text) or shape_of(text) == "prose":
        return None
    signs = [sign.of(text) for sign in relations(text, parts[0])]
    values = [side.of(text) for side in sides(text, parts[0])]
    is_known = signs and all(sign in _MIRRORED for sign in signs) and all(values)
    # What defines a function has it on the left, and of a chain of equations the last side is the answer.
    if not is_known or (len(signs) > 1 and "=" in signs) or re.fullmatch(r"[A-Za-z]\(.*", values[0]):
        return None
    turned = values[-1]
    for sign, value in zip(reversed(signs), reversed(values[:-1]), strict=True):
        turned += f" {_MIRRORED[sign]} {value}"
    return turned


def _terms(text: str) -> list[str]:
    """Return the terms of a plain sum with their signs; none of any other text."""
    if re.search(r"\\(?:sum|int|prod|lim|pm|mp)", text) or numeric.values(text) is None:
        return []
    level = depths(text)
    edges = [0]
    for found in re.finditer(r"[+-]", text):
        before = text[: found.start()].rstrip()
        if before and level[found.start()] == 0 and not re.search(r"[\^_*/+(-]\Z|\\[a-z]+\Z", before):
            edges.append(found.start())
    terms = [text[start:end].strip() for start, end in pairwise([*edges, len(text)])]
    return [term if term[0] in "+-" else f"+{term}" for term in terms]


def commuted(text: str, chance: random.Random) -> str | None:
    """Write the terms of a sum in another order."""
    del chance
    parts = statements(text)
    if len(parts) != 1 or "$" in text or UNIT.search(text) or "\\circ" in text:
        return None
    last = sides(text, parts[0])[-1]
    terms = _terms(last.of(text))
    new = "".join(terms[1:] + terms[:1]).removeprefix("+")
    if len(terms) < 2 or numeric.differ(last.of(text), new, at_least=_SAME) is not False:
        return None
    return changed(last.replaced(text, new), text)


def as_decimal(text: str, chance: random.Random) -> str | None:
    """Write a fraction that has a short exact decimal so, or a decimal as a fraction."""
    bare = bare_of(text) or ""
    if (found := _FRACTION.fullmatch(bare)) is not None:
        value = Fraction(int(found[2]), int(found[3]))
        written = repr(float(value))
        return f"{found[1]}{written}" if (value * 10**6).denominator == 1 and "e" not in written else None
    if re.fullmatch(r"-?[0-9]{0,6}\.[0-9]{1,5}", bare):
        value = abs(Fraction(bare))
        sign = "-" if bare.startswith("-") else ""
        command = chance.choice(("\\frac", "\\dfrac"))
        return f"{sign}{command}{{{value.numerator}}}{{{value.denominator}}}"
    return None


def slashed(text: str, chance: random.Random) -> str | None:
    """Write a fraction of integers with a slash, or its sign in the numerator."""
    found = _FRACTION.fullmatch(bare_of(text) or "")
    if found is None:
        return None
    ways = [f"{found[1]}{found[2]}/{found[3]}"]
    if found[1]:
        ways.append(f"\\frac{{-{found[2]}}}{{{found[3]}}}")
    return chance.choice(ways)


def name_dropped(text: str, chance: random.Random) -> str | None:
    """Say the value alone where one name has it."""
    del chance
    parts = statements(text)
    if len(parts) != 1 or bare_of(text) is None or shape_of(text) != "equation":
        return None
    name, value = (side.of(text) for side in sides(text, parts[0]))
    is_value = NAME.fullmatch(name) and relations(text, parts[0])[0].of(text) == "=" and numeric.values(value)
    return value if is_value and name not in re.findall(r"[A-Za-z]", value) else None


def name_added(text: str, chance: random.Random) -> str | None:
    """Give a single value a name."""
    bare = bare_of(text)
    if (
        bare is None
        or shape_of(text) not in ("integer", "number", "quantity")
        or numeric.values(bare) is None
    ):
        return None
    used = set(re.findall(r"[A-Za-z]", text))
    name = chance.choice([one for one in ("x", "S", "N", "A", "\\text{Area}") if one not in used])
    return f"{name} = {bare}"


def unit_dropped(text: str, chance: random.Random) -> str | None:
    """Leave the unit of one quantity away."""
    del chance
    found = [*UNIT.finditer(text)]
    if len(found) != 1 or shape_of(text) != "quantity" or found[0]["word"].strip(" ~") not in UNITS:
        return None
    before, behind = text[: found[0].start()], text[found[0].end() :]
    is_last = re.search(r"[0-9}]\s*\Z", before) and not behind.strip(" $.")
    return before.strip(" $") if is_last else None


def product_sign(text: str, chance: random.Random) -> str | None:
    r"""Write `2 \cdot x` for `2x`."""
    del chance
    if "$" in text or UNIT.search(text) or shape_of(text) not in ("expression", "equation", "number"):
        return None
    factor = r"(?<![0-9A-Za-z^_{.,])([0-9]+)\s*(?=[a-z](?![A-Za-z({_])|\\pi|\\sqrt)"
    new = re.sub(factor, r"\1 \\cdot ", text, count=1)
    old_value, new_value = text.rpartition("=")[2], new.rpartition("=")[2]
    return changed(new, text) if numeric.differ(old_value, new_value, at_least=_SAME) is False else None


def parentheses(text: str, chance: random.Random) -> str | None:
    """Put a single value in round brackets."""
    del chance
    bare = bare_of(text)
    is_value = shape_of(text) in ("number", "expression") and len(statements(text)) == 1
    if bare is None or not is_value or UNIT.search(bare) or not re.search(r"[0-9+]", bare):
        return None
    return None if re.search(r"[()]", bare) or numeric.values(bare) is None else f"({bare})"


def program(text: str, chance: random.Random) -> str | None:
    """Write a plain expression as a program has it: `x**2`, `2*x`, `pi/2`."""
    del chance
    bare = bare_of(text) or ""
    if not _PLAIN.fullmatch(bare) or not re.search(r"\^|\\pi", bare):
        return None
    powers = re.sub(r"\^\{?([0-9]+)\}?", r"**\1", bare.replace("\\pi", "P"))
    products = re.sub(r"(?<=[0-9a-zP])(?<!\*[a-z])\s*(?=[a-zP])", "*", powers)
    return products.replace("P", "pi")


OF_ORDER: Final[dict[str, Rewriter]] = {
    "reordered": reordered,
    "separator": separator,
    "sides swapped": sides_swapped,
    "commuted": commuted,
    "decimal": as_decimal,
    "slash": slashed,
    "name dropped": name_dropped,
    "name added": name_added,
    "unit dropped": unit_dropped,
    "product sign": product_sign,
    "parentheses": parentheses,
    "program": program,
}
