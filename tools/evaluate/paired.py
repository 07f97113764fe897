"""Test whether one model is better than another on the same problems.

In: for each shared problem the mean score of each model. Out: the mean difference with its 95% interval, and the
probability of at least that difference by chance. Pure arithmetic; used by `tools.evaluate.comparison`.

Pairing by problem removes the variance between easy and hard problems, which is most of the variance of either mean
(Miller, Adding Error Bars to Evals, 2024, arXiv:2411.00640, section 4.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tools.evaluate.rates import student_quantile

EXACT: Final = 14  # differing problems, up to which every choice of signs is tried
FLIPS: Final = 20_000  # random choices of signs for more problems; p is known to within 0.003 of 0.05
AT_ONCE: Final = 10_000_000  # signs in memory
ROUNDING: Final = 1e-9  # relative: sums of the same numbers in another order count as equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The improvement of the second model over the first."""

    value: float  # mean over problems, second minus first
    low: float  # of the 95% interval
    high: float
    p: float  # two-sided
    problems: int
    better: int  # problems where the second model's mean is higher
    worse: int


def paired(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Compare the means of the same problems, in the same order; at least one.

    The interval is Student's for the mean of the differences. The probability is that of a random sign test: if the
    models were equal, each difference could as well have the other sign (Fisher, The Design of Experiments, 1935,
    section 21). Up to `EXACT` differing problems every choice of signs is counted. Beyond that, `FLIPS` random choices
    by a fixed seed are counted, including the observed one, so that p is never 0 (Phipson and Smyth, 2010).
    """
    differences = np.array(second, dtype=np.float64) - np.array(first, dtype=np.float64)
    count = len(differences)
    if not count:
        raise ValueError("no problem to compare")
    mean = math.fsum(differences) / count
    half = math.inf
    if count > 1:
        half = student_quantile(count - 1) * float(differences.std(ddof=1)) / math.sqrt(count)
    return Difference(
        value=mean,
        low=max(-1.0, mean - half),
        high=min(1.0, mean + half),
        p=_by_random_signs(differences[differences != 0]),
        problems=count,
        better=int((differences > 0).sum()),
        worse=int((differences < 0).sum()),
    )


def _by_random_signs(differences: NDArray[np.float64]) -> float:
    """Return the share of sign choices whose sum is at least as far from 0 as that of `differences`."""
    count = len(differences)
    if not count:
        return 1.0
    reached = abs(differences.sum()) - ROUNDING * np.abs(differences).sum()
    if count <= EXACT:
        signs = np.array(list(product((-1.0, 1.0), repeat=count)))
        return float((np.abs(signs @ differences) >= reached).mean())
    rng, hits, left = np.random.default_rng(0), 0, FLIPS
    while left:
        rows = min(left, max(1, AT_ONCE // count))
        bits = rng.integers(0, 2, size=(rows, count), dtype=np.int8)
        hits += int((np.abs((2.0 * bits - 1.0) @ differences) >= reached).sum())
        left -= rows
    return (hits + 1) / (FLIPS + 1)
