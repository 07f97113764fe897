"""An honest spelling scores 1 whatever its dress, and a wrong answer in the same dress 0."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from scorers.math.scorer import MathAnswer
from tests.scorers.math.spellings import RIGHT, WRONG, Pairs
from tests.support.tried_again import unless_starved


def cases(table: dict[str, Pairs]) -> list[Any]:
    return [
        pytest.param(answer, reference, id=f"{name} {n}: {answer[:30]} for {reference[:30]}")
        for name, pairs in table.items()
        for n, (answer, reference) in enumerate(pairs)
    ]


@pytest.mark.parametrize(("answer", "reference"), cases(RIGHT))
def test_an_honest_spelling_scores_1(math_scorer: MathAnswer, answer: str, reference: str) -> None:
    score = unless_starved(lambda: math_scorer.score_text(f"So it is $\\boxed{{{answer}}}$.", reference))
    assert score.value == 1.0, score.reason


@pytest.mark.parametrize(("answer", "reference"), cases(WRONG))
def test_a_wrong_answer_in_the_same_dress_scores_0(
    math_scorer: MathAnswer, answer: str, reference: str
) -> None:
    score = unless_starved(lambda: math_scorer.score_text(f"So it is $\\boxed{{{answer}}}$.", reference))
    assert score.value == 0.0, score.reason


def test_each_kind_has_ten_of_both() -> None:
    assert RIGHT.keys() == WRONG.keys()
    assert {name for table in (RIGHT, WRONG) for name, pairs in table.items() if len(pairs) < 10} == set()
    pairs = list(chain(*RIGHT.values(), *WRONG.values()))
    assert len(set(pairs)) == len(pairs)
