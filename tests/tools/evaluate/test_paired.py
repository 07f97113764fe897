"""Two models on the same problems: the difference by hand, the test by counting."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tools.evaluate.paired import FLIPS, paired


def test_the_difference_and_its_interval_are_students() -> None:
    """Differences 0.5, 0, 0.5, 0: mean 0.25, deviation 1 / sqrt(12), t = 3.1824 of 3 degrees."""
    found = paired([0.0, 0.5, 0.25, 1.0], [0.5, 0.5, 0.75, 1.0])
    half = 3.18245 / math.sqrt(12) / 2
    assert (found.value, found.problems, found.better, found.worse) == (0.25, 4, 2, 0)
    assert [found.low, found.high] == pytest.approx([0.25 - half, 0.25 + half], abs=1e-4)
    assert found.p == 0.5, "two differences of one sign: ++ and -- of 4 choices are as far from 0"


@pytest.mark.parametrize(
    ("wins", "losses", "expected"),
    [
        (5, 0, 2 / 2**5),
        (8, 2, 2 * (1 + 10 + 45) / 2**10),  # the sign test: P(at most 2 of 10), twice
        (3, 3, 1.0),
    ],
)
def test_problems_that_differ_by_one_amount_are_the_sign_test(
    wins: int, losses: int, expected: float
) -> None:
    size = wins + losses
    second = [1.0] * wins + [0.0] * losses + [0.5] * 7  # 7 ties say nothing
    first = [0.0] * wins + [1.0] * losses + [0.5] * 7
    found = paired(first, second)
    assert found.p == pytest.approx(expected)
    assert (found.better, found.worse, found.problems) == (wins, losses, size + 7)


def test_signs_at_random_agree_with_the_sign_test_where_all_can_not_be_counted() -> None:
    """35 of 60: P(at most 25 of 60), twice, is 0.2451."""
    exact = 2 * sum(math.comb(60, count) for count in range(26)) / 2**60
    found = paired([0.0] * 35 + [1.0] * 25, [1.0] * 35 + [0.0] * 25)
    assert found.p == pytest.approx(exact, abs=0.01)
    assert found == paired([0.0] * 35 + [1.0] * 25, [1.0] * 35 + [0.0] * 25), "the seed is fixed"


def test_the_larger_difference_is_the_surer_one_and_never_certain() -> None:
    assert paired([0.0] * 100, [1.0] * 100).p == 1 / (FLIPS + 1)


def test_the_order_of_the_two_changes_nothing_but_the_sign() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.random(12).tolist(), rng.random(12).tolist()
    one, other = paired(first, second), paired(second, first)
    assert (one.value, one.low, one.p) == (-other.value, -other.high, other.p)


def test_models_that_answer_alike_are_not_told_apart() -> None:
    assert paired([0.25, 1.0], [0.25, 1.0]).p == 1.0
    with pytest.raises(ValueError, match="no problem to compare"):
        paired([], [])


def test_alike_models_are_rarely_told_apart() -> None:
    """1,000 comparisons of 12 problems with 4 samples each, of equal models: at 5% at most so many are found."""
    rng = np.random.default_rng(5)
    difficulty = rng.beta(0.5, 0.5, size=(1000, 12))
    first, second = (rng.binomial(4, difficulty) / 4 for _ in range(2))
    found = sum(
        paired(one.tolist(), other.tolist()).p <= 0.05 for one, other in zip(first, second, strict=True)
    )
    assert found <= 60
