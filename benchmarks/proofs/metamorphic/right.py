r"""Rewrites of a reference that leave it right, each of one kind.

In: the text of a reference, and chance. Out: another spelling of it, or None where a kind does not apply. What is
rewritten says the same by the rules of writing alone, or by exact arithmetic on integers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from benchmarks.proofs.metamorphic import numeric
from benchmarks.proofs.metamorphic.structure import (
    CONJUNCTION,
    UNIT,
    Span,
    depths,
    relations,
    shape_of,
    sides,
    statements,
)

Rewriter = Callable[[str, random.Random], str | None]

_INTEGER: Final = re.compile(r"-?[0-9]+")
_FRACTION: Final = re.compile(r"(-?)\s*\\[dt]?frac\s*\{\s*([0-9]+)\s*\}\s*\{\s*([0-9]+)\s*\}")
_NAME: Final = re.compile(r"(?:\\[A-Za-z]+|[A-Za-z])(?:_(?:\{[^{}]*\}|\w))?")
_MIRRORED: Final = {
    "<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\leq": "\\geq", "\\geq": "\\leq", "\\lt": "\\gt",
    "\\gt": "\\lt", "=": "=", "\\ne": "\\ne", "\\neq": "\\neq", "\\leqslant": "\\geqslant", "\\geqslant": "\\leqslant",
}  # fmt: skip


def _changed(new: str, old: str) -> str | None:
    return new if new != old else None


def _bare(text: str) -> str | None:
    """Return a text without the dollar signs around it; None where more of them stand inside."""
    bare = text.strip()
    if len(bare) > 2 and bare[0] == bare[-1] == "$":
        bare = bare[1:-1].strip()
    return None if "$" in bare.replace("\\$", "") else bare


def spaced(text: str, chance: random.Random) -> str | None:
    """Write spaces around signs and behind commas, or none."""
    if "\\text" in text or "\\mathrm" in text or "\\mbox" in text or shape_of(text) in ("prose", "percent") or CONJUNCTION.search(text):
        return None
    if " " in text and chance.random() < 0.5:
        return _changed(re.sub(r"(?<![A-Za-z])\s+|\s+(?![A-Za-z0-9])", "", text), text) if not re.search(r"[0-9]\s+[0-9\\]|\\\s", text) else None
    return _changed(re.sub(r"\s*([+=])\s*", r" \1 ", text), text)


def thin_spaces(text: str, chance: random.Random) -> str | None:
    """Put thin spaces behind commas and around relations."""
    new = re.sub(r"(?<=[^0-9\\]),\s*(?=\S)|,\s+(?=\S)", lambda _: "," + chance.choice(("\\,", "\\ ", "~", "\\; ")), text)
    return _changed(re.sub(r"(?<![<>=\\])=(?!=)", lambda _: chance.choice(("\\,=\\,", "\\;=\\; ", "~=~")), new), text)


def sized_brackets(text: str, chance: random.Random) -> str | None:
    r"""Write `\left(` for `(`, or the reverse."""
    del chance
    if "\\left" in text:
        if re.search(r"\\(?:left|right)\s*\.|\\(?:left|right)\s*[|\\/]", text):
            return None
        return re.sub(r"\\(?:left|right)\s*", "", text)
    opened = re.sub(r"(?<![A-Za-z\\])\(", r"\\left(", text)
    if text.count("(") != text.count(")") or opened.count("\\left(") != text.count("(") or "\\\\" in text or "\\text" in text or re.search(r"[|$,;]|\[", text) and len(statements(text)) > 1:
        return None
    return _changed(re.sub(r"\)", r"\\right)", opened), text)


def fraction_style(text: str, chance: random.Random) -> str | None:
    r"""Write `\dfrac` or `\tfrac` for `\frac`, or the reverse."""
    if "\\dfrac" in text or "\\tfrac" in text:
        return re.sub(r"\\[dt]frac", r"\\frac", text)
    return _changed(text.replace("\\frac", chance.choice(("\\dfrac", "\\tfrac"))), text)


def braces(text: str, chance: random.Random) -> str | None:
    r"""Write `x^{2}` for `x^2`, `\frac{1}{2}` for `\frac12`, `\sqrt{2}` for `\sqrt2`, or the reverse."""
    if chance.random() < 0.5:
        new = re.sub(r"([\^_])\s*([0-9a-zA-Z])(?![0-9])", r"\1{\2}", text)
        new = re.sub(r"\\([dt]?frac)\s*([0-9])\s*([0-9])", r"\\\1{\2}{\3}", new)
        new = re.sub(r"\\sqrt\s*([0-9])", r"\\sqrt{\1}", new)
    else:
        new = re.sub(r"([\^_])\{([0-9a-zA-Z])\}", r"\1\2", text)
        new = re.sub(r"(\\[dt]?frac)\{([0-9])\}\{([0-9])\}", r"\1\2\3", new)
        new = re.sub(r"\\sqrt\{([0-9])\}", r"\\sqrt\1", new)
        if re.search(r"[\^_][0-9a-zA-Z][0-9a-zA-Z]", new):
            return None
    return _changed(new, text)


def wrapped(text: str, chance: random.Random) -> str | None:
    """Put the whole in braces, in display style, in dollar signs, or end the sentence."""
    bare = _bare(text)
    if bare is None or "\n" in bare or shape_of(text) == "prose":
        return None
    ways = ["$%s$", "\\displaystyle %s", "\\(%s\\)", "$$%s$$"]
    if "&" not in bare:
        ways.append("{%s}")
    if not bare.endswith((".", "right", "\\")):
        ways.append("%s.")
    return chance.choice(ways) % bare


def said(text: str, chance: random.Random) -> str | None:
    """Say that it is the answer."""
    bare = _bare(text)
    if bare is None or shape_of(text) == "prose" or "\n" in bare:
        return None
    return chance.choice(("\\text{The answer is }%s", "%s\\text{ is the answer}", "\\text{Answer: }%s")) % bare  # fmt: skip


def coloured(text: str, chance: random.Random) -> str | None:
    """Write it in colour, or behind the sign of a conclusion."""
    bare = _bare(text)
    if bare is None or shape_of(text) == "prose" or "\n" in bare:
        return None
    return chance.choice(("\\therefore %s", "\\color{blue}{%s}", "\\color{red} %s", "\\therefore\\ %s", "\\textcolor{red}{%s}")) % bare


def other_relation_sign(text: str, chance: random.Random) -> str | None:
    r"""Write `\leq` for `\le`, `\neq` for `\ne`, `\lt` for `<`."""
    del chance
    new = re.sub(r"\\(le|ge|ne)(?:q?)(?![A-Za-z])", lambda m: f"\\{m[1]}" if m[0].endswith("q") else f"\\{m[1]}q", text)
    new = re.sub(r"\\(le|ge)qslant(?![A-Za-z])", r"\\\1", new)
    return _changed(new, text)


def unit_style(text: str, chance: random.Random) -> str | None:
    r"""Write `\text{ cm}` for `\mathrm{~cm}`, or the reverse."""
    units = [found for found in UNIT.finditer(text) if not re.search(r"[{}\\]", found["word"])]
    if not units or shape_of(text) == "prose" or CONJUNCTION.search(text):
        return None
    one = chance.choice(units)
    word = one["word"].strip(" ~")
    if word in ("e", "i", "d", "and", "or") or not re.search(r"[0-9})]\s*\Z", text[: one.start()]):
        return None
    way = "\\mathrm{~%s}" if "\\text" in one[0] else chance.choice(("\\text{ %s}", "\\ \\text{%s}", "\\,\\text{%s}", "\\textnormal{ %s}"))
    return Span(*one.span()).replaced(text, way % word)


def unit_dropped(text: str, chance: random.Random) -> str | None:
    """Leave the unit of one quantity away."""
    del chance
    found = [*UNIT.finditer(text)]
    if len(found) != 1 or len(statements(text)) != 1 or shape_of(text) not in ("quantity",):
        return None
    one = found[0]
    if not re.search(r"[0-9}]\s*\Z", text[: one.start()]) or text[one.end() :].strip(" $."):
        return None
    if not re.fullmatch(r"[A-Za-z]+", one["word"].strip(" ~")) or one["word"].strip(" ~").casefold() in ("million", "thousand", "dozen", "billion", "hundred", "i", "e", "th", "am", "pm"):
        return None
    return text[: one.start()].strip(" $")


def reordered(text: str, chance: random.Random) -> str | None:
    """Say the items of a list of values, or of named values, in another order."""
    shape = shape_of(text)
    if shape not in ("list of values", "list of equations", "set") or re.search(r"\\(?:ldots|dots|cdots|text|mathrm|quad|qquad)|\n|\.\.\.", text):
        return None
    if shape == "set":
        found = re.fullmatch(r"(\s*\$?\s*(?:\\left)?\s*\\\{)([^|:=<>{}]+)((?:\\right)?\s*\\\}\s*\$?\s*)", text)
        if found is None or "\\mid" in text:
            return None
        entries = [span.of(found[2]) for span in statements(found[2])]
        chance.shuffle(entries)
        return _changed(f"{found[1]}{', '.join(entries)}{found[3]}", text)
    parts = statements(text)
    if shape == "list of equations" and not all(
        len(pair := sides(text, part)) == 2 and _NAME.fullmatch(pair[0].of(text)) for part in parts
    ):
        return None
    separator = text[parts[0].end : parts[1].start]
    if "and" in separator or "or" in separator or "$" in text:
        return None
    texts = [part.of(text) for part in parts]
    chance.shuffle(texts)
    return _changed(separator.join(texts), text)


def other_separator(text: str, chance: random.Random) -> str | None:
    """Join the items of a list by `and`, `or`, a semicolon or a space, for a comma."""
    parts = statements(text)
    shape = shape_of(text)
    if len(parts) < 2 or shape not in ("list of values", "list of equations") or "$" in text or "\n" in text:
        return None
    if re.search(r"\\(?:ldots|dots|cdots|text|quad|in|mathrm)(?![A-Za-z])", text):
        return None
    texts = [part.of(text) for part in parts]
    way = chance.choice((" \\text{ and } ", "; ", ", \\quad ", ",\\ ", " \\text{ or } " if shape == "list of values" else "; "))
    if len(texts) > 2 and "text" in way:
        return ", ".join(texts[:-1]) + way + texts[-1]
    return _changed(way.join(texts), text)


def sides_swapped(text: str, chance: random.Random) -> str | None:
    """Write an equation or a chain from right to left."""
    del chance
    parts = statements(text)
    if len(parts) != 1 or "$" in text or "\\text" in text or "\\mathrm" in text or "\\begin" in text or shape_of(text) == "prose":
        return None
    signs = [sign.of(text) for sign in relations(text, parts[0])]
    if not signs or not all(sign in _MIRRORED for sign in signs) or (len(signs) > 1 and "=" in signs):
        return None
    values = [side.of(text) for side in sides(text, parts[0])]
    if not all(values) or (values[0].count("(") and re.fullmatch(r"[A-Za-z]\(.*", values[0])):
        return None
    turned = [values[-1]]
    for sign, value in zip(reversed(signs), reversed(values[:-1]), strict=True):
        turned += [f" {_MIRRORED[sign]} ", value]
    return "".join(turned)


def _terms(text: str) -> list[str] | None:
    """Return the terms of a sum with their signs; None where it is no plain sum."""
    if "\\pm" in text or "\\mp" in text or numeric.values(text) is None:
        return None
    level = depths(text)
    starts = [place for place, character in enumerate(text) if character in "+-" and level[place] == 0 and place]
    starts = [place for place in starts if text[:place].rstrip()[-1:] not in ("^", "_", "*", "/", "+", "-", "(", "") and not re.search(r"\\[a-z]+\s*\Z", text[:place])]
    if not starts or re.search(r"\\(?:sum|int|prod|lim)", text):
        return None
    edges = [0, *starts, len(text)]
    terms = [text[a:b].strip() for a, b in zip(edges, edges[1:], strict=False)]
    return [term if term[0] in "+-" else f"+{term}" for term in terms]


def commuted(text: str, chance: random.Random) -> str | None:
    """Write the terms of a sum in another order."""
    parts = statements(text)
    if len(parts) != 1 or "$" in text or UNIT.search(text) or "\\circ" in text:
        return None
    last = sides(text, parts[0])[-1]
    terms = _terms(last.of(text))
    if terms is None or any("=" in term for term in terms):
        return None
    terms = terms[1:] + terms[:1]
    new = "".join(terms).removeprefix("+")
    del chance
    if numeric.differ(last.of(text), new, at_least=1e-9) is not False:
        return None
    return _changed(last.replaced(text, new), text)


def as_decimal(text: str, chance: random.Random) -> str | None:
    """Write a fraction that has an exact decimal so, or the decimal as a fraction."""
    bare = _bare(text)
    if bare is None:
        return None
    if (found := _FRACTION.fullmatch(bare)) is not None and int(found[3]):
        value = Fraction(int(found[2]), int(found[3]))
        scaled = value * 10**6
        return f"{found[1]}{float(value)!r}" if scaled.denominator == 1 and "e" not in repr(float(value)) else None
    if re.fullmatch(r"-?[0-9]{0,6}\.[0-9]{1,5}", bare):
        value = Fraction(bare)
        way = chance.choice(("\\frac{%d}{%d}", "\\dfrac{%d}{%d}"))
        return ("-" if value < 0 else "") + way % (abs(value.numerator), value.denominator)
    return None


def slashed(text: str, chance: random.Random) -> str | None:
    """Write a fraction of integers with a slash, or its sign in the numerator."""
    bare = _bare(text)
    found = None if bare is None else _FRACTION.fullmatch(bare)
    if found is None:
        return None
    if found[1]:
        return chance.choice((f"\\frac{{-{found[2]}}}{{{found[3]}}}", f"-{found[2]}/{found[3]}"))
    return f"{found[2]}/{found[3]}"


def name_dropped(text: str, chance: random.Random) -> str | None:
    """Say the value alone where one name has it."""
    del chance
    parts = statements(text)
    if len(parts) != 1 or _bare(text) is None or shape_of(text) not in ("equation",):
        return None
    pair = sides(text, parts[0])
    if len(pair) != 2 or not _NAME.fullmatch(pair[0].of(text)) or [s.of(text) for s in relations(text, parts[0])] != ["="]:
        return None
    value = pair[1].of(text)
    return value if numeric.values(value) is not None and pair[0].of(text) not in re.findall(r"[A-Za-z]", value) else None


def name_added(text: str, chance: random.Random) -> str | None:
    """Give a single value a name."""
    bare = _bare(text)
    if bare is None or shape_of(text) not in ("integer", "number", "quantity") or numeric.values(bare) is None:
        return None
    return f"{chance.choice(('x', 'S', 'N', 'A', chr(92) + 'text{Area}'))} = {bare}"


def grouped(text: str, chance: random.Random) -> str | None:
    """Write the digits of a number in groups, or without."""
    bare = _bare(text)
    if bare is None:
        return None
    if re.fullmatch(r"-?[1-9][0-9]{0,2}(?:,[0-9]{3})+", bare):
        return bare.replace(",", chance.choice(("", "{,}", ",\\!", "\\,", ",\\! ")))
    if re.fullmatch(r"-?[1-9][0-9]{3,}", bare):
        return re.sub(r"(?<=[0-9])(?=(?:[0-9]{3})+\Z)", lambda _: "_", bare).replace("_", chance.choice((",", "{,}", ",\\!", "\\,", ",\\! ")))
    return None


def scripts_swapped(text: str, chance: random.Random) -> str | None:
    """Write the superscript before the subscript, or the reverse."""
    del chance
    script = r"(\{[^{}]*\}|[0-9a-zA-Z])"
    new = re.sub(rf"(?<![}}\]])_{script}\^{script}", r"^\2_\1", text)
    return _changed(new, text)


def prefixed(text: str, chance: random.Random) -> str | None:
    r"""Write `\exp` or `\cdot` another way: `2 \cdot x` for `2x`."""
    del chance
    if UNIT.search(text) or shape_of(text) not in ("expression", "equation", "number"):
        return None
    new = re.sub(r"(?<![0-9A-Za-z^_{.])([0-9]+)\s*(?=[a-z](?![A-Za-z({_])|\\pi|\\sqrt)", r"\1 \\cdot ", text, count=1)
    if new == text or "$" in text or any(numeric.differ(a, b, at_least=1e-9) is not False for a, b in [(text.rpartition("=")[2], new.rpartition("=")[2])]):
        return None
    return new


def in_parentheses(text: str, chance: random.Random) -> str | None:
    """Put a single value in round brackets."""
    del chance
    bare = _bare(text)
    if bare is None or shape_of(text) not in ("number", "expression") or len(statements(text)) != 1 or not re.search(r"[0-9+]", bare):
        return None
    return f"({bare})" if numeric.values(bare) is not None and not re.search(r"[()]", bare) and not UNIT.search(bare) else None


RIGHT: Final[dict[str, Rewriter]] = {
    "spaces": spaced,
    "thin spaces": thin_spaces,
    "sized brackets": sized_brackets,
    "style of fractions": fraction_style,
    "braces": braces,
    "wrapped": wrapped,
    "said": said,
    "coloured": coloured,
    "sign of a relation": other_relation_sign,
    "style of a unit": unit_style,
    "unit dropped": unit_dropped,
    "reordered": reordered,
    "separator": other_separator,
    "sides swapped": sides_swapped,
    "commuted": commuted,
    "decimal": as_decimal,
    "slash": slashed,
    "name dropped": name_dropped,
    "name added": name_added,
    "digit groups": grouped,
    "scripts swapped": scripts_swapped,
    "product sign": prefixed,
    "parentheses": in_parentheses,
}
