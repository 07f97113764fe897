r"""Units of measurement behind a value: two that differ are compared by their conversion, and one alone is let go.

In: an answer or a reference in plain LaTeX (`scorers.math.notation.plain`). Out: its value and its unit. A unit that is
not in the table is none: what is counted (`apples`) is let go as a remark is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

_FACTORS: Final[
    Mapping[str, tuple[str, Fraction | int]]
] = {  # of names with their dimension; a prefix of the metric system may stand before the first names
    "m": ("length", 1),
    "g": ("mass", Fraction(1, 1000)),
    "s": ("time", 1),
    "L": ("length 3", Fraction(1, 1000)),
    "l": ("length 3", Fraction(1, 1000)),
    "N": ("mass length time -2", 1),
    "J": ("mass length 2 time -2", 1),
    "W": ("mass length 2 time -3", 1),
    "Pa": ("mass length -1 time -2", 1),
    "Hz": ("time -1", 1),
    "V": ("volt", 1),
    "A": ("ampere", 1),
    "mol": ("mole", 1),
    "cal": ("mass length 2 time -2", Fraction(4184, 1000)),
    "eV": ("electronvolt", 1),
    "meter": ("length", 1),
    "metre": ("length", 1),
    "gram": ("mass", Fraction(1, 1000)),
    "second": ("time", 1),
    "liter": ("length 3", Fraction(1, 1000)),
    "litre": ("length 3", Fraction(1, 1000)),
    "newton": ("mass length time -2", 1),
    "joule": ("mass length 2 time -2", 1),
    "watt": ("mass length 2 time -3", 1),
    "pascal": ("mass length -1 time -2", 1),
    "hertz": ("time -1", 1),
    "calorie": ("mass length 2 time -2", Fraction(4184, 1000)),
}
_PREFIXES: Final[Mapping[str, Fraction | int]] = {
    "k": 10**3, "M": 10**6, "G": 10**9, "c": Fraction(1, 100), "d": Fraction(1, 10), "m": Fraction(1, 10**3),
    "n": Fraction(1, 10**9), "h": 100,
}  # fmt: skip
_LONG_PREFIXES: Final[Mapping[str, Fraction | int]] = {
    "kilo": 10**3, "mega": 10**6, "giga": 10**9, "centi": Fraction(1, 100), "deci": Fraction(1, 10),
    "milli": Fraction(1, 10**3), "micro": Fraction(1, 10**6), "nano": Fraction(1, 10**9), "hecto": 100,
}  # fmt: skip
_OTHERS: Final[Mapping[str, tuple[str, Fraction | int]]] = {
    "sec": ("time", 1),
    "min": ("time", 60),
    "minute": ("time", 60),
    "h": ("time", 3600),
    "hr": ("time", 3600),
    "hour": ("time", 3600),
    "day": ("time", 86400),
    "week": ("time", 7 * 86400),
    "month": ("month", 1),
    "year": ("month", 12),
    "yr": ("month", 12),
    "in": ("length", Fraction(254, 10000)),
    "inch": ("length", Fraction(254, 10000)),
    "ft": ("length", Fraction(3048, 10000)),
    "foot": ("length", Fraction(3048, 10000)),
    "feet": ("length", Fraction(3048, 10000)),
    "yd": ("length", Fraction(9144, 10000)),
    "yard": ("length", Fraction(9144, 10000)),
    "mi": ("length", Fraction(1609344, 1000)),
    "mile": ("length", Fraction(1609344, 1000)),
    "unit": ("unit", 1),
    "mph": ("length time -1", Fraction(44704, 100000)),
    "kph": ("length time -1", Fraction(5, 18)),
    "t": ("mass", 1000),
    "tonne": ("mass", 1000),
    "ton": ("ton", 1),
    "lb": ("mass", Fraction(45359237, 10**8)),
    "pound": ("mass", Fraction(45359237, 10**8)),
    "oz": ("mass", Fraction(45359237, 16 * 10**8)),
    "ounce": ("mass", Fraction(45359237, 16 * 10**8)),
    "ha": ("length 2", 10**4),
    "hectare": ("length 2", 10**4),
    "acre": ("acre", 1),
    "gallon": ("gallon", 1),
    "quart": ("gallon", Fraction(1, 4)),
    "pint": ("gallon", Fraction(1, 8)),
    "cup": ("gallon", Fraction(1, 16)),
    "radian": ("angle", 1),
    "rad": ("angle", 1),
    "K": ("kelvin", 1),
    "kelvin": ("kelvin", 1),
    "dollar": ("dollar", 1),
    "usd": ("dollar", 1),
    "cent": ("dollar", Fraction(1, 100)),
    "penny": ("dollar", Fraction(1, 100)),
    "pennies": ("dollar", Fraction(1, 100)),
    "dime": ("dollar", Fraction(1, 10)),
    "nickel": ("dollar", Fraction(1, 20)),
    "euro": ("euro", 1),
    "eur": ("euro", 1),
    "yen": ("yen", 1),
    "yuan": ("yuan", 1),
    "rupee": ("rupee", 1),
    "gbp": ("sterling", 1),
    "dozen": ("count", 12),
    "doz": ("count", 12),
    "gross": ("count", 144),
    "lakh": ("count", 10**5),
    "crore": ("count", 10**7),
    "twelfth": ("count", Fraction(1, 12)),
    "twentieth": ("count", Fraction(1, 20)),
    "millionth": ("count", Fraction(1, 10**6)),
    "permille": ("count", Fraction(1, 1000)),
    "ppm": ("count", Fraction(1, 10**6)),
    "quadrillion": ("count", 10**15),
    "score": ("count", 20),
    "k": ("count", 1000),
    "mn": ("count", 10**6),
    "bn": ("count", 10**9),
    "half": ("count", Fraction(1, 2)),
    "halve": ("count", Fraction(1, 2)),
    "third": ("count", Fraction(1, 3)),
    "fourth": ("count", Fraction(1, 4)),
    "fifth": ("count", Fraction(1, 5)),
    "sixth": ("count", Fraction(1, 6)),
    "seventh": ("count", Fraction(1, 7)),
    "eighth": ("count", Fraction(1, 8)),
    "ninth": ("count", Fraction(1, 9)),
    "tenth": ("count", Fraction(1, 10)),
    "hundredth": ("count", Fraction(1, 100)),
    "thousandth": ("count", Fraction(1, 1000)),
    "hundred": ("count", 100),
    "thousand": ("count", 1000),
    "million": ("count", 10**6),
    "billion": ("count", 10**9),
    "trillion": ("count", 10**12),
}
_CURRENCIES: Final = {"$": "dollar", "€": "euro", "£": "sterling", "¥": "yen", "₹": "rupee"}
_CURRENCY: Final = re.compile(r"\\?\$|[€£¥₹]|\\(?:pounds|euro|yen)(?![A-Za-z])")
_WRITTEN: Final = (
    r"(?:\\(?:textbf|textit|text|mathrm|mathbf|operatorname|mathit|rm)\s*\{[^{}]*\}(?:\s*\^\s*(?:\{\s*-?[0-9]\s*\}|-?[0-9]))?"
    r"|/|\\cdot|\\times|\^\s*(?:\{\s*-?[0-9]\s*\}|[0-9])| )"
)
_LISTED: Final = re.compile(r",(?![0-9]{3}(?![0-9]))|;")
_IN_MACROS: Final = re.compile(
    rf"\\(?:textbf|textit|text|mathrm|mathbf|operatorname|mathit|rm)\s*\{{[^{{}}]*\}}{_WRITTEN}*+\Z"
)
_IN_WORDS: Final = re.compile(r"(?:(?<=[0-9])\s*|(?<=[})])\s+)([A-Za-z]{2,}+(?:[ /^]{1,2}[A-Za-z0-9]++)*+)\Z")
_SAID: Final = re.compile(r"\\(?:textbf|textit|text|mathrm|mathbf)\s*\{([^{}]*)\}")
_MACRO: Final = re.compile(r"\\(?:textbf|textit|text|mathrm|mathbf|operatorname|mathit|rm)\s*")
_TOKEN: Final = re.compile(r"([A-Za-z]+)\.?(?:\s*\^?\s*\{?\s*(-?[0-9])\s*\}?)?|/|[^\sA-Za-z/]+")
_POWERS: Final = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_DEGREE: Final = re.compile(
    r"\s*\^\s*\{?\s*\\circ\s*\}?\s*\Z|\s*\\text\{\s*degrees?\s*\}\s*\Z|(?<=[0-9])\s*degrees?\Z"
)
_SET: Final = r"(?:\\(?:text|mathrm|operatorname|mathit|rm)\s*)?\{?\s*"
_SCALES: Final = r"(?:celsius|fahrenheit|centigrade|kelvins?)"
_SCALE: Final = re.compile(  # `100^\circ\text{C}`, `\text{ degrees Fahrenheit}`, `\text{ Celsius}`
    rf"\s*{_SET}(?:(?:\^\s*\{{?\s*\\circ\s*\}}?|degrees?|deg\.?)\s*\}}?\s*{_SET}((?-i:[CFK])|{_SCALES})|({_SCALES}))"
    r"\s*\}*\s*\Z",
    re.IGNORECASE,
)


_MINUTES: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*('{1,2})")


_MONEY: Final = frozenset((name, 1) for name in ("dollar", "euro", "sterling", "yen", "yuan", "rupee"))
_LENGTH: Final = frozenset({("length", 1)})
_COUNT: Final = frozenset({("count", 1)})
_LENGTHS: Final = frozenset({"length", "unit"})


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: the powers of its dimensions, and its size in the base units of the table."""

    dimensions: frozenset[tuple[str, int]]
    size: Fraction = field(default=Fraction(1))

    @property
    def is_count(self) -> bool:
        """Whether it is a number of things and no unit of measurement: it scales its value."""
        return self.dimensions == _COUNT

    def measures(self, other: Unit) -> bool:
        r"""Whether both measure the same: `\text{units}^2` measures an area."""
        if self.dimensions == other.dimensions:
            return True
        kinds = [{name for name, _ in one.dimensions} for one in (self, other)]
        powers = [{power for _, power in one.dimensions} for one in (self, other)]
        return {"unit"} in kinds and all(map(_LENGTHS.issuperset, kinds)) and powers[0] == powers[1]


