"""Rows that a rubric model or TinyV scores, and what of a response a rubric model gets to see.

In: a row's `verification_info`, and the text of a completion. Out: reference, question and criteria of the row; the
solution to grade, or why there is none. Type `rubric` brings criteria of its own and may do without a reference, where
no rule is asked. Type `tinyv` brings a reference and no criteria, and so do the rows of `math` and `judge` that a task
gives to TinyV. `tasks.route` puts the prompt in the place of a question that a row lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker.errors import BadMessage
from config.scorer_kinds import reads
from scorers.served_model.protocol import NothingToJudge
from scorers.text.contentless import says_nothing
from scorers.text.extract import Unanswered, closed_part, within
from tasks.kinds import TASK_OF_TYPE

_KNOWN: Final = ("value", "question", "criteria")


@dataclass(frozen=True, slots=True)
class VerifiedRow:
    """This holds what a verifier's row says; "" where the row says nothing."""

    reference: str
    question: str
    criteria: str


def row_of(verification_info: Mapping[str, Any], scorer: str, needs: Sequence[str]) -> VerifiedRow:
    """Read a row's texts.

    Args:
        verification_info: the row.
        scorer: `rubric` or `tinyv`, for messages and the types of rows.
        needs: the keys that the row's answer must have.
    Raises:
        BadMessage: naming what the row lacks.
    """
    types = [row_type for row_type, kind in TASK_OF_TYPE.items() if reads(scorer, kind)]
    if verification_info.get("type") not in types:
        raise BadMessage(
            f"the {scorer} scorer needs verification_info of type {', '.join(map(repr, types))}, got "
            f"{verification_info.get('type')!r:.80}"
        )
    answer = verification_info.get("answer")
    found = answer if isinstance(answer, Mapping) else {}
    texts = {name: _text(found.get(name), name, scorer) for name in _KNOWN}
    if lacks := [name for name in needs if not texts[name]]:
        raise BadMessage(
            f"a row without {' and '.join(lacks)}: the {scorer} scorer needs verification_info "
            f'{{"type": "{scorer}", "answer": {{...}}}} with {", ".join(needs)} in its answer, got '
            f"{answer!r:.120}"
        )
    return VerifiedRow(texts["value"], texts["question"], texts["criteria"])


def nothing_in(text: str, row: VerifiedRow) -> str | None:
    """Say why no rule or verifier could find a completion right; None where the completion says something."""
    try:
        response = closed_part(text)
    except Unanswered as error:
        return str(error)
    if says_nothing(response, row.reference):
        return f"an answer without content, about which nobody is asked: {response.strip()[:60]!r}"
    return None


def solution_of(text: str, row: VerifiedRow, max_chars: int) -> str:
    """Take all that follows the thinking: a rubric is about the way, not about the result alone.

    Args:
        text: the completion.
        row: what the completion answers.
        max_chars: a solution with more characters is wrong.
    Raises:
        NothingToJudge: there is no solution, or a solution without content.
    """
    if (problem := nothing_in(text, row)) is not None:
        raise NothingToJudge(0.0, problem)
    try:
        solution = within(closed_part(text).strip(), max_chars)
    except Unanswered as error:
        raise NothingToJudge(0.0, str(error)) from None
    if _plain(solution) in {_plain(row.question), _plain(row.criteria)}:
        raise NothingToJudge(0.0, "no answer: it repeats the row")
    return solution


def _text(value: Any, name: str, scorer: str) -> str:
    if value is None:
        return ""
    if name == "value" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadMessage(f"the {scorer} scorer needs a {name} that is text, got {value!r:.80}")
    return value.strip()


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
