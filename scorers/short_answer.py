"""Scorers of short answers share this: a response, one place in it where the answer stands, a verdict on its text.

In: the text of a completion and a row. Out: 1.0 or 0.0 with a reason. `scorers.table.scorer`, `scorers.choice.scorer`
and `scorers.search.scorer` say what a reference is and what equals it; the rest is here. Nothing here can hang or
break, so nothing raises `Retryable`; every step is linear in the length of the text.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from broker.errors import BadMessage
from broker.scores import Score
from scorers.custom import SimpleScorer
from scorers.scorer import SelfTestFailed, make_score
from scorers.text.extract import Unanswered, answering_part, within
from tasks.values import listed, shown

MAX_ANSWER_CHARS: Final = 2_000  # no reference of these tasks comes near it

Reference = TypeVar("Reference")


class Decision(NamedTuple):
    """A decision on one answer."""

    value: float | None  # 1.0 or 0.0; None where nobody could match the reference
    reason: str


class SelfTest(NamedTuple):
    """A completion whose value is known."""

    row_type: str
    reference: Any  # `answer.value`
    text: str
    value: float


class ShortAnswer(SimpleScorer, Generic[Reference]):
    """This base class scores answers that stand in one place and are compared as text or numbers. It holds no state."""

    types: Sequence[str]
    """The row types that the scorer takes."""
    self_tests: Sequence[SelfTest]
    """At least one right and one wrong answer of each type."""

    @abstractmethod
    def reference(self, answer: Mapping[str, Any], row_type: str) -> Reference:
        """Read a row's answer. Raises BadMessage naming what the answer lacks."""

    @abstractmethod
    def judge(self, response: str, reference: Reference) -> Decision:
        """Decide on the part of a completion that answers, at most MAX_RESPONSE_CHARS long.

        Raises:
            Unanswered: the part holds no answer; see `stated`.
        """

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Refuse a row of no known type, or without a reference of its type. Raises BadMessage."""
        self._reference_of(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Give 1.0 where the answer is the reference's, else 0.0. Raises BadMessage as `check_row`."""
        started = time.monotonic()
        value, reason = self._verdict(text, self._reference_of(verification_info))
        return make_score(self, value, reason, started=started)

    def self_test(self) -> None:
        """Score all `self_tests`. Raises SelfTestFailed where a value is not the expected one."""
        for row_type, reference, text, expected in self.self_tests:
            score = self.score(text, {"type": row_type, "answer": {"value": reference}})
            if score.value != expected:
                raise SelfTestFailed(
                    f"the {self.name} scorer's self-test failed: {shown(text)} against "
                    f"{shown(reference)} gave {score.value} ({score.reason}), expected {expected}; "
                    f"version: {self.version}"
                )

    def _reference_of(self, verification_info: Mapping[str, Any]) -> Reference:
        row_type, answer = verification_info.get("type"), verification_info.get("answer")
        if not isinstance(row_type, str) or row_type not in self.types:
            raise BadMessage(
                f"the {self.name} scorer takes rows of type {listed(self.types)}; got {shown(row_type)}"
            )
        if not isinstance(answer, Mapping) or answer.get("value") is None:
            raise BadMessage(
                f"no answer: a row of type {row_type!r} needs an answer with a value; got {shown(answer)}"
            )
        return self.reference(answer, row_type)

    def _verdict(self, text: str, reference: Reference) -> Decision:
        try:
            return self.judge(answering_part(text), reference)
        except Unanswered as error:
            return Decision(0.0, str(error))


def flag(answer: Mapping[str, Any], name: str) -> bool:
    """Read a part of a row's answer that is true or false; a missing part is false. Raises BadMessage."""
    value = answer.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadMessage(f"answer.{name} must be true or false, got {shown(value)}")
    return bool(value)


def stated(answer: str | None, place: str) -> str:
    """Give an answer's text. Raises Unanswered where the text is missing, empty, or longer than any answer."""
    if answer is None:
        raise Unanswered(f"no answer: no closed {place} after the thinking")
    if not answer.strip():
        raise Unanswered(f"no answer: the last {place} is empty")
    return within(answer, MAX_ANSWER_CHARS)
