"""The order of draws, one pool or sources that take turns by their shares; and the demo's problems, by hand."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections import Counter

import pytest

from learner.data.digits import PHRASINGS, DigitProblem, digit_problems, fingerprint, problems
from learner.data.order import SLOTS, Draw, DrawOrder, SourceShare, order_of


def draws(order: DrawOrder, first: int, count: int) -> list[Draw]:
    return [order.draw(number) for number in range(first, first + count)]


def by_source(found: list[Draw]) -> dict[int, int]:
    return dict(Counter(draw.source for draw in found))


def test_without_shares_a_list_is_one_pool_in_its_order_without_shuffling() -> None:
    order = order_of([SourceShare(size=3), SourceShare(size=7)], seed=5, shuffle=True)
    every_row = {(0, row) for row in range(3)} | {(1, row) for row in range(7)}
    for epoch in range(3):
        found = draws(order, 10 * epoch, 10)
        assert {(draw.source, draw.row) for draw in found} == every_row
        assert {draw.epoch for draw in found} == {epoch}
    assert draws(order, 0, 10) != draws(order, 10, 10)
    assert order.draws == math.inf
    order = order_of([SourceShare(size=2), SourceShare(size=1)], seed=5, shuffle=False)
    assert draws(order, 0, 4) == [Draw(0, 0, 0), Draw(0, 1, 0), Draw(1, 0, 0), Draw(0, 0, 1)]


def test_shares_hold_in_every_short_stretch_too_and_are_by_rows_and_epochs_without_a_weight() -> None:
    order = order_of(
        [SourceShare(size=100, weight=2.0), SourceShare(size=100, weight=1.0)], seed=1, shuffle=True
    )
    for first in range(0, 3000, 30):
        assert by_source(draws(order, first, 30)) == {0: 20, 1: 10}
    order = order_of([SourceShare(size=10, epochs=3), SourceShare(size=10)], seed=1, shuffle=True)
    assert by_source(draws(order, 0, 40)) == {0: 30, 1: 10}


@pytest.mark.parametrize(
    ("weights", "count", "expected"),
    [
        ((1.0, 1.0), 10, {0: 5, 1: 5}),
        ((3.0, 1.0), 8, {0: 6, 1: 2}),
        ((3.0, 1.0), SLOTS, {0: 7500, 1: 2500}),
        ((1.0, 1.0, 1.0), SLOTS, {0: 3334, 1: 3333, 2: 3333}),  # the remainder's slot is the first one's
        ((1e9, 1.0), SLOTS, {0: SLOTS - 1, 1: 1}),  # a share too small for a slot has one all the same
    ],
)
def test_weights_are_draws_shares(weights: tuple[float, ...], count: int, expected: dict[int, int]) -> None:
    shares = [SourceShare(size=4 + source, weight=weight) for source, weight in enumerate(weights)]
    assert by_source(draws(order_of(shares, seed=1, shuffle=True), 0, count)) == expected


def test_a_source_that_has_had_its_epochs_is_left_out_and_the_others_go_on() -> None:
    order = order_of(
        [
            SourceShare(size=4, weight=1.0, epochs=2),
            SourceShare(size=5, weight=1.0),
            SourceShare(size=5, weight=3.0),
        ],
        seed=1,
        shuffle=True,
    )
    found = draws(order, 0, 400)
    of_first = [draw for draw in found if draw.source == 0]
    assert Counter(draw.row for draw in of_first) == dict.fromkeys(range(4), 2)
    assert [draw.epoch for draw in of_first] == [0] * 4 + [1] * 4
    assert max(number for number, draw in enumerate(found) if draw.source == 0) < 40  # 8 of every 5th draw
    assert by_source(found[200:]) == {1: 50, 2: 150}
    assert order.draws == math.inf


def test_where_every_source_has_epochs_the_draws_end_and_any_can_be_gone_back_to() -> None:
    shares = [
        SourceShare(size=7, epochs=2),
        SourceShare(size=3, weight=1.0, epochs=5),
        SourceShare(size=11, epochs=1),
    ]
    order = order_of(shares, seed=3, shuffle=True)
    assert order.draws == 7 * 2 + 3 * 5 + 11
    passes = Counter((draw.source, draw.row) for draw in draws(order, 0, int(order.draws)))
    assert passes == {
        (source, row): share.epochs for source, share in enumerate(shares) for row in range(share.size)
    }
    shares = [SourceShare(size=5, weight=0.3, epochs=3), SourceShare(size=9, weight=0.7)]
    order, again = (order_of(shares, seed=2, shuffle=True) for _ in range(2))
    forwards = draws(order, 0, 200)
    assert [again.draw(number) for number in reversed(range(200))] == forwards[::-1]
    assert draws(order_of(shares, seed=3, shuffle=True), 0, 200) != forwards


ALL_TRAIN, ALL_EVAL = 27_732, 9_564  # 37,296 together: (9*8*7 + 9*8*7*6 + 9*8*7*6*5) numbers, two operations


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
    assert DigitProblem(operation, digits).answer == answer


def test_the_first_held_out_rows_are_these_and_every_way_to_ask_occurs() -> None:
    asked = {"Write 9463 from right to left.": "3649", "Move the first digit of 18543 to the end.": "85431"}
    assert digit_problems("eval", 2) == [
        {
            "messages": [{"role": "user", "content": f"{question} Answer in \\boxed{{}}."}],
            "verification_info": {"type": "math", "answer": {"value": answer}},
        }
        for question, answer in asked.items()
    ]
    for split in ("train", "eval"):
        ways = {
            re.sub(r"\d+", "{digits}", each.question).split(" Answer")[0] for each in problems(split, 200)
        }
        assert ways == {way for some in PHRASINGS.values() for way in some}
    assert digit_problems("train", 10) == digit_problems("train", 100)[:10]


def test_copying_is_never_right_and_the_splits_share_no_set_of_digits_and_are_everything() -> None:
    every = {"train": problems("train", ALL_TRAIN), "eval": problems("eval", ALL_EVAL)}
    for problem in (*every["train"], *every["eval"]):
        assert int(problem.answer) != int(problem.digits)
        assert "0" not in problem.answer
        assert re.findall(r"\d+", problem.question) == [problem.digits]
    train, held_out = ({frozenset(problem.digits) for problem in some} for some in every.values())
    assert not train & held_out
    assert len(train | held_out) == 84 + 126 + 126  # 9 choose 3, 4 and 5
    assert len({*every["train"], *every["eval"]}) == 2 * (504 + 3_024 + 15_120)


def test_the_fingerprint_tells_split_size_and_wording_apart_and_is_the_same_in_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = "from learner.data.digits import fingerprint; print(fingerprint('train', 100))"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    plain = fingerprint("train", 100)
    assert other.stdout.strip() == plain
    assert re.fullmatch("[0-9a-f]{16}", plain)
    assert len({plain, fingerprint("eval", 100), fingerprint("train", 101)}) == 3
    monkeypatch.setitem(PHRASINGS, "reverse", ("Turn {digits} round.", "Write {digits} from right to left."))
    assert fingerprint("train", 100) != plain


@pytest.mark.parametrize("size", [0, -1, ALL_EVAL + 1])
def test_a_size_that_does_not_exist_is_refused_with_the_largest(size: int) -> None:
    with pytest.raises(ValueError, match=rf"size={size}: the eval split .* 1 to {ALL_EVAL} problems"):
        digit_problems("eval", size)
