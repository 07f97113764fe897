"""A scorer of one's own, to start from: the letter of a multiple choice, in `<answer>`.

The row: {"type": "letter", "answer": {"value": "B", "choices": "ABCD"}}; the choices may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.errors import BadMessage
from broker.messages import Score
from scorers.custom import SimpleScorer
from scorers.text.extract import last_answer, response_part


class Letter(SimpleScorer):
    """1.0 where the last `<answer>` is the row's letter, else 0.0. `options` of the task are its arguments."""

    name = "letter"
    version = "1"  # raise it with any change that can change a value

    def __init__(self, *, ignore_case: bool = False) -> None:
        self._ignore_case = ignore_case

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        answer = verification_info.get("answer")
        value = answer.get("value") if isinstance(answer, Mapping) else None
        if not isinstance(value, str) or len(value) != 1 or value not in str(answer.get("choices", value)):
            raise BadMessage(f"a letter row needs an answer with one letter as its value, got {answer!r}")

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        response = response_part(text)
        if response is None:
            return self.scored(0.0, "no answer: the thinking was never closed")
        answer, expected = last_answer(response), verification_info["answer"]["value"]
        if answer is None:
            return self.scored(0.0, "no answer: no closed <answer>")
        if self._ignore_case:
            answer, expected = answer.upper(), expected.upper()
        return self.scored(answer == expected, f"answered {answer[:20]!r}, expected {expected!r}")
