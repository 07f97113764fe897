r"""Mathematical answers as text: what can be said of them without reading them as mathematics.

In: an answer and a reference, each the content of a box or the like. Out: normal forms, numbers, and what makes two
texts differ whatever a computer algebra system says. Pure functions on texts of at most MAX_CHARS characters, called in
the scorer's process and in its child.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from scorers.math.doubts import doubts
from scorers.math.units import unit_of

_NUMBER: Final = re.compile(r"([-+]?)((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)")
_TORN: Final = re.compile(
    r"[0-9.,]\s+(?![0-9]{3}(?![0-9]))[0-9.]|,\s+"
)  # digits that a space parts, but for groups
_NEGATIVE_ZERO: Final = re.compile(r"(?:\A|[(,;])\s*-\s*0(?:\s*,|\Z)")  # `-0,245`, which may be a decimal
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,999}")
_PERCENT: Final = re.compile(r"%|\bper[\s~-]*cents?\b|percent|\bpct?\b|\bp\.c\.", re.IGNORECASE)
_SUBSCRIPTED: Final = re.compile(r"[0-9})\]]\s*_")
_BASED: Final = re.compile(r"([0-9A-Za-z]++)_(?:\{(?:\\text\{)?([0-9]+)\}{1,2}|([0-9]+))")
_WORD: Final = re.compile(r"[A-Za-z]{3,}")
_CONJUNCTION: Final = re.compile(r"\b(?:or|and)\b")
_LISTED: Final = re.compile(r"\\text\{\s*(?:or|and)\s*\}")  # read as a comma
_REMARK: Final = re.compile(r"\\(?:text(?:normal|bf|it|rm)?|math(?:rm|bf|it)|mbox)\{")
_REMARKS_END: Final = re.compile(r"\}(?:\^[0-9]|\{\^[0-9]\})?\Z")
_NUMERAL: Final = re.compile(
    r"[0-9]++|\b(?:or|and)\s+(?:an?\s+)?(?:half|zero|one|two|three|four|five|six|seven|eight|"
    r"nine|ten|eleven|twelve)\b"
)
_OTHERWISE: Final = re.compile(r"\bor\b")  # whatever it is that is offered beside the first value
# Digits that are no value: of a unit (`cm^2`, `m2`) or an index, of a modulus, `3-digit`, `to 2 decimal places`.
_ASIDE: Final = re.compile(
    r"(?<=[A-Za-z])[0-9]+|(?<=[A-Za-z{}])[\^_]\{?-?[0-9]+|\bmod(?:ulo)?\s+[0-9]+"
    r"|(?<![0-9])[0-9]++(?:-[A-Za-z]|\s+(?:decimal|significant))"
)


def tidy(answer: str) -> str:
    r"""Return the text without space around it and its sentence's full stop (`72.`, and not that of `\right.`)."""
    answer = answer.strip()
    answer = f"{answer[:-2]}$" if answer.endswith(".$") and answer.count("$") == 2 else answer
    sentence = answer.removesuffix(".").rstrip()
    is_ended = (
        sentence and len(sentence) < len(answer) and (sentence[-1].isalnum() or sentence[-1] in "_})]$%")
    )
    return sentence if is_ended and not sentence.endswith("\\right") else answer


def is_integer(text: str) -> bool:
    """Return whether the text is a plain integer of at most a thousand digits: two are equal as texts are."""
    return _INTEGER.fullmatch(text) is not None


def has_percent(text: str) -> bool:
    """Return whether the text is a percentage."""
    return _PERCENT.search(text) is not None


def difference(answer: str, reference: str, *, is_whole: bool = True) -> str | None:
    r"""Return what makes the answer another one than the reference before any of the two is computed; None: nothing.

    math_verify drops all of these. A percentage answers a reference that is one, and no other: `50\%` would equal both
    50 and 0.5. A number of another base is another number, and one without its base is unfinished (base ten is none). A
    word is no product of its letters, so an anagram is another word. A number in a remark is an answer, too. A
    word that negates or doubts takes a value back.

    Args:
        answer, reference: two boxes, or two single values in them.
        is_whole: whether nothing takes them apart before their remarks are compared.
    """
    if has_percent(answer) and not has_percent(reference):
        return "a percentage, which the reference is not"
    if (another := _another_number(answer, reference)) is not None:
        return another
    if _WORD.fullmatch(answer) and _WORD.fullmatch(reference) and answer.casefold() != reference.casefold():
        return "another word"
    if is_whole and left_out(answer) != left_out(reference):
        return "another number in a remark"
    if taken_back := sorted(doubts(answer) - doubts(reference)):
        return f"taken back or left open by {taken_back[0]!r}"
    return None