DEGREE: Final = Unit(frozenset({("degree", 1)}))
RADIAN: Final = Unit(frozenset({("angle", 1)}))


class Quantity(NamedTuple):
    """A value as text and its unit, None where it names none of the table."""

    value: str
    unit: Unit | None

    @property
    def counted(self) -> str:
        """The value times what its unit stands for, as LaTeX."""
        size = Fraction(1) if self.unit is None else self.unit.size
        return (
            self.value
            if size == 1
            else f"({self.value})\\cdot\\frac{{{size.numerator}}}{{{size.denominator}}}"
        )


def quantity(text: str) -> Quantity:
    r"""Split `5 \text{ cm}^2` into its value and its unit; the whole text is the value where there is no known unit."""
    if (found := _SCALE.search(text)) is not None and found.start():
        scale = (found[1] or found[2])[0].upper()
        return Quantity(
            text[: found.start()], Unit(frozenset({("kelvin" if scale == "K" else f"degrees {scale}", 1)}))
        )
    if (found := _MINUTES.fullmatch(text)) is not None:
        return Quantity(found[1], Unit(frozenset({("degree", 1)}), Fraction(1, 60 ** len(found[2]))))
    if (found := _DEGREE.search(text)) is not None and found.start():
        return Quantity(text[: found.start()], DEGREE)
    if (priced := _price(text)) is not None:
        return priced
    for pattern in (_IN_MACROS, _IN_WORDS):
        found = pattern.search(text)
        if (
            found is None or not found.start() or _MACRO.search(text, 0, found.start())
        ):  # `3 hours 30 minutes`
            continue
        if (unit := unit_of(found[0]) or _count_of(found[0])) is not None:
            return Quantity(text[: found.start()].strip(), unit)
    return Quantity(text, None)


