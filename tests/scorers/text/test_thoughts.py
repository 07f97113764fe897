"""Every scorer reads the answer alone, whatever marks its model thinks by, and nothing of a thought that was cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from config.rewards import FormatConfig
from config.scorer_kinds import ChoiceConfig, FormatTaskConfig, InstructionsConfig, SearchConfig
from config.scorers import ScorersConfig
from sandbox.program import Language
from scorers.choice.scorer import ChoiceAnswer
from scorers.format.completion_shape import CompletionShape
from scorers.format.scorer import FormatAnswer
from scorers.instructions.scorer import InstructionFollowing
from scorers.judge.prompt import JudgeCase
from scorers.judge.reply import verdict_of
from scorers.judge.rows import JudgeRow, answer_to_judge
from scorers.rubric.rows import VerifiedRow, solution_of
from scorers.search.scorer import SearchAnswer
from scorers.served_model.marks import THOUGHT_MARKS, enclosed
from scorers.served_model.protocol import NothingToJudge
from scorers.swe.answer import has_thought
from scorers.text.extract import Unanswered, response_part
from scorers.text.totals import total_of
from tests.tasks.spoken import SPOKEN
from verdicts.code.answer import program_of

pytestmark = pytest.mark.prove(after=10)

ENDS = ("", "<|return|>", "<|END_RESPONSE|><|END_OF_TURN_TOKEN|>", "<seed:eos>\n", "</s>")
INSTRUCTED = {
    "type": "ifeval",
    "answer": {
        "instruction_id_list": [
            "punctuation:no_comma",
            "length_constraints:number_words",
            "startend:quotation",
        ],
        "kwargs": [{}, {"num_words": 7, "relation": "less than"}, {}],
    },
}
THOUGHT = (
    "Well, IT may be <answer>A</answer> or \\boxed{A}, or\n```python\n0\n```\nTotal Score: 1/10\nAnswer: A"
)
# What reads a text, and a right answer for it; the thought before it holds a wrong one of each kind.
SCORED: list[tuple[Any, dict[str, Any], str]] = [
    (InstructionFollowing(InstructionsConfig(), ScorersConfig()), INSTRUCTED, '"the train leaves at noon"'),
    (ChoiceAnswer(ChoiceConfig()), {"type": "choice", "answer": {"value": "C"}}, "C"),
    (SearchAnswer(SearchConfig()), {"type": "qa_em", "answer": {"value": "C"}}, "<answer>C</answer>"),
    (FormatAnswer(FormatTaskConfig()), {"type": "math", "answer": {"value": "5"}}, "\\boxed{5}"),
]


def judged(text: str) -> str:
    return answer_to_judge(text, JudgeRow("judge", "Paris", None), "response", 1000)


def graded(text: str) -> str:
    return solution_of(text, VerifiedRow("Paris", "", ""), 1000)


def program(text: str) -> str:
    return program_of(text, Language.PYTHON)


READ: list[tuple[Callable[[str], object], str, object]] = [
    (judged, "It is Lyon.", "It is Lyon."),
    (graded, "It is Lyon.", "It is Lyon."),
    (program, "```python\nx = 1\n```", "x = 1"),
    (lambda text: total_of(text).points, "Total Score: 7/10", 7.0),
]


def test_scorers_read_and_count_the_answer_alone(subtests: pytest.Subtests) -> None:
    for family in SPOKEN:
        with subtests.test(family=family):
            opening, closing = SPOKEN[family]
            for scorer, row, answer in SCORED:
                texts = [f"{opening}{THOUGHT}{closing}{answer}{end}" for end in ENDS]
                assert [scorer.score(text, row).value for text in texts] == [1.0] * len(texts), (
                    scorer.name,
                    closing,
                )
                for wrong in (
                    f"{opening}{THOUGHT}\n{answer}",
                    f"{opening}{answer}{closing}",
                    f"{opening}{answer}",
                ):
                    assert scorer.score(wrong, row).value == 0.0, (scorer.name, wrong)
            for read, answer, found in READ:
                assert read(f"{opening}{THOUGHT}{closing}{answer}") == found
                try:
                    assert read(f"{opening}{THOUGHT}\n{answer}") is None
                except (Unanswered, NothingToJudge) as error:
                    assert "the thinking was never closed" in str(error)  # noqa: PT017 - the other reader has none


def test_a_thought_that_is_asked_for_may_have_any_models_marks(subtests: pytest.Subtests) -> None:
    for family in SPOKEN:
        with subtests.test(family=family):
            opening, closing = SPOKEN[family]
            shape = CompletionShape(FormatConfig(think="required", min_think=3, answer="any"))
            row = {"type": "math", "answer": {"value": "5"}}
            for thought, value in (("one two three", 1.0), ("one two", 0.0), ("", 0.0)):
                assert shape.score(f"{opening}{thought}{closing}5", row).value == value, thought
                assert has_thought(f"{opening}{thought}{closing}5") is bool(thought)
            assert shape.score("one two three 5", row).value == 0.0


def test_the_verdict_of_a_judge_is_read_behind_its_own_marks_and_a_quotation_is_no_thought(
    subtests: pytest.Subtests,
) -> None:
    case = JudgeCase(None, "Paris", "Lyon")
    for opening, closing in SPOKEN.values():
        with subtests.test(opening=opening, closing=closing):
            assert verdict_of(f"{opening}True?\nTrue{closing}False", "stop", case).value == 0.0
            assert verdict_of(f"{opening}False\nFalse", "stop", case).value is None
    for mark in THOUGHT_MARKS:
        with subtests.test(mark=mark):
            shown = enclosed(f"It is {mark} so", "0" * 12)
            assert mark not in shown
            assert response_part(shown) == shown
