"""A rate is of the samples that could be scored, and a histogram counts every rate once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tools.difficulty.rates import Histogram, Rate, RateSummary


@pytest.mark.parametrize(
    ("scores", "full", "rate"),
    [
        ([1.0, 0.0, 1.0, 0.0], 1.0, 0.5),
        ([1.0, None, 0.0, None], 1.0, 0.5),  # of the two that were scored
        ([None, None], 1.0, None),  # never 0
        ([], 1.0, None),
        ([0.75, 0.5, 1.0, 0.0], 1.0, 0.25),
        ([0.75, 0.5, 1.0, 0.0], 0.5, 0.75),
    ],
)
def test_a_rate_is_of_scored_samples(scores: Sequence[float | None], full: float, rate: float | None) -> None:
    assert Rate.of(scores, full=full).value == rate


def test_a_histogram_has_bars_of_their_own_for_none_and_for_all() -> None:
    found = Histogram.of([0, 0, 1, None, 0.05, 0.1, 0.11, 0.3, 7 / 10, 15 / 16])
    assert (found.zero, found.one, found.none) == (2, 1, 1)
    assert found.between == (2, 1, 1, 0, 0, 0, 1, 0, 0, 1), "an upper end is in its bar"
    assert sum(count for _, count in found.bars) + found.none == 10


@pytest.mark.parametrize("tenths", range(1, 10))
def test_a_rate_of_so_many_tenths_is_in_the_bar_that_ends_there(tenths: int) -> None:
    for samples in (10, 20, 30, 70):
        found = Histogram.of([tenths * samples // 10 / samples])
        assert found.between[tenths - 1] == 1


def test_a_histogram_as_text_is_as_wide_as_its_longest_bar() -> None:
    lines = Histogram.of([0, 0, 1, None]).lines(width=4)
    assert lines[0] == "       0        2 ####"
    assert lines[11] == "       1        1 ##"
    assert lines[-1] == " no rate        1"


def test_a_summary_counts_rows_and_samples_without_a_score_apart() -> None:
    of_rows: list[list[float | None]] = [[1.0, 0.0], [None, 1.0], [None, None], []]
    rates = {(0, number): Rate.of(scores, full=1.0) for number, scores in enumerate(of_rows)}
    found = RateSummary.of(rates)
    assert (found.rows, found.without_rate, found.samples, found.unscorable) == (4, 2, 6, 3)
    assert found.mean == 0.75
