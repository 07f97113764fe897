"""The demo's problems: right answers by hand, no way to be right by copying, and two splits that share no number."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from learner.data.digits import PHRASINGS, Problem, Split, digit_problems, fingerprint, problems

ALL_TRAIN, ALL_EVAL = 27_732, 9_564  # 37,296 together: (9*8*7 + 9*8*7*6 + 9*8*7*6*5) numbers, two operations


@pytest.fixture(scope="module")
def every_problem() -> dict[Split, list[Problem]]:
    return {"train": problems("train", ALL_TRAIN), "eval": problems("eval", ALL_EVAL)}


@pytest.mark.parametrize(
    ("operation", "digits", "answer"),
    [
        ("reverse", "123", "321"),
        ("reverse", "95814", "41859"),
        ("rotate", "123", "231"),
        ("rotate", "9581", "5819"),
    ],
)
def test_the_answer_is_what_the_operation_says(operation: str, digits: str, answer: str) -> None:
    assert Problem(operation, digits).answer == answer


def test_the_first_held_out_rows_are_these() -> None:
    asked = {"Write 9463 from right to left.": "3649", "Move the first digit of 18543 to the end.": "85431"}
    assert digit_problems("eval", 2) == [
        {
            "messages": [{"role": "user", "content": f"{question} Answer in \\boxed{{}}."}],
            "verification_info": {"type": "math", "answer": {"value": answer}},
        }
        for question, answer in asked.items()
    ]


@pytest.mark.parametrize("split", ["train", "eval"])
def test_copying_is_never_right_no_answer_has_a_zero_and_each_question_shows_its_number_alone(
    every_problem: dict[Split, list[Problem]], split: Split
) -> None:
    for problem in every_problem[split]:
        assert int(problem.answer) != int(problem.digits)
        assert "0" not in problem.answer
        assert re.findall(r"\d+", problem.question) == [problem.digits]


def test_the_splits_share_no_set_of_digits_and_are_everything(every_problem: dict[Split, Any]) -> None:
    train = {frozenset(problem.digits) for problem in every_problem["train"]}
    held_out = {frozenset(problem.digits) for problem in every_problem["eval"]}
    assert not train & held_out
    assert len(train | held_out) == 84 + 126 + 126  # 9 choose 3, 4 and 5
    assert len({*every_problem["train"], *every_problem["eval"]}) == 2 * (504 + 3_024 + 15_120)


def test_every_way_to_ask_occurs_in_both_splits() -> None:
    for split in ("train", "eval"):
        asked = {
            re.sub(r"\d+", "{digits}", each.question).split(" Answer")[0] for each in problems(split, 200)
        }
        assert asked == {way for ways in PHRASINGS.values() for way in ways}


def test_a_smaller_size_is_the_beginning_of_a_larger_one() -> None:
    assert digit_problems("train", 10) == digit_problems("train", 100)[:10]


@pytest.mark.parametrize("size", [0, -1, ALL_EVAL + 1])
def test_a_size_that_does_not_exist_is_refused_with_the_largest(size: int) -> None:
    with pytest.raises(ValueError, match=rf"size={size}: the eval split .* 1 to {ALL_EVAL} problems"):
        digit_problems("eval", size)


def test_another_process_makes_the_same_problems() -> None:
    program = "from learner.data.digits import fingerprint; print(fingerprint('train', 500))"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == fingerprint("train", 500)


def test_the_fingerprint_tells_split_size_and_wording_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = fingerprint("train", 100)
    assert re.fullmatch("[0-9a-f]{16}", plain)
    assert len({plain, fingerprint("eval", 100), fingerprint("train", 101)}) == 3
    monkeypatch.setitem(PHRASINGS, "reverse", ("Turn {digits} round.", "Write {digits} from right to left."))
    assert fingerprint("train", 100) != plain