def _count_of(text: str) -> Unit | None:
    """Return what the first of some words counts in, as in `dozen eggs`; None where it does not."""
    first = re.match(r"[^A-Za-z]*([A-Za-z]+)", _MACRO.sub(" ", text))
    named = None if first is None else _named(first[1])
    return None if named is None or named[0] != "count" else Unit(_COUNT, named[1])


def _price(text: str) -> Quantity | None:
    found = _CURRENCY.match(text) or next(
        (sign for sign in _CURRENCY.finditer(text) if not text[sign.end() :].strip()), None
    )
    if found is None:
        return None
    rest = (text[: found.start()] + text[found.end() :]).strip()
    if _LISTED.search(rest):
        return None
    named = found[0].removeprefix("\\")
    name = _CURRENCIES.get(named) or {"pounds": "sterling", "euro": "euro", "yen": "yen"}[named]
    inner = quantity(rest) if not _CURRENCY.search(rest) else Quantity(rest, None)
    is_money = inner.unit is not None and bool(inner.unit.dimensions & _MONEY)  # `\$5 \text{ dollars}`
    value = inner.value if is_money else rest
    return Quantity(value, Unit(frozenset({(name, 1)}))) if any(map(str.isdigit, value)) else None


def counted_things(text: str) -> frozenset[str]:
    r"""Return the words in a text that are no unit: `adults` of `4 \text{ adults}`, in the singular."""
    return frozenset(
        word.casefold().removesuffix("s")
        for words in _SAID.findall(text)
        if unit_of(words) is None
        for word in _WORD.findall(words)
        if word.casefold() not in _SAYS_NOTHING
    )


