"""Two ways of doing the same work, timed in turns, and the table that shows them side by side.

In: two functions. Out: a `Comparison`, and lines of Markdown. Each benchmark makes these; `python -m benchmarks` shows
them. The machines are shared, and a slow moment hits neighbours in time alike. So the two sides take turns, the side
that begins changes every round, and the ratio is the median of the rounds' own ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median


@dataclass(frozen=True, slots=True)
class TimedWork:
    """One timed piece of work."""

    amount: float  # of work, in the benchmark's own unit
    seconds: float

    @property
    def rate(self) -> float:
        """Return the work done a second."""
        return self.amount / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One line of the table: our rounds beside those of a peer or of a limit."""

    what: str  # was measured, with its sizes
    unit: str
    ours: Sequence[float]  # one a round
    beside: str  # the peer, or the limit: what the work costs without us
    other: Sequence[float]  # one a round
    less_is_better: bool = False

    @property
    def ratios(self) -> list[float]:
        """How many times as good ours is in each round: above 1, ours is ahead."""
        pairs = zip(self.ours, self.other, strict=True)
        return [other / ours if self.less_is_better else ours / other for ours, other in pairs]

    @property
    def ratio(self) -> float:
        """The median of the rounds' own ratios."""
        return median(self.ratios)


def median_interval(values: Sequence[float], share: float = 0.9) -> tuple[float, float]:
    """Return two of the values between which the median lies with a chance of at least `share`; of a few, the extremes.

    The chance that the median lies beyond the k-th value from either end is that of fewer than k heads in as many
    tosses as there are values.
    """
    ordered, count, k = sorted(values), len(values), 1
    while 2 * k < count and 1 - 2 * sum(comb(count, heads) for heads in range(k + 1)) / 2**count >= share:
        k += 1
    return ordered[k - 1], ordered[-k]


def timed(work: Callable[[], float]) -> TimedWork:
    """Run `work`, which returns how much it did."""
    started = time.perf_counter()
    amount = work()
    return TimedWork(amount, time.perf_counter() - started)


def take_turns(
    ours: Callable[[int], TimedWork], other: Callable[[int], TimedWork], *, rounds: int
) -> tuple[list[TimedWork], list[TimedWork]]:
    """Time each side in every round, after a first round that is not counted: caches are warm in both.

    Args:
        ours: what is measured; gets the number of the round, and prepares outside of the time that it takes.
        other: what it is compared with; the same round is the same work.
        rounds: counted ones.
    """
    mine, others = [], []
    for number in range(rounds + 1):
        if number % 2:
            second, first = other(number), ours(number)
        else:
            first, second = ours(number), other(number)
        if number:
            mine.append(first)
            others.append(second)
    return mine, others


def as_table(comparisons: Sequence[Comparison]) -> list[str]:
    """Write comparisons as lines of a Markdown table."""
    lines = ["| what | unit | ours | beside it | its number | ratio |", "|---|---|--:|---|--:|--:|"]
    for row in comparisons:
        ratio = _spread(row.ratios, lambda value: f"{value:.2f}")
        cells = (row.what, row.unit, _spread(row.ours), row.beside, _spread(row.other), ratio)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def number_text(value: float) -> str:
    """Write a number with three significant digits and commas between thousands."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _spread(values: Sequence[float], text: Callable[[float], str] = number_text) -> str:
    """Show the median of the rounds, with the smallest and the largest."""
    if len(set(values)) == 1:
        return text(values[0])
    return f"{text(median(values))} ({text(min(values))} to {text(max(values))})"
