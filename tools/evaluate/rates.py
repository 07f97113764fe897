"""Estimate how often a model is right, with confidence intervals, from grouped samples.

In: the scores of each problem's samples; None where unscorable. Out: avg@n, the mean score and pass@k, each with a 95%
confidence interval. Pure arithmetic without a model; used by `tools.evaluate.summary`.

A sample is right if its score is 1. The problem is the unit: a set measures how the model does on problems like these,
and several samples of one problem tell less than as many problems would. Unscorable samples are left out, and so are
problems without a scored sample; neither ever counts as wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

CONFIDENCE: Final = 0.95
FULL: Final = 1.0  # score of a right answer

Scores = Sequence[float | None]  # of one problem's samples; None: unscorable


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over problems, and an interval that covers it in 95 of 100 evaluations."""

    value: float
    low: float
    high: float
    problems: int  # number of problems averaged


def average(problems: Sequence[Scores]) -> Estimate | None:
    """Estimate the share of right samples, avg@n; None without scored samples."""
    return _over_problems([[float(value >= FULL) for value in values] for values in _scored(problems)])


def mean_score(problems: Sequence[Scores]) -> Estimate | None:
    """Estimate the mean score, partial credit included; None without scored samples."""
    return _over_problems(_scored(problems))


def pass_at(problems: Sequence[Scores], k: int) -> Estimate | None:
    """Estimate the probability that one of k samples is right; None where no problem has k scored samples.

    A problem with fewer scored samples than `k` is left out: it has no unbiased estimate.
    """
    scored = [values for values in _scored(problems) if len(values) >= k]
    rates = [pass_at_k(n=len(values), c=sum(value >= FULL for value in values), k=k) for values in scored]
    return interval(rates, samples=sum(map(len, scored)))


def pass_at_k(*, n: int, c: int, k: int) -> float:
    """Return the unbiased estimate of pass@k of one problem: the share of k-subsets with a right sample.

    Chen et al., Evaluating Large Language Models Trained on Code, 2021 (arXiv:2107.03374), equation 1.

    Args:
        n: number of samples.
        c: number of right samples.
        k: at most `n`.
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"{c} of {n} samples are right and k={k}: expected 0 <= c <= n and 1 <= k <= n")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def powers(n: int) -> list[int]:
    """Return the values of k to report for n samples: 1, 2, 4 and so on, up to n."""
    return [2**exponent for exponent in range(n.bit_length())]


def interval(rates: Sequence[float], *, samples: int) -> Estimate | None:
    """Return the mean of `rates` with its interval; None for none.

    It is Wilson's score interval (1927) at an effective number of samples, as Korn and Graubard (1998) use for surveys
    of clusters, with Student's t for the quantile. The effective number is rate (1 - rate) / standard error squared,
    with the standard error of the mean of clusters (Miller, Adding Error Bars to Evals, 2024, arXiv:2411.00640, section
    2.2). It lies between the number of problems minus one, if the samples of each problem are equal, and that of
    samples, if samples of one problem vary as much as samples of different ones. Where every rate is 0, or every rate
    is 1, the similarity of samples is unknown, and the number of problems is used.

    Args:
        rates: in [0, 1], one per problem.
        samples: total number of samples.
    """
    count = len(rates)
    if not count:
        return None
    mean = math.fsum(rates) / count
    if count == 1:  # the variance between problems is unknown
        return Estimate(value=mean, low=0.0, high=1.0, problems=1)
    squared_error = math.fsum((rate - mean) ** 2 for rate in rates) / (count - 1) / count
    if mean in (0.0, 1.0):
        effective = float(count)
    elif squared_error * samples <= mean * (1 - mean):
        effective = float(samples)
    else:
        effective = mean * (1 - mean) / squared_error
    z2 = student_quantile(count - 1) ** 2
    centre = (mean + z2 / (2 * effective)) / (1 + z2 / effective)
    half = math.sqrt(z2 * mean * (1 - mean) / effective + (z2 / (2 * effective)) ** 2) / (1 + z2 / effective)
    return Estimate(value=mean, low=max(0.0, centre - half), high=min(1.0, centre + half), problems=count)


@lru_cache(maxsize=256)
def student_quantile(degrees: int) -> float:
    """Return the t that |T| exceeds with probability 1 - CONFIDENCE for a Student variable T, by bisection."""
    low, high = 0.0, 1.0
    while _student_within(high, degrees) < CONFIDENCE:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _student_within(middle, degrees) < CONFIDENCE else (low, middle)
    return high


def _student_within(t: float, degrees: int) -> float:
    """Return P(|T| <= t) for a whole number of degrees (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    theta = math.atan(t / math.sqrt(degrees))
    sine, squared_cosine = math.sin(theta), math.cos(theta) ** 2
    is_odd = degrees % 2 == 1
    term = math.cos(theta) if is_odd else 1.0
    total = term if degrees > 1 else 0.0
    for numerator in range(2 if is_odd else 1, degrees - 2, 2):
        term *= squared_cosine * numerator / (numerator + 1)
        total += term
    return 2 / math.pi * (theta + sine * total) if is_odd else sine * total


def _scored(problems: Sequence[Scores]) -> list[list[float]]:
    """Return the scores of the problems that have any."""
    found = ([value for value in values if value is not None] for values in problems)
    return [values for values in found if values]


def _over_problems(problems: Sequence[Sequence[float]]) -> Estimate | None:
    return interval([math.fsum(each) / len(each) for each in problems], samples=sum(map(len, problems)))
