r"""Numbers in other writing than figures: `\text{third}`, `2\text{ million}`, `67^\circ 30'`, `\text{2BA}_{16}`.

In: a text in LaTeX whose spaces and signs are made one (`scorers.math.notation`). Out: the same with the number in
figures. Pure functions on text, linear in its length.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

from scorers.math.units import in_one_unit

_WORDS: Final = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
)  # fmt: skip
_TENS: Final = ("twent", "thirt", "fort", "fift", "sixt", "sevent", "eight", "ninet")  # twenty, twentieth
_ORDINALS: Final = {
    **{word: place for place, word in enumerate(_WORDS, start=1)},
    **{f"{ten}ieth": 10 * place for place, ten in enumerate(_TENS, start=2)},
    **{
        f"{ten}y {word}": 10 * place + unit
        for place, ten in enumerate(_TENS, start=2)
        for unit, word in enumerate(_WORDS[:9], start=1)
    },
    "hundredth": 100,
}
_UNITS: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_CARDINALS: Final = {
    **{word: value for value, word in enumerate(_UNITS)},
    **{f"{ten}y": 10 * place for place, ten in enumerate(_TENS, start=2)},
    **{
        f"{ten}y {word}": 10 * place + unit
        for place, ten in enumerate(_TENS, start=2)
        for unit, word in enumerate(_UNITS[1:10], start=1)
    },
    **dict.fromkeys(("hundred", "a hundred", "one hundred"), 100),
}
NUMBER_WORDS: Final = frozenset(_CARDINALS) - {"one"}  # `one` is also somebody
_CARDINAL: Final = re.compile(  # bare letters may be a product
    r"\\(?:text|mathrm|textbf|textit)\{\s*([A-Za-z]+(?:[- ][A-Za-z]+)?)\s*\.?\s*\}", re.IGNORECASE
)
_ORDINAL: Final = re.compile(
    r"(?:\\(?:text|mathrm|textbf|textit)\{)?\s*(?:the\s+)?([A-Za-z]+(?:[- ][A-Za-z]+)?)\s*\.?\s*\}?",
    re.IGNORECASE,
)
_MULTIPLES: Final = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}  # powers of ten
_MULTIPLE: Final = re.compile(
    r"(?<![\w.^{}/,])([0-9]{1,30}(?:,[0-9]{3})*(?:\.[0-9]{1,30})?|\\frac\{[0-9]{1,30}\}\{[0-9]{1,30}\})"
    rf"\s*(?:\\text\{{\s*(?P<boxed>{'|'.join(_MULTIPLES)})s?(?![A-Za-z])(?P<rest>[^{{}}]*)\}}"
    rf"|(?P<bare>{'|'.join(_MULTIPLES)})s?(?![A-Za-z]))"
)
_PRIME: Final = r"(?:'(?!')|[\u2032\u2019]|\^\s*\{?\s*\\prime\s*(?!\\prime)\}?)"
_DOUBLE_PRIME: Final = r"(?:''|\"|[\u2033\u201d]|\^\s*\{?\s*\\prime\s*\\prime\s*\}?)"
_PART: Final = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_ARC: Final = re.compile(
    rf"(?<![\w.])([0-9]{{1,9}})\s*\^\s*\{{?\s*\\circ\s*\}}?\s*(?:{_PART}\s*{_PRIME})?\s*(?:{_PART}\s*{_DOUBLE_PRIME})?"
)
_BASES: Final = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "sixteen": 16,
}  # fmt: skip
_BASE: Final = rf"([0-9]{{1,2}}|{'|'.join(_BASES)})"
_BASED: Final = re.compile(
    r"\(?\s*([0-9A-Za-z]*+)(?:\\(?:text|mathrm|texttt|mathtt|textbf)\{\s*([0-9A-Za-z]++)\s*\}([0-9A-Za-z]*+))?\s*\)?\s*"
    rf"(?:_\s*\{{?\s*(?:\\text\{{|\()?\s*{_BASE}\s*[)}}]?\s*\}}?|\\text\{{\s*\(?\s*(?:in )?base[ -]{_BASE}\s*\)?\s*\}}"
    rf"|\(?\s*base[ -]{_BASE}\s*\)?)"
)

_MOD: Final = (
    r"(?:\\(?:bmod|mod|pmod)(?![A-Za-z])|\\(?:text|mathrm|operatorname)\{\s*mod(?:ulo)?\s*\}"
    r"|(?<=\s)mod(?:ulo)?(?=\s))"
)
_DIVIDED: Final = r"\(?\s*(-?[0-9]{1,60})\s*(?:\^\s*(?:\{\s*([0-9]{1,60})\s*\}|([0-9])))?\s*\)?"
_REMAINDER: Final = re.compile(  # `17 \bmod 5 = 2`, `2^{10} mod 7`, `\bmod(17, 5)`
    rf"(?:{_DIVIDED}\s*\(?\s*(?:{_MOD}|\\?%)\s*\{{?\s*([0-9]{{1,60}})\s*\}}?\s*\)?"
    rf"|{_MOD}\s*\(\s*(-?[0-9]{{1,60}})\s*,\s*([0-9]{{1,60}})\s*\))"
)
_VALUE: Final = re.compile(r"[0-9]{1,60}")
_MODULAR: Final = re.compile(
    rf"([A-Za-z][^=,;<>]{{0,80}}?)\s*{_MOD}\s*\{{?\s*([0-9]{{1,60}}|[A-Za-z])\s*\}}?\s*=\s*([^=,;<>]+)"
)

_MOST_CHARS: Final = 300  # of an answer that is one quantity or one count
_COUNT: Final = re.compile(  # `{}_{8}P_{3}`, `_nC_k`, `{}^8C_3`
    r"(?:\A|(?<=[=+*(,/ -]))(?:\{\s*\})?\s*[_^]\s*(?:\{\s*([0-9]{1,3}|[A-Za-z])\s*\}|([0-9]{1,3}|[A-Za-z]))"
    r"\s*(?:\\(?:mathrm|text)\s*\{\s*)?([PC])\s*\}?\s*_\s*(?:\{\s*([0-9]{1,3}|[A-Za-z])\s*\}|([0-9]|[A-Za-z]))(?![\^_])"
)


def in_figures(text: str) -> str:
    """Return a text with the numbers in figures that it has in words, in minutes of arc, or in a base with a name."""
    if "\\circ" in text:
        text = _ARC.sub(_degrees, text)
    if "=" in text and ("mod" in text or "%" in text):
        text = _without_division(text)
    if "_" in text or "base" in text:
        text = _based(text)
    if "hundred" in text or "thousand" in text or "llion" in text:
        text = _MULTIPLE.sub(_multiplied, text)
    found = _ORDINAL.fullmatch(text) if len(text) < 40 and text.isascii() else None
    place = None if found is None else _ORDINALS.get(found[1].lower().replace("-", " "))
    if place is None and found is not None and (whole := _CARDINAL.fullmatch(text)) is not None:
        place = _CARDINALS.get(whole[1].lower().replace("-", " "))
    return text if place is None else str(place)


def _without_division(text: str) -> str:
    r"""Return the remainder that a true `17 \bmod 5 = 2` states, and `n \bmod 5 = 2` as a congruence; else the text.

    Of a false one the remainder and what it is said to be are returned.
    """
    left, _, right = (side.strip() for side in text.partition("="))
    for division, value in ((left, right), (right, left)):
        found = _REMAINDER.fullmatch(division)
        if found is not None and _VALUE.fullmatch(value) is not None:
            number, exponent = int(found[1] or found[5]), int(found[2] or found[3] or 1)
            modulus = int(found[4] or found[6])
            remainder = pow(number, exponent, modulus) if modulus else None
            return (
                value if remainder == int(value) else text if remainder is None else f"{remainder} = {value}"
            )
    if (found := _MODULAR.fullmatch(text)) is not None:
        return f"{found[1]} \\equiv {found[3]} \\pmod{{{found[2]}}}"
    return text


def with_one_value(text: str) -> str:
    r"""Return `3\text{ hours }30\text{ minutes}` as one quantity, and `{}_8P_3` as what it counts; else the text."""
    if len(text) > _MOST_CHARS:
        return text
    return _COUNT.sub(_counted, text) if "_" in text else in_one_unit(text)


def _counted(count: re.Match[str]) -> str:
    whole, chosen = count[1] or count[2], count[4] or count[5]
    return (
        f"\\binom{{{whole}}}{{{chosen}}}" if count[3] == "C" else f"\\frac{{{whole}!}}{{({whole}-{chosen})!}}"
    )


def _degrees(arc: re.Match[str]) -> str:
    """Return degrees with their minutes and seconds as one number of degrees."""
    if arc[2] is None and arc[3] is None:
        return arc[0]
    minutes, seconds = Fraction(arc[2] or 0), Fraction(arc[3] or 0)
    if minutes >= 60 or seconds >= 60:
        return arc[0]
    value = int(arc[1]) + minutes / 60 + seconds / 3600
    number = str(value) if value.denominator == 1 else f"\\frac{{{value.numerator}}}{{{value.denominator}}}"
    return f"{number}^\\circ"


def _multiplied(number: re.Match[str]) -> str:
    power, rest = _MULTIPLES[number["boxed"] or number["bare"]], number["rest"] or ""
    if number[1].startswith("\\frac"):
        value = f"{number[1]}\\cdot {10**power}"
    else:
        value = f"{Decimal(number[1].replace(',', '')).scaleb(power):f}"
        value = value.rstrip("0").rstrip(".") if "." in value else value
    return f"{value}\\text{{{rest}}}" if rest.strip() else value


def _based(text: str) -> str:
    """Return digits and base in one spelling; any other text as it is."""
    found = _BASED.fullmatch(text) if len(text) < 200 else None
    if found is None:
        return text
    digits = f"{found[1]}{found[2] or ''}{found[3] or ''}".upper()
    named = found[4] or found[5] or found[6]
    base = _BASES.get(named) or int(named)
    is_number = 2 <= base <= 36 and all(int(digit, 36) < base for digit in digits)
    is_plain = found[2] is None and not any(map(str.isdigit, digits))  # `AB_{12}` may be a name
    return f"{digits}_{{{base}}}" if digits and is_number and not is_plain else text