def name_other_things(one: str, other: str) -> bool:
    """Return whether the words behind two values tell them apart: none's are among the other's, nor is one a unit."""
    ours, theirs = counted_things(one), counted_things(other)
    if ours and theirs:
        return not (ours <= theirs or theirs <= ours)
    beside = other if ours else one
    return bool(ours or theirs) and quantity(beside).unit not in (None, DEGREE, RADIAN)


def unit_of(text: str) -> Unit | None:
    """Return the unit that a text names; None where one of its words is no unit of the table."""
    words = _MACRO.sub(" ", text).replace("}^", "^").replace("\\cdot", " ").replace("\\times", " ")
    dimensions: dict[str, int] = {}
    size, sign, power, last = Fraction(1), 1, 1, None
    for token in _TOKEN.finditer(words.replace("{", " ").replace("}", " ")):
        word = token[1]
        if token[0] == "/" or word == "per":
            sign = -1
        elif word in _POWERS and token[0] == word:
            if word.endswith("d") and last is not None:
                size *= _add(dimensions, last, sign * (_POWERS[word] - 1))
            else:
                power = _POWERS[word]
        elif word is not None and (last := _named(word)) is not None:
            size *= _add(dimensions, last, sign * power * int(token[2] or 1))
            power = 1
        else:
            return None
    found = frozenset((name, count) for name, count in dimensions.items() if count)
    return Unit(found, size) if found else None


def _add(dimensions: dict[str, int], unit: tuple[str, Fraction], power: int) -> Fraction:
    """Add the dimensions of a unit to a power. Returns its size to that power."""
    names = unit[0].split()
    for place, name in enumerate(names):
        if name.lstrip("-").isdigit():
            continue
        count = names[place + 1] if place + 1 < len(names) and names[place + 1].lstrip("-").isdigit() else "1"
        dimensions[name] = dimensions.get(name, 0) + power * int(count)
    return Fraction(unit[1]) ** power


def _named(word: str) -> tuple[str, Fraction] | None:
    """Return a unit by its name, with its prefix, in the singular or the plural."""
    lowered = word if len(word) < 3 else word.lower()
    for name in (word, lowered, lowered.removesuffix("s"), lowered.removesuffix("es")):
        if name in _FACTORS or name in _OTHERS:
            dimension, factor = _FACTORS.get(name) or _OTHERS[name]
            return dimension, Fraction(factor)
        for prefixes, shortest in ((_PREFIXES, 0), (_LONG_PREFIXES, 4)):
            for prefix, times in prefixes.items():
                base = name.removeprefix(prefix)
                if base != name and base in _FACTORS and (len(base) >= 4) == bool(shortest):
                    dimension, factor = _FACTORS[base]
                    return dimension, Fraction(factor) * times
    return None


_GAP: Final = r"(?:\s|~|\\[,;: ]|\\quad(?![A-Za-z]))*"
_WORD: Final = re.compile(r"[A-Za-z]+")
_SAYS_NOTHING: Final = frozenset(
    {
        "a",
        "an",
        "the",
        "of",
        "in",
        "is",
        "are",
        "was",
        "for",
        "to",
        "as",
        "at",
        "on",
        "so",
        "only",
        "total",
        "each",
        "and",
    }
    | {
        "altogether",
        "different",
        "distinct",
        "possible",
        "such",
        "answer",
        "solution",
        "number",
        "value",
        "there",
        "or",
    }
    | {"we", "get", "have", "it", "final", "result", "exactly"}
)
_NUMBER_WITH_UNIT: Final = re.compile(
    rf"{_GAP}(?:(?:,|and|\\text\{{\s*(?:,|and)\s*\}}){_GAP})?([0-9]{{1,12}}(?:\.[0-9]{{1,12}})?){_GAP}"
    rf"(?:\\(?:text|mathrm)\s*\{{{_GAP}([A-Za-z]+)\.?{_GAP}(?:,|and)?\s*\}}|([A-Za-z]+)\.?){_GAP}"
)