def _another_number(answer: str, reference: str) -> str | None:
    if _base(answer) != _base(reference):
        return "the base of the number differs"
    is_signed = _NEGATIVE_ZERO.search(answer), _NEGATIVE_ZERO.search(reference)
    return "a sign before 0" if (is_signed[0] is None) != (is_signed[1] is None) else None


def names_number(text: str) -> bool:
    """Return whether a number stands in it that may be meant as an answer: `/ 6` and `or six`, and not `cm^2`."""
    return bool(_numerals(text))


def _numerals(text: str) -> list[str]:
    return _NUMERAL.findall(_ASIDE.sub("", text))


def left_out(text: str) -> list[str]:
    r"""Return the numbers and the `or` in what math_verify and Hendrycks' grader leave out as the unit of a value.

    That is all from the first remark on where the text ends with a brace, or the remark begins with a space:
    `\text{ / 6}` in `5\text{ / 6}`, and `\mathbf{i} + 9\mathbf{j}` in `4\mathbf{i} + 9\mathbf{j}`.
    """
    text = _LISTED.sub(",", text)
    remark = _REMARK.search(text)
    if remark is None or not (_REMARKS_END.search(text) or text.startswith(" ", remark.end())):
        return []
    value = text[: remark.start()].rpartition("=")[2]
    rest = text[remark.end() :]
    return [*_numerals(rest), *_OTHERWISE.findall(rest)] if any(map(str.isalnum, value)) else []


def _base(text: str) -> str:
    """Return digits and base of a number that names its base, whatever its layout; "" for all else and for base ten."""
    if not _SUBSCRIPTED.search(text):
        return ""
    bare = "".join(text.split()).strip("$")
    if (based := _BASED.fullmatch(bare)) is None:
        return bare.replace("(", "").replace(")", "")
    base = based[2] or based[3]
    return "" if base == "10" else f"{_digits(based)}_{base}"


def without_base(text: str) -> str:
    """Return the digits alone of a number that names its base."""
    based = _BASED.fullmatch(text)
    return text if based is None else _digits(based)


def _digits(based: re.Match[str]) -> str:
    return based[1].lstrip("0") or "0"


def plain_number(text: str) -> Decimal | None:
    r"""Return the value of a decimal number, `$` and thousands' commas allowed; None for any other text."""
    bare = text.replace("\\$", "").replace("$", "").strip()
    found = None if _TORN.search(bare) else _NUMBER.fullmatch(bare.replace(" ", ""))
    return None if found is None else Decimal(found[1] + found[2].replace(",", ""))


_STRUCK: Final = ("\n", "\\!", "\\left", "\\right", "\\$", "$", "\\%", "%")
_DEGREES: Final = re.compile(r"\^\{?\\circ\}?")
_BARE_POINT: Final = re.compile(r"(^|[ {])\.(?=[0-9])")
_ROOT: Final = re.compile(r"\\sqrt\s*(\w)")
_FRACTION_OF_TWO: Final = re.compile(r"\\frac\s*(\w)\s*(\w)")
_FRACTION_OF_ONE: Final = re.compile(r"\\frac\s*(\w)\s*\{")
_HALF_FRACTION: Final = re.compile(r"(\\frac\{[^{}]*\})(\w)")
_NAME: Final = re.compile(r"[A-Za-z]\w?")
_SLASHED: Final = re.compile(r"(-?[0-9]+)/(-?[0-9]+)")


