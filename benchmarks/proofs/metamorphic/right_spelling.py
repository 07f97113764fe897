"""Right rewrites by the rules of writing: space, size, braces, style, dollar signs, groups of digits.

In: the text of a reference, and chance. Out: another spelling of the same, or None where a kind does not apply.
"""

from __future__ import annotations

import random
import re
from typing import Final

from benchmarks.proofs.metamorphic.structure import (
    CONJUNCTION,
    UNIT,
    UNITS,
    Rewriter,
    Span,
    bare_of,
    shape_of,
    statements,
)

_IN_WORDS: Final = re.compile(r"\\(?:text|mathrm|mbox)")


def changed(new: str, old: str) -> str | None:
    """Return the new text where it is another one."""
    return new if new != old else None


def spaced(text: str, chance: random.Random) -> str | None:
    """Write spaces around signs, or leave them away where nothing needs them."""
    if (
        "\n" in text
        or "$" in text.strip("$")
        or _IN_WORDS.search(text)
        or CONJUNCTION.search(text)
        or shape_of(text) in ("prose", "percent")
    ):
        return None
    if " " in text and chance.random() < 0.5:
        if re.search(r"[0-9]\s+[0-9\\]|\\\s|(?<![A-Za-z\\])(?:at|in|by|on|to|is)(?![A-Za-z])", text):
            return None
        return changed(re.sub(r"(?<![A-Za-z])\s+|\s+(?![A-Za-z0-9])", "", text), text)
    return changed(re.sub(r"\s*([+=])\s*", r" \1 ", text), text)


def thin_spaces(text: str, chance: random.Random) -> str | None:
    """Put thin spaces behind commas and around signs of equality."""
    if "\n" in text:
        return None

    def spaced_comma(_: re.Match[str]) -> str:
        return "," + chance.choice(("\\,", "\\ ", "~", "\\; "))

    def spaced_sign(_: re.Match[str]) -> str:
        return chance.choice(("\\,=\\,", "\\;=\\; ", "~=~"))

    new = re.sub(r"(?<=[^0-9\\]),\s*(?=\S)|,\s+(?=\S)", spaced_comma, text)
    return changed(re.sub(r"(?<![<>=\\])=(?!=)", spaced_sign, new), text)


def sized_brackets(text: str, chance: random.Random) -> str | None:
    r"""Write `\left(` for `(`, or the reverse."""
    del chance
    if "\\left" in text:
        is_needed = re.search(r"\\(?:left|right)\s*[.|\\/]", text)
        return None if is_needed else re.sub(r"\\(?:left|right)(?![A-Za-z])\s*", "", text)
    is_paired = text.count("(") == text.count(")") and not re.search(r"\[|\\\\|\\text|[A-Za-z\\]\(", text)
    if not is_paired or len(statements(text)) > 1:
        return None
    return changed(text.replace("(", "\\left(").replace(")", "\\right)"), text)


def fraction_style(text: str, chance: random.Random) -> str | None:
    r"""Write `\dfrac` or `\tfrac` for `\frac`, or the reverse."""
    if re.search(r"\\[dt]frac", text):
        return re.sub(r"\\[dt]frac", r"\\frac", text)
    return changed(text.replace("\\frac", chance.choice(("\\dfrac", "\\tfrac"))), text)


def braces(text: str, chance: random.Random) -> str | None:
    r"""Write `x^{2}` for `x^2`, `\frac{1}{2}` for `\frac12`, `\sqrt{2}` for `\sqrt2`, or the reverse."""
    if chance.random() < 0.5:
        new = re.sub(r"([\^_])\s*([0-9a-zA-Z])(?![0-9])", r"\1{\2}", text)
        new = re.sub(r"\\([dt]?frac)\s*([0-9])\s*([0-9])", r"\\\1{\2}{\3}", new)
        return changed(re.sub(r"\\sqrt\s*([0-9])", r"\\sqrt{\1}", new), text)
    new = re.sub(r"([\^_])\{([0-9a-zA-Z])\}", r"\1\2", text)
    new = re.sub(r"(\\[dt]?frac)\{([0-9])\}\{([0-9])\}", r"\1\2\3", new)
    new = re.sub(r"\\sqrt\{([0-9])\}", r"\\sqrt\1", new)
    return None if re.search(r"[\^_][0-9a-zA-Z][0-9a-zA-Z]", new) else changed(new, text)


