r"""Numbers are written in one way: digit groups, mixed numbers, repeating decimals, ordinals, powers of ten.

In: an answer or a reference. Out: the same in LaTeX. Nothing is computed but the value of a mixed number and of a
repeating decimal. Run by `scorers.math.notation`. Pure functions on texts of at most MAX_CHARS characters, linear in
their length.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_GROUPED: Final = re.compile(r"(?<![0-9.,])([0-9]{1,3})((?: [0-9]{3})+|(?:\{,\}[0-9]{3})+)(?![0-9])")
_GROUPED_DECIMALS: Final = re.compile(
    r"(?<![0-9,])([0-9]*\.[0-9]{3})((?: [0-9]{3})*(?: [0-9]{1,3}))(?![0-9.,/])"
)
_MIXED: Final = re.compile(
    r"(?<![\w.}^)\]/])([0-9]{1,9})\s*(?:\\frac\{([0-9]{1,9})\}\{([0-9]{1,9})\}|\s([0-9]{1,9})/([0-9]{1,9}))(?![\w^/!(])"
)
_REPEATING: Final = re.compile(
    r"(?<![\w.])([0-9]{0,200})\.([0-9]{0,200})"
    r"(?:\\(?:overline|bar)\s*(?:\{([0-9]{1,200})\}|([0-9]))|\\dot\{?([0-9])\}?(?:([0-9]{0,200})\\dot\{?([0-9])\}?)?)"
    r"(?:\\ldots|\.\.\.)?(?![\w^])"
)
_IN_BRACKETS: Final = re.compile(r"(-?)([0-9]{1,200})\.([0-9]{0,200})\(([0-9]{1,200})\)")
_GOING_ON: Final = re.compile(r"(?<![\w.])([0-9]{0,200})\.([0-9]{3,200})\s*(?:\\ldots|\.\.\.)(?![\w^])")
_ORDINAL: Final = re.compile(
    r"([0-9]{1,30})\s*(?:\^?\s*\{?\s*\\(?:text|mathrm)\{\s*(?:st|nd|rd|th)\s*\}\s*\}?|\^\{?(?:st|nd|rd|th)\}?|st|nd|rd|th)"
)
_TEXT: Final = re.compile(r"\\text\{[A-Za-z ]*\}")
_SCIENTIFIC: Final = re.compile(r"(-?[0-9]{1,30}(?:\.[0-9]{1,30})?)[eE]([-+]?[0-9]{1,3})")
_POINTED: Final = re.compile(r"(?<![\w.])([0-9]+)\.(?=[/})\s+*=,-]|\Z)(?!\s*\.)")  # `1./3`


def _joined(number: re.Match[str]) -> str:
    return number[1] + re.sub(r"[^0-9]", "", number[2])


def _mixed(number: re.Match[str]) -> str:
    whole, over, under = int(number[1]), int(number[2] or number[4]), int(number[3] or number[5])
    return f"\\frac{{{whole * under + over}}}{{{under}}}" if 0 < over < under and whole else number[0]


def _repeating(number: re.Match[str]) -> str:
    whole, fixed = number[1], number[2]
    dotted = "".join(part or "" for part in number.groups()[4:])
    return _fraction(whole, fixed, number[3] or number[4] or dotted)


def _going_on(number: re.Match[str]) -> str:
    """Return a decimal that goes on as a fraction, where its last digits show a period.

    That is one digit three times, or several digits twice.
    """
    whole, digits = number[1], number[2]
    for length in range(1, len(digits) // 2 + 1):
        times = 3 if length == 1 else 2
        period = digits[-length:]
        if len(digits) >= times * length and digits.endswith(period * times):
            fixed = digits[: -times * length]
            while fixed.endswith(period):
                fixed = fixed[:-length]
            return _fraction(whole, fixed, period)
    return number[0]


def _fraction(whole: str, fixed: str, period: str) -> str:
    value = int(f"{whole or 0}{fixed}") + Fraction(int(period), 10 ** len(period) - 1)
    value /= 10 ** len(fixed)
    return f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def goes_on(text: str) -> bool:
    r"""Return whether a decimal goes on behind its last digit: `0.333...`."""
    return _GOING_ON.search(text) is not None


def joined(text: str) -> str:
    """Return a text without the blanks between groups of digits, and without a point behind the last digit."""
    text = _POINTED.sub(r"\1", text) if ". " in text or "./" in text or ".}" in text else text
    if " " not in text and "{,}" not in text:
        return text
    return _GROUPED_DECIMALS.sub(_joined, _GROUPED.sub(_joined, text))


def valued(text: str) -> str:
    """Return a text with repeating decimals and mixed numbers as fractions, and a number alone in plain figures."""
    text = _MIXED.sub(_mixed, _GOING_ON.sub(_going_on, _REPEATING.sub(_repeating, text)))
    if found := _IN_BRACKETS.fullmatch(text):
        text = found[1] + _fraction(found[2], found[3], found[4])
    if found := _SCIENTIFIC.fullmatch(text):
        text = f"{found[1]} \\times 10^{{{int(found[2])}}}"
    if found := _ORDINAL.match(text):
        rest = text[found.end() :].strip()
        if not rest or _TEXT.fullmatch(rest):
            text = found[1]
    return text
