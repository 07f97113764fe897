"""What stands in a cell of a table: a number, a percentage, or words; and when two of them are the same.

In: a reference or an answer as text. Out: a `Value`, or whether an answer equals a reference. Pure functions on texts
of at most MAX_ANSWER_CHARS characters, in decimal arithmetic: nothing that a model writes is evaluated.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from scorers.math.text import has_percent
from scorers.text.latex import words

TOLERANCE: Final = Decimal("0.001")  # of the reference's value: Reasoning360's and MultiHiertt's
_ROUNDED: Final = Decimal("0.005")  # and so much where one is the other rounded,
_DIGITS_GIVEN: Final = 3  # if an answer that is the rounded one has at least so many digits
_MAX_NUMBER_CHARS: Final = 60
_AROUND: Final = ' "*'  # of words: quotes and emphasis
_DASHES: Final = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d", '"'),
    }
)
_DIGITS: Final = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_NUMBER: Final = re.compile(
    rf"(?:\\approx|\u2248)?\s*([-+]?)\s*[\u20ac\u00a3\u00a5]?\s*([-+]?{_DIGITS})"
    rf"(?:\s*/\s*({_DIGITS}))?(?:[eE]([-+]?[0-9]{{1,2}}))?\s*([^0-9]*)"
)
_UNIT: Final = re.compile(r"[A-Za-z%\u00b0\u20ac\u00a3\u00a5 ./-]*")
# What after a number makes another one of it, or offers a second: then it is no plain number.
_NO_UNIT: Final = re.compile(
    r"\b(?:hundreds?|thousands?|millions?|billions?|trillions?|dozens?|[kmbtei]|mm|mn|mil|bn|"
    r"tn|pi|or|and|to|not|than|st|nd|rd|th)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Value:
    """One value as written."""

    text: str  # in normal form
    number: Decimal | None  # without its percent sign; None where it is no plain number
    is_percent: bool  # whether it has one

    @property
    def as_number(self) -> Decimal | None:
        """The value as a number: 0.145 for 14.5%."""
        return self.number.scaleb(-2) if self.number is not None and self.is_percent else self.number


def read(text: str, *, is_reference: bool = False) -> Value:
    """Return a value as text, with its number where it is one.

    An answer may have a unit in words (`5 years`) and be a fraction (`3/4`); in a reference those make it words, since
    `2nd` and `2013/14` are.
    """
    plain = words(text.translate(_DASHES))
    marks_gone = "".join(
        char for char in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(char)
    )
    normal = " ".join(marks_gone.casefold().split())
    number, is_percent = _number(plain, is_reference=is_reference)
    return Value(
        normal.lstrip(_AROUND).rstrip(f"{_AROUND}.") if number is None else normal, number, is_percent
    )


def _number(text: str, *, is_reference: bool) -> tuple[Decimal | None, bool]:
    """Return the number in a text that is one, and whether it is a percentage."""
    if len(text) > _MAX_NUMBER_CHARS or (found := _NUMBER.fullmatch(text)) is None:
        return None, False
    sign, above, below, exponent, unit = found.groups(default="")
    unit = unit.strip().removesuffix(".")
    is_percent = has_percent(unit)
    is_bare = not unit or unit in {"%", "percent"}
    if not is_bare and (is_reference or not _UNIT.fullmatch(unit) or _NO_UNIT.search(unit)):
        return None, False
    if (sign and above[0] in "+-") or (below and (is_reference or exponent)):
        return None, False
    number = Decimal(sign + above.replace(",", ""))
    if exponent:
        number = number.scaleb(int(exponent))
    if below:
        divisor = Decimal(below.replace(",", ""))
        return (number / divisor, is_percent) if divisor else (None, False)
    return number, is_percent


def same(answer: Value, reference: Value, *, percent: bool, most: Decimal | None = None) -> bool:
    """Return whether the answer is the reference: the same words, or numbers that are near enough.

    Args:
        answer, reference: as `read`.
        percent: the question asks for a percentage, so 14.5%, 14.5 and 0.145 are one. So they are where the reference
            has a percent sign. Elsewhere an answer of 14.5% is 0.145 and nothing else.
        most: the largest difference of numbers, whatever the tolerance gives; None: no such limit.
    """
    if answer.text == reference.text and (answer.number is not None or reference.number is None):
        return True  # one in superscripts is no number, though its text becomes the same
    number = reference.as_number
    return number is not None and any(
        _near(reading, number, most) for reading in _readings(answer, percent=percent or reference.is_percent)
    )


def _readings(answer: Value, *, percent: bool) -> Iterator[Decimal]:
    """Yield what the answer's number may be meant as."""
    if answer.number is None or answer.as_number is None:
        return
    yield answer.as_number
    if percent:
        yield answer.number if answer.is_percent else answer.number.scaleb(-2)
        if not answer.is_percent:
            yield answer.number.scaleb(2)


def _near(answer: Decimal, reference: Decimal, most: Decimal | None) -> bool:
    """Equal; of two whole numbers nothing less. Else within the tolerance, or one of them is the other rounded.

    What is half a unit or more from a whole reference is another number, however large they are.
    """
    if answer == reference:
        return True
    apart = abs(answer - reference)
    if _is_whole(reference) and (_is_whole(answer) or apart * 2 >= 1):
        return False  # 2019.5 would be 2018, 2019, 2020 and 2021
    if most is not None and apart > most:
        return False
    if apart <= TOLERANCE * abs(reference):
        return True
    places = min(_places(answer), _places(reference))
    return (
        places > 0
        and apart <= _ROUNDED * abs(reference)
        and apart * 2 <= Decimal(1).scaleb(-places)
        and (places < _places(answer) or len(answer.as_tuple().digits) >= _DIGITS_GIVEN)
    )


def _is_whole(number: Decimal) -> bool:
    return number == number.to_integral_value()


def _places(number: Decimal) -> int:
    """Count the digits after the point, as written."""
    exponent = number.as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0