def wrapped(text: str, chance: random.Random) -> str | None:
    """Put the whole in braces, in display style, in dollar signs, or end the sentence."""
    bare = bare_of(text)
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
    bare = bare_of(text)
    if bare is None or shape_of(text) == "prose" or "\n" in bare:
        return None
    bare = bare if bare.endswith("right.") else bare.rstrip(".")
    ways = ("\\text{The answer is }%s", "%s\\text{ is the answer}", "\\text{Answer: }%s")
    return chance.choice(ways) % bare


def coloured(text: str, chance: random.Random) -> str | None:
    """Write it in colour, or behind the sign of a conclusion."""
    bare = bare_of(text)
    if bare is None or shape_of(text) == "prose" or "\n" in bare:
        return None
    ways = (
        "\\therefore %s",
        "\\therefore\\ %s",
        "\\color{blue}{%s}",
        "\\color{red} %s",
        "\\textcolor{red}{%s}",
    )
    return chance.choice(ways) % bare


def relation_style(text: str, chance: random.Random) -> str | None:
    r"""Write `\leq` for `\le` and `\neq` for `\ne`, or the reverse."""
    del chance
    new = re.sub(r"\\(le|ge|ne)(q?)(?![A-Za-z])", lambda one: f"\\{one[1]}{'' if one[2] else 'q'}", text)
    return changed(re.sub(r"\\(le|ge)qslant(?![A-Za-z])", r"\\\1", new), text)


def unit_style(text: str, chance: random.Random) -> str | None:
    r"""Write `\text{ cm}` for `\mathrm{~cm}`, or the reverse."""
    units = [one for one in UNIT.finditer(text) if one["word"].strip(" ~") in UNITS]
    if not units or shape_of(text) == "prose" or CONJUNCTION.search(text):
        return None
    one = chance.choice(units)
    if not re.search(r"[0-9})]\s*\Z", text[: one.start()]):
        return None
    ways = ("\\text{ %s}", "\\ \\text{%s}", "\\,\\text{%s}", "\\textnormal{ %s}")
    way = "\\mathrm{~%s}" if "\\text" in one[0] else chance.choice(ways)
    return Span(*one.span()).replaced(text, way % one["word"].strip(" ~"))


def grouped(text: str, chance: random.Random) -> str | None:
    """Write the digits of a whole number in groups, or without."""
    bare = bare_of(text)
    if bare is None:
        return None
    if re.fullmatch(r"-?[1-9][0-9]{0,2}(?:,[0-9]{3})+", bare):
        return bare.replace(",", chance.choice(("", "{,}", ",\\!", "\\,", ",\\! ")))
    if re.fullmatch(r"-?[1-9][0-9]{3,}", bare):
        sign = chance.choice((",", "{,}", ",\\!", "\\,", ",\\! "))
        return f"{int(bare):,}".replace(",", sign)
    return None


def scripts_swapped(text: str, chance: random.Random) -> str | None:
    """Write a superscript before its subscript."""
    del chance
    script = r"(\{[^{}]*\}|[0-9a-zA-Z])"
    return changed(re.sub(rf"(?<![}}\]])_{script}\^{script}", r"^\2_\1", text), text)


OF_SPELLING: Final[dict[str, Rewriter]] = {
    "spaces": spaced,
    "thin spaces": thin_spaces,
    "sized brackets": sized_brackets,
    "style of fractions": fraction_style,
    "braces": braces,
    "wrapped": wrapped,
    "said": said,
    "coloured": coloured,
    "style of a relation": relation_style,
    "style of a unit": unit_style,
    "digit groups": grouped,
    "scripts swapped": scripts_swapped,
}
