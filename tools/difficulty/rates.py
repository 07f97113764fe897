"""Compute the pass rate of a row: the share of fully scored samples, of those that could be scored.

In: a row's scores, or another scorer's scores of its stored samples. Out: a `Rate`; None is never 0. Pure; used by
`millrace difficulty`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

RateKey = tuple[int, int]  # number of a source, and of a row in it
BINS: Final = 10  # of a histogram, between rates of 0 and of 1, which have their own bins


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A model's result on a row."""

    samples: int
    scored: int  # samples with a score
    passed: int  # samples with a full score

    @classmethod
    def of(cls, scores: Sequence[float | None], *, full: float) -> Rate:
        """Count samples by their scores; None: unscorable. `full` is the lowest full score."""
        values = [score for score in scores if score is not None]
        return cls(samples=len(scores), scored=len(values), passed=sum(value >= full for value in values))

    @property
    def value(self) -> float | None:
        """Return the rate; None where no sample could be scored."""
        return self.passed / self.scored if self.scored else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """The number of rows by rate."""

    none: int  # rows without a rate
    zero: int
    between: tuple[
        int, ...
    ]  # BINS of them: above 0 and below 1, each without its lower end and with its upper
    one: int

    @classmethod
    def of(cls, rates: Sequence[float | None]) -> Histogram:
        """Count rates. The last bin ends below 1."""
        between = [0] * BINS
        for rate in rates:
            if rate is not None and 0 < rate < 1:
                between[math.ceil(round(rate * BINS, 9)) - 1] += 1  # 0.3 * 10 is slightly above 3
        return cls(
            none=sum(rate is None for rate in rates),
            zero=sum(rate == 0 for rate in rates),
            between=tuple(between),
            one=sum(rate == 1 for rate in rates),
        )

    @property
    def bars(self) -> list[tuple[str, int]]:
        """Return the label and the count of each bar."""
        inner = [(f"to {(place + 1) / BINS:g}", count) for place, count in enumerate(self.between)]
        inner[-1] = ("below 1", self.between[-1])
        return [("0", self.zero), *inner, ("1", self.one)]

    def lines(self, *, width: int = 40) -> list[str]:
        """Return the histogram as text, a line per bar; the longest is `width` characters."""
        most = max(1, *(count for _, count in self.bars))
        lines = [
            f"{label:>8} {count:>8} {'#' * math.ceil(width * count / most)}".rstrip()
            for label, count in self.bars
        ]
        return [*lines, f"{'no rate':>8} {self.none:>8}"] if self.none else lines


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSummary:
    """A model's results on all rows."""

    rows: int  # with samples
    without_rate: int  # without any scorable sample
    samples: int
    unscorable: int  # samples without a score
    mean: float | None  # of the rows' rates
    histogram: Histogram

    @classmethod
    def of(cls, rates: Mapping[RateKey, Rate]) -> RateSummary:
        """Summarize the rates of the sampled rows."""
        values = [rate.value for rate in rates.values()]
        known = [value for value in values if value is not None]
        return cls(
            rows=len(rates),
            without_rate=len(values) - len(known),
            samples=sum(rate.samples for rate in rates.values()),
            unscorable=sum(rate.samples - rate.scored for rate in rates.values()),
            mean=math.fsum(known) / len(known) if known else None,
            histogram=Histogram.of(values),
        )