def normalised(text: str) -> str:
    r"""Return the spelling that Hendrycks' grader compares: `\frac12`, `1/2` and `0.5` are one, `0.50` is another.

    Source: its published behaviour (arXiv:2103.03874, the authors' `is_equiv`), written anew.
    """
    for struck in _STRUCK:
        text = text.replace(struck, "")
    text = text.replace("\\\\", "\\").replace("tfrac", "frac").replace("dfrac", "frac")
    text = _DEGREES.sub("", text)
    quantity, unit, rest = text.partition("\\text{ ")
    if unit and not _CONJUNCTION.search(rest):
        text = quantity
    text = _BARE_POINT.sub(r"\g<1>0.", text)
    head, equals, tail = text.partition("=")
    if equals and "=" not in tail and _NAME.fullmatch(head.strip()):  # `k = 5`
        text = tail
    text = _ROOT.sub(r"\\sqrt{\1}", text)
    text = _FRACTION_OF_ONE.sub(r"\\frac{\1}{", _FRACTION_OF_TWO.sub(r"\\frac{\1}{\2}", text)).replace(
        " ", ""
    )
    text = _HALF_FRACTION.sub(r"\1{\2}", text)
    if text == "0.5":
        return "\\frac{1}{2}"
    return _SLASHED.sub(r"\\frac{\1}{\2}", text) if _SLASHED.fullmatch(text) else text


def same_spelling(answer: str, reference: str) -> bool:
    """Return whether two texts have one normal spelling, and neither name nor unit that is struck from it differs."""
    if normalised(answer) != normalised(reference) or not normalised(answer):
        return False
    heads = [text.partition("=")[0].strip() if "=" in text else "" for text in (answer, reference)]
    tails = [text.partition("\\text{ ")[2].rstrip("} ").casefold() for text in (answer, reference)]
    if "" not in heads and heads[0] != heads[1]:
        return False
    if "" in tails:
        unit = unit_of("".join(tails)) if any(tails) else None
        return unit is None or not unit.is_count
    return tails[0] == tails[1]


_THIN_SPACE: Final = re.compile(r"(?<!\\)\\[,;:! ]")
_THOUSANDS: Final = re.compile(r"(?<![0-9.,(\[])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")


class Elements(NamedTuple):
    """A tuple as written: one part and no brackets where the text is none."""

    opening: str
    parts: tuple[str, ...]
    closing: str


def elements(text: str) -> Elements:
    r"""Split at the commas that stand in no inner bracket. A number with thousands' commas is one part.

    So is a set (`\{1, 2\}`), whose order does not matter.
    """
    bare = text.replace("\\left", "").replace("\\right", "").strip().strip("$").strip()
    bare = _THIN_SPACE.sub(" ", bare)
    bare = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), bare)
    whole = Elements("", (text,), "")
    if plain_number(bare) is not None or bare.startswith("\\{"):
        return whole
    opening, closing, parts = "", "", split_outside(bare, ",")
    if (
        bare[:1] in ("(", "[")
        and bare[-1:] in (")", "]")
        and (inner := split_outside(bare[1:-1], ",")) is not None
    ):
        opening, closing, parts = bare[0], bare[-1], inner
    return whole if parts is None or len(parts) == 1 else Elements(opening, tuple(parts), closing)


def split_outside(text: str, separator: str) -> list[str] | None:
    """Return the parts between separators outside all brackets; None where a bracket closes that never opened."""
    parts, start, depth = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return None
        if character == separator and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]


_MATRIX: Final = re.compile(r"\\begin\{([pbvBV]?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}", re.DOTALL)
_POWER: Final = re.compile(r"([2-9]|[1-9][0-9]{1,9})\s*\^\s*(?:\{(.+)\}|(\S))", re.DOTALL)
_MOST_BITS: Final = 50_000  # of a power that is computed
_FIGURES: Final = re.compile(
    r"(-)?(?:([0-9]{1,60}(?:\.[0-9]{1,60})?)|\\frac\{([0-9]{1,60})\}\{([0-9]{1,60})\})"
)
_FAR: Final = Fraction(1, 1000)  # of the reference; what is nearer is looked at more closely


def same_numbers(answer: str, reference: str) -> bool | None:
    r"""Return whether two integers, lists, tuples, sets, matrices or powers of integers are equal; None of all else.

    Two numbers in figures that are far from each other are no question either: `\frac{3}{2}` and `83`.

    Nothing large is computed, so that numbers of any length and towers of any height are compared at once. Lists and
    sets have no order; a power is equal to another one of the same base where the exponents are.
    """
    if is_integer(answer) and is_integer(reference):
        return answer == reference
    if _are_far_apart(_plain_fraction(answer), _plain_fraction(reference)):
        return False
    wanted, given = _POWER.fullmatch(reference), _POWER.fullmatch(answer)
    if wanted is not None and given is not None and wanted[1] == given[1]:
        return _same_powers(given, wanted)
    if wanted is not None and answer.startswith("-") and _POWER.fullmatch(answer[1:]):
        return False  # one is positive, the other is not
    kinds = _integers(reference), _integers(answer)
    if kinds[0] is None or kinds[1] is None or kinds[0][0] != kinds[1][0]:
        return None
    return kinds[0] == kinds[1]


