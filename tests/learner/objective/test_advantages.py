"""Advantages of one group."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learner.objective.advantages import group_advantages, has_variance

pytestmark = pytest.mark.model


@pytest.mark.parametrize(
    ("rewards", "scale", "expected"),
    [
        ([1.0, 0.0], "none", [0.5, -0.5]),
        ([1.0, 0.0, 0.0, 0.0], "none", [0.75, -0.25, -0.25, -0.25]),
        ([1.0, 1.0], "none", [0.0, 0.0]),  # nothing to learn
        ([1.0, 1.0], "std", [0.0, 0.0]),  # and nothing divided by zero
        ([1.0, None], "none", [0.0, None]),  # a failed score does not move the baseline
        ([1.0, None, 0.0], "none", [0.5, None, -0.5]),
        ([None, None], "std", [None, None]),
        ([], "none", []),
        ([3.0, -1.0], "std", [2 / 8**0.5, -2 / 8**0.5]),  # std = sqrt((4 + 4) / 1)
        ([1.0, None, 0.0, 0.5], "std", [1.0, None, -1.0, 0.0]),
    ],
)
def test_advantages_are_centred_on_the_scored_completions(
    rewards: list[float | None], scale: Literal["none", "std"], expected: list[float | None]
) -> None:
    assert group_advantages(rewards, scale) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1.0, 0.0], True),
        ([1.0, None, 0.0], True),
        ([0.3, 0.3], False),
        ([0.1 + 0.2, 0.3], False),
        ([1.0, None], False),
        ([None], False),
        ([], False),
    ],
)
def test_rewards_that_differ_by_more_than_rounding_vary(rewards: list[float | None], expected: bool) -> None:
    assert has_variance(rewards) is expected


@given(st.lists(st.none() | st.floats(-1, 1), max_size=16))
def test_the_scored_advantages_add_up_to_nothing_and_none_stays_none(rewards: list[float | None]) -> None:
    for scale in ("none", "std"):
        advantages = group_advantages(rewards, scale)
        assert [a is None for a in advantages] == [r is None for r in rewards]
        assert sum(a for a in advantages if a is not None) == pytest.approx(0, abs=1e-5)
