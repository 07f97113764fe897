"""Totals out of ten, and the reward for giving the right one."""

from __future__ import annotations

from typing import Any

import pytest

from broker.errors import BadMessage
from config.scorer_kinds import GradeConfig
from scorers.grade.scorer import GradeAnswer
from scorers.text.totals import total_of
from tasks.route import route
from tests.scorers.grade.tables import ATTACKS, HONEST, REFERENCE, WRONG
from tests.support.growth import is_linear

GRADE = GradeAnswer(GradeConfig())


def row(value: Any) -> dict[str, Any]:
    return {"type": "grade", "answer": {"value": value}}


def test_every_total_of_the_reference_and_of_people_is_read() -> None:
    expected = dict([*REFERENCE, *HONEST])
    assert {text: total_of(text).points for text in expected} == expected


def test_what_is_no_total_has_none_and_a_reason() -> None:
    found = {text: total_of(text) for text in [*WRONG, *(text for text, _ in ATTACKS)]}
    assert {text: total.points for text, total in found.items() if total.points is not None} == {}
    assert all(len(total.reason) > 10 for total in found.values())


@pytest.mark.prove(after=4)
@pytest.mark.parametrize(
    ("head", "piece", "tail"),
    [
        ("", "*", ""), ("", "so ", ""), ("", "Total Score:\n", ""), ("Total Score: ", "1+", ""),
        ("", " ", "x"), ("", "- ", ""), ("Total Score", " awarded", "x"), ("", "(out of 10", ""),
        ("1", " ", "1"), ("", '"', ""), ("Total Score: 1", ",", ""),
    ],
)  # fmt: skip
def test_no_text_takes_long(head: str, piece: str, tail: str) -> None:
    def text(count: int) -> str:
        return f"{head}{piece * count}{tail}"

    assert total_of(text(400_000 // len(piece))).points is None
    assert is_linear(total_of, text, 400_000 // len(piece))


def test_the_reward_is_the_references_and_never_leaves_0_to_1(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Any, float]] = [
        ("Total Score: 7/10", 0.7, 1.0),
        ("Total Score: 8/10", 0.7, 0.81),
        ("Total Score: 7.5 / 10 points", 0.7, 0.9025),
        ("The Total Score: 0/10", 0.7, 0.09),
        ("", 0.7, 0.0), ("Total Score: 0/10", 1, 0.0), ("Total Score: 10/10", 0, 0.0),
        ("Total Score: 10/10", 1, 1.0), ("Total Score: 4/10", 0.7, 0.49), ("Total Score: 0/10", 0.0, 1.0),
        ("Final: 7/10", "0.7", 1.0), ("Total Score: 15/10", 0.7, 0.0), ("Total Score: nan/10", 0.7, 0.0),
        ("Total Score: -5/10", 0.7, 0.0),
        ("Total Score: -1000/10", 0.7, 0.0),
        ("Total Score: -inf/10", 0.7, 0.0),
        ("<think>Total Score: 7/10", 0.7, 0.0),
        ("Total Score: [8]", 0.7, 0.81),
    ]  # fmt: skip
    for text, gold, value in cases:
        with subtests.test(text=text, gold=gold):
            score = GRADE.score(text, row(gold))
            assert score.value == pytest.approx(value)
            total = total_of(text).points
            assert score.components == ({} if total is None else {"stated": total / 10})


def test_every_wrong_grading_is_0_whatever_the_grade_should_be() -> None:
    texts = [*WRONG, *(text for text, _ in ATTACKS), ""]
    assert {GRADE.score(text, row(gold)).value for text in texts for gold in (0, 0.5, 1)} == {0.0}


def test_a_gold_in_points_is_refused_by_name_unless_the_task_says_so() -> None:
    for value in (7, 10, 1.5, "8"):
        with pytest.raises(BadMessage, match=r"is in points.*`gold: points`"):
            GRADE.check_row(row(value))
        points = GradeAnswer(GradeConfig(gold="points"))
        assert points.score(f"Total Score: {value}/10", row(value)).value == 1.0


def test_a_gold_of_1_is_full_marks_and_under_points_a_tenth() -> None:
    assert GRADE.score("Total Score: 10/10", row(1)).value == 1.0
    assert GradeAnswer(GradeConfig(gold="points")).score("Total Score: 1/10", row(1)).value == 1.0


def test_a_gold_that_is_no_grade_is_refused(subtests: pytest.Subtests) -> None:
    odd: list[Any] = [-0.1, 11, float("nan"), float("inf"), True, None, "", "seven", [0.7], {}, "1e999"]
    for value in odd:
        with subtests.test(value=value):
            for config in (GradeConfig(), GradeConfig(gold="points")):
                with pytest.raises(BadMessage, match="needs a number from 0 to"):
                    GradeAnswer(config).check_row(row(value))


def test_verls_rows_of_the_source_grade_come_here() -> None:
    record = {"data_source": "grade", "reward_model": {"ground_truth": 0.7}, "extra_info": {"index": 0}}
    assert route(record) == ("grade", row(0.7))


def test_the_self_tests_hold() -> None:
    GRADE.self_test()
    GradeAnswer(GradeConfig(gold="points")).self_test()
