r"""Rows that a judge scores, and the part of a response that it gets to see.

In: a row's `verification_info`, and the text of a completion. Out: reference and question of the row; the answer to
judge, or why there is none. The config says how the judge is asked about rows of type `judge` and `llm_judge`. The same
holds for `math` and `tinyv` where a task gives those to a judge. About `stem_llm_judge` and `math_llm_judge` the judge
is asked as Reasoning360 does. A scorer gets no prompt, so a row without a `question` in its answer is judged without a
question; `tasks.route` puts the prompt there where a row has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from broker.errors import BadMessage
from config.scorer_kinds import reads
from scorers.judge.prompt import Variant
from scorers.math.text import tidy
from scorers.served_model.protocol import NothingToJudge
from scorers.text.contentless import says_nothing
from scorers.text.extract import Unanswered, closed_part, last_answer, last_box, within
from tasks.kinds import TASK_OF_TYPE

Part = Literal["response", "box", "answer"]

MATH: Final = "math_llm_judge"  # a rule is asked first
# The variant of the prompt for each type; None: the config's.
VARIANT_OF_TYPE: Final[Mapping[str, Variant | None]] = {
    **{row_type: None for row_type, kind in TASK_OF_TYPE.items() if reads("judge", kind)},
    "stem_llm_judge": "stem",
    MATH: "math",
}
# What is judged of a response where the config does not say it: verifiers are trained on the result alone.
PART_OF_VARIANT: Final[Mapping[Variant, Part]] = {
    "default": "response",
    "stem": "box",
    "math": "box",
    "tinyv": "box",
}


@dataclass(frozen=True, slots=True)
class JudgeRow:
    """This holds what a judge's row says."""

    type: str
    reference: str
    question: str | None


def row_of(verification_info: Mapping[str, Any]) -> JudgeRow:
    """Read a row. Raises BadMessage that names what the row lacks."""
    row_type = verification_info.get("type")
    if not isinstance(row_type, str) or row_type not in VARIANT_OF_TYPE:
        raise BadMessage(
            f"the judge needs verification_info of type {', '.join(map(repr, VARIANT_OF_TYPE))}, got "
            f"{row_type!r}"
        )
    answer = verification_info.get("answer")
    found = answer if isinstance(answer, Mapping) else {}
    reference, question = found.get("value"), found.get("question")
    if isinstance(reference, int | float) and not isinstance(reference, bool):
        reference = str(reference)
    if not isinstance(reference, str) or not reference.strip():
        raise BadMessage(
            f'a row without an answer: the judge needs verification_info {{"type": "{row_type}", '
            f'"answer": {{"value": "the reference", "question": "..."}}}}, got the answer {answer!r:.120}'
        )
    if question is not None and not isinstance(question, str):
        raise BadMessage(f"the judge needs a question that is text, got {question!r:.120}")
    return JudgeRow(row_type, reference.strip(), question.strip() or None if question else None)


def answer_to_judge(text: str, row: JudgeRow, part: Part, max_chars: int) -> str:
    """Take the part of a completion's text that a judge is shown.

    Args:
        text: the completion.
        row: what the completion answers.
        part: which part of the response after its thinking.
        max_chars: an answer with more characters is wrong.
    Raises:
        NothingToJudge: there is no answer, or an answer without content, or the reference word for word.
    """
    try:
        answer = within(_part(closed_part(text), part).strip(), max_chars)
    except Unanswered as error:
        raise NothingToJudge(0.0, str(error)) from None
    if not answer:
        raise NothingToJudge(0.0, "no answer: there is nothing in it")
    plain, reference = _plain(answer), _plain(row.reference)
    if plain == reference:
        raise NothingToJudge(1.0, "the answer is the reference, word for word")
    if plain.casefold() != reference.casefold():
        if says_nothing(answer, row.reference):
            raise NothingToJudge(
                0.0, f"an answer without content, for which no judge is asked: {answer[:60]!r}"
            )
        if row.question is not None and plain == _plain(row.question):
            raise NothingToJudge(0.0, "no answer: it repeats the question")
    return answer


def _part(response: str, part: Part) -> str:
    if part == "response":
        return response
    found = last_box(response) if part == "box" else last_answer(response)
    if found is None:
        what = "closed \\boxed{}" if part == "box" else "closed <answer>"
        raise Unanswered(f"no answer: no {what} after the thinking")
    return found


def _plain(text: str) -> str:
    return tidy(" ".join(text.split()))
