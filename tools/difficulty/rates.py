"""The pass rate of a row: the share of its samples with a full score, of those that could be scored.

In: a row's scores, or the scores that another scorer gives its stored samples. Out: a `Rate`; None is never 0. Pure;
used by `millrace difficulty`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

RateKey = tuple[int, int]  # number of a source, and of a row in it
BINS: Final = 10  # of a histogram, between a rate of 0 and one of 1, which have their own


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What a model made of a row."""

    samples: int
    scored: int  # samples with a score
    passed: int  # samples with a full score

    @classmethod
    def of(cls, scores: Sequence[float | None], *, full: float) -> Rate:
        """Count samples, by their scores; None: a sample could not be scored. `full` is the least full score."""
        values = [score for score in scores if score is not None]
        return cls(samples=len(scores), scored=len(values), passed=sum(value >= full for value in values))

    @property
    def value(self) -> float | None:
        """Return the rate; None where no sample could be scored."""
        return self.passed / self.scored if self.scored else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How many rows have which rate."""

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
                between[math.ceil(round(rate * BINS, 9)) - 1] += 1  # 0.3 * 10 is a little more than 3
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
        """Return the histogram as text, a line a bar; the longest is `width` characters."""
        most = max(1, *(count for _, count in self.bars))
        lines = [
            f"{label:>8} {count:>8} {'#' * math.ceil(width * count / most)}".rstrip()
            for label, count in self.bars
        ]
        return [*lines, f"{'no rate':>8} {self.none:>8}"] if self.none else lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a model made of all rows."""

    rows: int  # that were sampled
    without_rate: int  # none of whose samples could be scored, or of which there are none
    samples: int
    unscorable: int  # samples without a score
    mean: float | None  # of the rows' rates
    histogram: Histogram

    @classmethod
    def of(cls, rates: Mapping[RateKey, Rate]) -> Summary:
        """Sum up the rates of the rows that were sampled."""
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
