"""Published answers against themselves: what the scorer must never get wrong."""

from __future__ import annotations

import json

import pytest

from scorers.math.scorer import MathAnswer
from tests.support.paths import DATA

pytestmark = [pytest.mark.process, pytest.mark.together("mathematics")]

# Answers of MATH-500 that do not equal themselves, each with the reason. At most two.
MATH500_EXCEPTIONS: dict[str, str] = {}


def solutions(file: str) -> list[str]:
    path = DATA / file
    if not path.exists():
        pytest.skip(f"{path} is not here: it holds the published data set")
    return [json.loads(line)["answer"] for line in path.read_text(encoding="utf-8").splitlines()]


def answers(file: str, before: str) -> list[str]:
    return [solution.rpartition(before)[2].strip() for solution in solutions(file)]


@pytest.mark.parametrize(
    ("file", "before", "count", "exceptions"),
    [("gsm8k_test.jsonl", "#### ", 1319, {}), ("math500.jsonl", "The answer is: ", 500, MATH500_EXCEPTIONS)],
)
def test_every_published_answer_in_a_box_equals_itself(
    math_scorer: MathAnswer, file: str, before: str, count: int, exceptions: dict[str, str]
) -> None:
    references = answers(file, before)
    assert len(references) == count
    assert len(exceptions) <= 2
    unequal = {
        reference: score.reason
        for reference in references
        if (score := math_scorer.score_text(f"So it is $\\boxed{{{reference}}}$.", reference)).value != 1.0
    }
    assert unequal.keys() == exceptions.keys(), unequal


@pytest.mark.parametrize(
    ("file", "before", "equal"),
    [
        ("gsm8k_test.jsonl", "#### ", []),
        pytest.param(
            "math500.jsonl", "The answer is: ", [("x=5", "5")], marks=pytest.mark.prove
        ),  # which is right
    ],
)
def test_the_answer_to_another_problem_is_wrong(
    math_scorer: MathAnswer, file: str, before: str, equal: list[tuple[str, str]]
) -> None:
    references = answers(file, before)[:100]
    pairs = [
        (answer, reference)
        for answer, reference in zip(references[1:], references, strict=False)
        if answer != reference
    ]
    right = [
        (answer, reference)
        for answer, reference in pairs
        if math_scorer.score_text(f"\\boxed{{{answer}}}", reference).value != 0.0
    ]
    assert right == equal


def test_worked_solutions_of_math500_score_1_as_they_are(math_scorer: MathAnswer) -> None:
    solved = solutions("math500.jsonl")
    references = answers("math500.jsonl", "The answer is: ")
    wrong = [
        reference
        for text, reference in zip(solved, references, strict=True)
        if math_scorer.score_text(text, reference).value != 1.0
    ]
    assert wrong == []
