"""A rubric model's reply is read here: the points out of ten as a value from 0 to 1, or nothing that counts.

In: the reply, and the case that the model was asked about. Out: a `Ruling`; a ruling without a value leaves the answer
unscorable. The total is read as everywhere (`scorers.text.totals`): the last line that begins with a total counts.

A model may quote what it was given, or say what it is told there. A total whose line is the reply's last and carries
the call's code counts without question, since no solution holds the code. Models that were trained on bare totals give
no code. A total above 0 without the code does not count where the solution names that very grade itself, in any way
that a reader may take it (`scorers.text.escapes`): the total is read first, and numbers are compared, not spellings. A
total of 0 always counts: there is nothing to gain by it. Everything here is linear in the length of the texts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from scorers.rubric.prompt import RubricCase
from scorers.served_model.protocol import CUT_OFF, ENDED_BY, Ruling
from scorers.text.escapes import views
from scorers.text.extract import response_part
from scorers.text.totals import OUT_OF, Total, total_of

_FENCES: Final = ("```", "~~~")
_LABEL: Final = re.compile(r"total|final|overall|score", re.IGNORECASE)
_NUMBER: Final = re.compile(
    r"(?<![0-9.])(?P<plain>[0-9]+(?:\.[0-9]+)?)(?!\.?[0-9])(?P<power>e[-+]?[0-9]{1,4})?"
)
_OF_TEN: Final = re.compile(
    r"\s*(?:points?|pts)?\s*(?:[/|\u2044\u2215]|(?:out\s+)?of|over)\s*10(?![0-9])", re.IGNORECASE
)
# What makes a number behind it a grade: near, or with nothing between them that a total's line may not have there.
_NAMED: Final = re.compile(
    r"score|grade|grading|(?:total|points|marks?)\s*:"
    r"|(?:final|overall|total)[a-z\s_]{0,20}\(\s*(?:out\s+of|of|max\.?|maximum|/|0\s*(?:-|\u2013|to))\s*10[^)]{0,10}\)"
)
_NEAR: Final = 60  # characters
_BETWEEN: Final = re.compile(
    r"(?:[^a-z]|(?<![a-z])(?:is|was|of|out|to|points?|max(?:imum)?|awarded|given|earned|obtained)(?![a-z]))*"
)


def verdict_of(text: str | None, finish_reason: str | None, case: RubricCase) -> Ruling:
    """Read the grade of `case` in a rubric model's reply.

    Args:
        text: the reply, its thinking included; None where the endpoint gave no content.
        finish_reason: as the endpoint gave it.
        case: what was graded.
    """
    if finish_reason == CUT_OFF:
        return Ruling(None, f"the rubric model's reply was cut off {ENDED_BY}")
    if not text or not text.strip():
        return Ruling(None, "the rubric model's reply is empty")
    response = response_part(text)
    if response is None:
        return Ruling(None, "the rubric model's thinking never ended")
    total, has_code = _total(response, case.nonce)
    if total.points is None:
        return Ruling(None, f"the rubric model's reply has no total: {total.reason}")
    if total.points > 0 and not has_code and _is_quotable(total.points, response, case):
        return Ruling(None, f"the rubric model's {total.reason} has no code, and may be a quotation")
    return Ruling(total.points / OUT_OF, f"the rubric model says: {total.reason}")


def _total(response: str, nonce: str) -> tuple[Total, bool]:
    """Find the total, and say whether it carries the code."""
    lines = [line for line in response.splitlines() if line.strip() and not line.lstrip().startswith(_FENCES)]
    if lines and nonce in lines[-1]:
        total = total_of(lines[-1])
        if total.points is not None:
            return total, True
    return total_of(response), False


def _is_quotable(points: float, response: str, case: RubricCase) -> bool:
    """Say whether a text that the model was given could have put that total into its reply."""
    of_row = (view for text in (case.question, case.criteria) for view in (text, *views(text)))
    if any(total_of(view).points == points for view in of_row):
        return True
    is_bare = _LABEL.search(response) is None  # the reply is a number alone
    return any(points in (_numbers(view) if is_bare else _grades(view)) for view in views(case.solution))


def _numbers(text: str) -> Iterator[float]:
    """Give every number that stands in a text of small letters."""
    for number in _NUMBER.finditer(text):
        yield from _values(number)


def _grades(text: str) -> Iterator[float]:
    """Give every number there that is out of ten, or named a grade."""
    numbers = list(_NUMBER.finditer(text))
    for number in numbers:
        if _OF_TEN.match(text, number.end()):
            yield from _values(number)
    for name in _NAMED.finditer(text):
        between = _BETWEEN.match(text, name.end())
        end = max(name.end() + _NEAR, between.end() if between else 0)
        first = bisect_left(numbers, name.end(), key=lambda number: number.start())
        while first < len(numbers) and numbers[first].start() <= end:
            yield from _values(numbers[first])
            first += 1


def _values(number: re.Match[str]) -> Iterator[float]:
    """Give what a number is, with its power of ten and without."""
    yield float(number["plain"])
    if number["power"]:
        yield float(number.group())
