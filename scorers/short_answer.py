"""What scorers of short answers share: a response, one place in it where the answer stands, a verdict on its text.

In: the text of a completion and a row. Out: 1.0 or 0.0 with a reason. `scorers.table.scorer`, `scorers.choice.scorer`
and `scorers.search.scorer` say what a reference is and what equals it; what comes before that is here. Nothing that is
done here can hang or break, so nothing raises `Retryable`; every step is linear in the length of the text.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from broker.errors import BadMessage
from broker.messages import Score
from scorers.custom import SimpleScorer
from scorers.scorer import SelfTestFailed, make_score
from scorers.text.extract import Unanswered, answering_part, within
from tasks.values import listed, shown

MAX_ANSWER_CHARS: Final = 2_000  # no reference of these tasks comes near it

Reference = TypeVar("Reference")


class Decision(NamedTuple):
    """What is said of one answer."""

    value: float | None  # 1.0 or 0.0; None where the reference is one that nobody could match
    reason: str


class SelfTest(NamedTuple):
    """A completion whose value is known."""

    row_type: str
    reference: Any  # `answer.value`
    text: str
    value: float


class ShortAnswer(SimpleScorer, Generic[Reference]):
    """A scorer of answers that stand in one place and are compared as text or numbers. Holds nothing."""

    types: Sequence[str]
    """The row types that it takes."""
    self_tests: Sequence[SelfTest]
    """At least one right and one wrong answer of each type."""

    @abstractmethod
    def reference(self, answer: Mapping[str, Any], row_type: str) -> Reference:
        """A row's answer, read. Raises BadMessage naming what it lacks."""

    @abstractmethod
    def judge(self, response: str, reference: Reference) -> Decision:
        """What is to be said of the part of a completion that answers, at most MAX_RESPONSE_CHARS long.

        Raises:
            Unanswered: it holds no answer; see `stated`.
        """

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage where the row is of no known type, or its answer is no reference of that type."""
        self._reference_of(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """1.0 where the answer is the reference's, else 0.0. Raises BadMessage as `check_row`."""
        started = time.monotonic()
        value, reason = self._verdict(text, self._reference_of(verification_info))
        return make_score(self, value, reason, started=started)

    def self_test(self) -> None:
        """Raises SelfTestFailed unless every one of `self_tests` comes out as it says."""
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
    """A part of a row's answer that is true or false, and false where it is not there. Raises BadMessage."""
    value = answer.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadMessage(f"answer.{name} must be true or false, got {shown(value)}")
    return bool(value)


def stated(answer: str | None, place: str) -> str:
    """The text of an answer, which is neither empty nor longer than any answer. Raises Unanswered."""
    if answer is None:
        raise Unanswered(f"no answer: no closed {place} after the thinking")
    if not answer.strip():
        raise Unanswered(f"no answer: the last {place} is empty")
    return within(answer, MAX_ANSWER_CHARS)