def in_one_unit(text: str) -> str:
    r"""Return `3\text{ hours }30\text{ minutes}` in its first unit; any other text as it is.

    Units get smaller, and none but the first has as much as one of the unit before it.
    """
    if not text[:1].isdigit():
        return text
    total, first, last, end = Fraction(0), None, None, 0
    while (part := _NUMBER_WITH_UNIT.match(text, end)) is not None:
        unit = unit_of(part[2] or part[3])
        if unit is None or (last is not None and not _follows(unit, Fraction(part[1]), last)):
            return text
        if "," in text and unit.dimensions == _LENGTH and _is_metric(unit):
            return text  # `6 \text{ m}, 5 \text{ cm}` is a list; `5\text{ ft}, 6\text{ in}` may be one length
        first = first or (unit, part[2] or part[3])
        total, last, end = total + Fraction(part[1]) * unit.size, unit, part.end()
    if first is None or last is first[0] or end != len(text):
        return text
    value = total / first[0].size
    number = str(value) if value.denominator == 1 else f"\\frac{{{value.numerator}}}{{{value.denominator}}}"
    return f"{number}\\text{{ {first[1]}}}"


def _is_metric(unit: Unit) -> bool:
    """Return whether a length is a power of ten of a metre."""
    size = unit.size if unit.size >= 1 else 1 / unit.size
    return size.denominator == 1 and str(size.numerator).strip("0") == "1"


def _follows(unit: Unit, count: Fraction, before: Unit) -> bool:
    return unit.dimensions == before.dimensions and count * unit.size < before.size


_ONE_LETTER: Final = re.compile(
    r"(?<=[0-9})])\s*([A-Za-z](?:\s*\^\s*(?:[23]|\{[23]\})|/(?:[A-Za-z]|min)(?:\s*\^\s*(?:[23]|\{[23]\}))?)?)\Z"
)


def with_one_letter(one: Quantity, other: Quantity) -> tuple[Quantity, Quantity]:
    r"""Return two quantities; the letter behind one's number is a unit where the other has one: `6m`, `6\text{ ft}`."""
    return _read_letter(one, other), _read_letter(other, one)


def _read_letter(bare: Quantity, beside: Quantity) -> Quantity:
    if bare.unit is not None or beside.unit is None or beside.unit in (DEGREE, RADIAN):
        return bare
    found = _ONE_LETTER.search(bare.value)
    unit = None if found is None else unit_of(found[1]) or Unit(frozenset({(found[1], 1)}))
    return bare if found is None else Quantity(bare.value[: found.start()], unit)


_LAST_LETTERS: Final = re.compile(r"(?<![A-Za-z\\])([A-Za-z]{1,2})\s*\Z")
_IN_TEXT: Final = re.compile(r"\\(?:text|mathrm|operatorname|mathit|rm)\s*\{[^{}]*\}")
_SUM: Final = re.compile(
    r"(?<=.)[-+*]|[-+*/^_(,|<>]\Z"
)  # more than one number, as before the letter of `3 + 4t`
_INDEX: Final = re.compile(r"[_^]\{[^{}]*\}")
_COMMAND: Final = re.compile(r"\\(?:frac|sqrt|pi|cdot|times|ldots|infty|pm)(?![A-Za-z])")


def with_last_letters(one: str, other: str) -> tuple[str, str]:
    r"""Return two texts whose last letter can't be read as a unit where it is a variable, as in `\pi r^2 h`.

    It is one in an expression with variables, where the other text has it elsewhere than behind a number, and where the
    other text ends with letters too: `6m` is no `6h`.
    """
    letters = {
        found[1]
        for text, beside in ((one, other), (other, one))
        if (found := _LAST_LETTERS.search(text)) is not None
        and (_is_factor(text, found) or _stands_within(found[1], beside) or _LAST_LETTERS.search(beside))
    }
    return _shielded(one, letters), _shielded(other, letters)


def _is_factor(text: str, last: re.Match[str]) -> bool:
    if len(last[1]) > 1 and unit_of(last[1]) is not None:
        return False
    before = _COMMAND.sub("", _INDEX.sub("", text[: last.start()]).rpartition("=")[2]).rstrip()
    return any(map(str.isalpha, before)) or not before or _SUM.search(before) is not None


def _stands_within(letter: str, text: str) -> bool:
    found = _LAST_LETTERS.search(text)
    before = text if found is None else text[: found.start()]
    return re.search(rf"(?<![A-Za-z\\]){letter}(?![A-Za-z])", _IN_TEXT.sub("", before)) is not None


def _shielded(text: str, letters: set[str]) -> str:
    found = _LAST_LETTERS.search(text)
    is_shown = found is not None and text[: found.start()].strip() and found[1] in letters
    return text if found is None or not is_shown else f"{text[: found.start()]}{{{found[1]}}}"
