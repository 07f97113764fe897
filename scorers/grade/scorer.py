"""The reward that trains a rubric model: how near the grade that the policy gives comes to the right one.

In: the text of a completion, which is a grading and ends with a total out of ten, and a row
`{"type": "grade", "answer": {"value": 0.7}}`. Out: (1 - |total / 10 - value|) squared, always in [0, 1]; a grading
without a total (`scorers.text.totals`) is 0 with the reason. Pure text work in the scorer's process; it can't fail.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from broker.errors import BadMessage
from broker.scores import Score
from config.scorer_kinds import GradeConfig
from scorers.custom import SimpleScorer
from scorers.scorer import SelfTestFailed
from scorers.text.totals import OUT_OF, total_of

RULES: Final = 3  # raise it with any change here or in scorers.text.totals that can change a score


class GradeAnswer(SimpleScorer):
    """Scorer of gradings by the grade that they end with."""

    name = "grade"
    version = str(RULES)

    def __init__(self, config: GradeConfig) -> None:
        """Start nothing yet."""
        self._config = config

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage where the right grade is no number on its scale."""
        self._gold(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Return how near; the component `stated` is the grade given, from 0 to 1. Raises BadMessage as `check_row`."""
        gold = self._gold(verification_info)
        total = total_of(text)
        if total.points is None:
            return self.scored(0.0, f"no grade: {total.reason}")
        stated = total.points / OUT_OF
        score = self.scored(
            (1.0 - abs(stated - gold)) ** 2, f"graded {stated:g}, the right grade is {gold:g}"
        )
        return replace(score, components={"stated": stated})

    def self_test(self) -> None:
        """Raises SelfTestFailed unless the right grade is 1, the opposite one 0, and none 0."""
        row = {"type": "grade", "answer": {"value": OUT_OF if self._config.gold == "points" else 1.0}}
        for text, expected in (("Total Score: 10/10", 1.0), ("Total Score: 0/10", 0.0), ("", 0.0)):
            if (score := self.score(text, row)).value != expected:
                raise SelfTestFailed(
                    f"the grade scorer gives {score.value} for {text!r}, where {expected} is right: "
                    f"{score.reason}"
                )

    def _gold(self, verification_info: Mapping[str, Any]) -> float:
        """Return the right grade, from 0 to 1."""
        answer = verification_info.get("answer")
        value = answer.get("value") if isinstance(answer, Mapping) else None
        try:
            gold = (
                float(value)
                if isinstance(value, str | int | float) and not isinstance(value, bool)
                else math.nan
            )
        except (ValueError, OverflowError):
            gold = math.nan
        is_points = self._config.gold == "points"
        most = OUT_OF if is_points else 1.0
        if 0.0 <= gold <= most:
            return gold / most
        if 1.0 < gold <= OUT_OF:
            raise BadMessage(
                f"a grade row whose value {value!r} is in points, where one from 0 to 1 is wanted; with "
                "`gold: points` in the scorer's section every value of the task is read out of 10, and "
                "1 is then a tenth"
            )
        raise BadMessage(f"a grade row needs a number from 0 to {most:g} in answer.value, got {value!r:.80}")