def _plain_fraction(text: str) -> Fraction | None:
    """Return the value of an integer, a decimal or a fraction of integers in figures; None of all else."""
    found = _FIGURES.fullmatch(text)
    if found is None or (found[4] is not None and not int(found[4])):
        return None
    value = Fraction(found[2]) if found[2] else Fraction(int(found[3]), int(found[4]))
    return -value if found[1] else value


def _are_far_apart(given: Fraction | None, wanted: Fraction | None) -> bool:
    """Return whether two numbers differ by so much that no rule for rounded ones could hold them for equal."""
    return given is not None and wanted is not None and abs(given - wanted) > abs(wanted) * _FAR


def _same_powers(given: re.Match[str], wanted: re.Match[str]) -> bool | None:
    """Return whether two powers of one base are equal: where the exponents are, or those of one base in them."""
    while True:
        answer, reference = _exponent(given), _exponent(wanted)
        values = _small_value(answer), _small_value(reference)
        if None not in values:
            return values[0] == values[1]
        powers = _POWER.fullmatch(answer), _POWER.fullmatch(reference)
        if powers[0] is None or powers[1] is None or powers[0][1] != powers[1][1]:
            return None
        given, wanted = powers[0], powers[1]


def _exponent(power: re.Match[str]) -> str:
    return (power[2] or power[3]).strip()


def _small_value(text: str, deepest: int = 5) -> int | None:
    """Return an integer, or a tower of integers, of at most so many bits; None of any other text."""
    if is_integer(text):
        return int(text)
    power = _POWER.fullmatch(text) if deepest else None
    exponent = None if power is None else _small_value(_exponent(power), deepest - 1)
    if power is None or exponent is None or not 0 <= exponent * int(power[1]).bit_length() <= _MOST_BITS:
        return None
    value: int = int(power[1]) ** exponent
    return value


def _integers(text: str) -> tuple[str, object] | None:
    """Return the kind and the integers of a list, a tuple, a set or a matrix of integers; None of all else."""
    if (matrix := _MATRIX.fullmatch(text)) is not None:
        rows = [
            [cell.strip() for cell in row.split("&")]
            for row in matrix[2].strip().removesuffix("\\\\").split("\\\\")
        ]
        whole = all(is_integer(cell) for row in rows for cell in row)
        return (f"matrix {matrix[1] in ('vmatrix', 'Vmatrix')}", rows) if whole else None
    opening, inner, closing = "", text, ""
    if text.startswith("\\{") and text.endswith("\\}"):
        opening, inner, closing = "{", text[2:-2], "}"
    elif text[:1] in ("(", "[") and text[-1:] in (")", "]"):
        opening, inner, closing = text[0], text[1:-1], text[-1]
    parts = [part.strip() for part in inner.split(",")]
    if (
        len(parts) < 2
        or not all(map(is_integer, parts))
        or (not opening and any(len(part) == 3 for part in parts[1:]))
    ):
        return None  # `1,234` is a number
    if opening == "{":
        return "set", sorted(set(parts))
    return (f"{opening}{closing}", parts if opening else sorted(parts))


_BARE_NUMBER: Final = re.compile(
    r"(?<![\w.,/^*])-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]++)(?:\.[0-9]++)?(?:/[0-9]++)?"
    r"(?![\w/^*])"
)
_SET_APART: Final = re.compile(
    r"\$\$(.+?)\$\$|(?<!\\)\$(.+?)(?<!\\)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL
)


def last_expression(text: str) -> str:
    """Return the last piece of a text that is set apart as mathematics, or its last bare number; "" without either."""
    found = [next(filter(None, one)) for one in _SET_APART.findall(text)]
    return found[-1].strip() if found else last_number(text)


def last_number(text: str) -> str:
    """Return the last number that stands alone in a text; "" without one."""
    numbers = _BARE_NUMBER.findall(text)
    return numbers[-1] if numbers else ""
