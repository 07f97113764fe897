"""avg@n, pass@k and their intervals against closed forms, tables, and a simulation whose truth is known."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from tools.evaluate.rates import (
    Estimate,
    Scores,
    average,
    interval,
    mean_score,
    pass_at,
    pass_at_k,
    powers,
    student_quantile,
)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_pass_at_k_is_the_share_of_choices_with_a_right_sample(n: int) -> None:
    for c in range(n + 1):
        for k in range(1, n + 1):
            choices = list(combinations([True] * c + [False] * (n - c), k))
            expected = Fraction(sum(map(any, choices)), len(choices))
            assert pass_at_k(n=n, c=c, k=k) == pytest.approx(float(expected), abs=1e-15)


def test_pass_at_k_of_many_samples_is_exact_where_a_product_of_shares_is() -> None:
    """1 - (90 choose 5) / (100 choose 5); of 10,000 samples the binomials are beyond a float."""
    assert pass_at_k(n=100, c=10, k=5) == pytest.approx(0.4162476, abs=1e-7)
    assert pass_at_k(n=10_000, c=1, k=5_000) == 0.5


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 5), (4, 2, 0)])
def test_what_has_no_estimate_is_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="expected 0 <= c <= n and 1 <= k <= n"):
        pass_at_k(n=n, c=c, k=k)


@pytest.mark.parametrize(
    ("n", "expected"), [(1, [1]), (4, [1, 2, 4]), (7, [1, 2, 4]), (32, [1, 2, 4, 8, 16, 32])]
)
def test_k_goes_in_powers_of_two_up_to_n(n: int, expected: list[int]) -> None:
    assert powers(n) == expected


PROBLEMS: list[Scores] = [
    (1.0, 0.0, 0.5, 1.0),  # half right
    (0.0, None, 0.0, 0.0),  # one unscorable
    (None, None, None, None),  # nothing to say
    (1.0, 1.0, None, None),
]


def test_what_could_not_be_scored_is_left_out_and_is_never_zero() -> None:
    rate, score = average(PROBLEMS), mean_score(PROBLEMS)
    assert rate is not None
    assert score is not None
    assert [rate.value, score.value] == pytest.approx([(0.5 + 0 + 1) / 3, (0.625 + 0 + 1) / 3])
    assert rate.problems == score.problems == 3
    found = {k: pass_at(PROBLEMS, k) for k in (1, 2, 4, 8)}
    values = {k: (each.value, each.problems) for k, each in found.items() if each is not None}
    # Of 4 samples with 2 right, 1 of 6 pairs has none; of 3 samples none is right; of 2 both are.
    assert values == {
        1: (pytest.approx(0.5), 3),
        2: (pytest.approx((5 / 6 + 0 + 1) / 3), 3),
        4: (1.0, 1),  # only the first problem has 4 scored samples
    }
    assert average([(None,), ()]) is None


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [
        (1, 12.7062),
        (2, 4.3027),
        (3, 3.1824),
        (4, 2.7764),
        (5, 2.5706),
        (29, 2.0452),
        (30, 2.0423),
        (499, 1.9647),
    ],
)
def test_quantiles_are_those_of_the_tables(degrees: int, expected: float) -> None:
    assert student_quantile(degrees) == pytest.approx(expected, abs=1e-4)


def test_an_interval_of_independent_samples_is_wilsons() -> None:
    """8 of 10 right, one sample each: Wilson's formula with t = 2.2622 of 9 degrees and 9 effective samples."""
    found = interval([1.0] * 8 + [0.0] * 2, samples=10)
    t2, n, p = 2.26216**2, 9, 0.8
    half = math.sqrt(t2 * p * (1 - p) / n + t2**2 / (4 * n**2))
    low, high = ((p + t2 / (2 * n) + sign * half) / (1 + t2 / n) for sign in (-1, 1))
    assert found is not None
    assert (found.value, found.problems) == (0.8, 10)
    assert [found.low, found.high] == pytest.approx([low, high], abs=1e-4)


def test_samples_that_are_all_alike_say_no_more_than_their_problems() -> None:
    alike = average([(1.0,) * 16] * 6 + [(0.0,) * 16] * 4)
    assert alike == average([(1.0,)] * 6 + [(0.0,)] * 4)
    unlike = average([(1.0, 0.0) * 8] * 6 + [(1.0, 1.0, 0.0, 0.0) * 4] * 4)
    assert alike is not None
    assert unlike is not None
    assert unlike.high - unlike.low < (alike.high - alike.low) / 3


@pytest.mark.parametrize(("value", "low", "high"), [(1.0, 0.8776, 1.0), (0.0, 0.0, 0.1224)])
def test_a_set_that_is_all_right_or_all_wrong_is_not_certain(value: float, low: float, high: float) -> None:
    """30 problems: 30 / (30 + t^2) with t = 2.0452."""
    found = average([(value,) * 4] * 30)
    assert found is not None
    assert [found.low, found.high] == pytest.approx([low, high], abs=1e-4)


def test_one_problem_says_nothing_of_others() -> None:
    assert average([(1.0, 0.0)]) == Estimate(value=0.5, low=0.0, high=1.0, problems=1)


@pytest.mark.parametrize(
    ("problems", "samples", "beta", "least"),
    [
        (30, 1, (3.0, 0.15), 0.94),
        (30, 4, (0.3, 0.3), 0.94),
        (100, 32, (0.3, 0.3), 0.94),
        (30, 4, (0.1, 2.0), 0.94),
    ],
)
def test_intervals_cover_the_truth_as_often_as_they_say(
    problems: int, samples: int, beta: tuple[float, float], least: float
) -> None:
    """Difficulties come from a beta distribution, so the truth is its mean; 1,000 evaluations of a fixed seed."""
    rng = np.random.default_rng(1)
    truth = beta[0] / sum(beta)
    rights = rng.binomial(samples, rng.beta(*beta, size=(1000, problems))) / samples
    found = [interval(row.tolist(), samples=problems * samples) for row in rights]
    covered = sum(one is not None and one.low <= truth <= one.high for one in found)
    assert covered / 1000 >= least
