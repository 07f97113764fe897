"""The order of draws: one pool, or sources that take turns by their shares."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from learner.data.order import SLOTS, Draw, Order, Share, order_of


def draws(order: Order, first: int, count: int) -> list[Draw]:
    return [order.draw(number) for number in range(first, first + count)]


def by_source(found: list[Draw]) -> dict[int, int]:
    return dict(Counter(draw.source for draw in found))


def test_without_shares_a_list_is_one_pool_in_which_each_epoch_has_each_row_once() -> None:
    order = order_of([Share(size=3), Share(size=7)], seed=5, shuffle=True)
    every_row = {(0, row) for row in range(3)} | {(1, row) for row in range(7)}
    for epoch in range(3):
        found = draws(order, 10 * epoch, 10)
        assert {(draw.source, draw.row) for draw in found} == every_row
        assert {draw.epoch for draw in found} == {epoch}
    assert draws(order, 0, 10) != draws(order, 10, 10)
    assert order.draws == math.inf


def test_without_shuffling_a_pool_is_in_the_order_of_its_list() -> None:
    order = order_of([Share(size=2), Share(size=1)], seed=5, shuffle=False)
    assert draws(order, 0, 4) == [Draw(0, 0, 0), Draw(0, 1, 0), Draw(1, 0, 0), Draw(0, 0, 1)]


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
def test_weights_are_the_shares_of_the_draws(
    weights: tuple[float, ...], count: int, expected: dict[int, int]
) -> None:
    shares = [Share(size=4 + source, weight=weight) for source, weight in enumerate(weights)]
    assert by_source(draws(order_of(shares, seed=1, shuffle=True), 0, count)) == expected


def test_shares_hold_in_every_short_stretch_too() -> None:
    order = order_of([Share(size=100, weight=2.0), Share(size=100, weight=1.0)], seed=1, shuffle=True)
    for first in range(0, 3000, 30):
        assert by_source(draws(order, first, 30)) == {0: 20, 1: 10}


def test_a_source_without_a_weight_has_as_many_turns_as_rows_and_epochs() -> None:
    order = order_of([Share(size=10, epochs=3), Share(size=10)], seed=1, shuffle=True)
    assert by_source(draws(order, 0, 40)) == {0: 30, 1: 10}


def test_a_source_that_has_had_its_epochs_is_left_out_and_the_others_go_on() -> None:
    order = order_of(
        [Share(size=4, weight=1.0, epochs=2), Share(size=5, weight=1.0), Share(size=5, weight=3.0)],
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


def test_where_every_source_has_epochs_the_draws_end_and_each_row_has_had_its_passes() -> None:
    shares = [Share(size=7, epochs=2), Share(size=3, weight=1.0, epochs=5), Share(size=11, epochs=1)]
    order = order_of(shares, seed=3, shuffle=True)
    assert order.draws == 7 * 2 + 3 * 5 + 11
    passes = Counter((draw.source, draw.row) for draw in draws(order, 0, int(order.draws)))
    assert passes == {
        (source, row): share.epochs for source, share in enumerate(shares) for row in range(share.size)
    }


def test_any_draw_can_be_gone_back_to() -> None:
    shares = [Share(size=5, weight=0.3, epochs=3), Share(size=9, weight=0.7)]
    order, again = (order_of(shares, seed=2, shuffle=True) for _ in range(2))
    forwards = draws(order, 0, 200)
    assert [again.draw(number) for number in reversed(range(200))] == forwards[::-1]
    assert draws(order_of(shares, seed=3, shuffle=True), 0, 200) != forwards
