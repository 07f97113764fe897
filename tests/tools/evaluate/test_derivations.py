"""Pass rates of right and of verified answers, and the rate of right answers without a way to them."""

from __future__ import annotations

import pytest

from tools.evaluate.derivations import Sample, derivations

WAY = Sample(is_right=True, is_derived=True)
MIRACLE = Sample(is_right=True, is_derived=False)
WRONG = Sample(is_right=False, is_derived=False)
SLIP = Sample(is_right=False, is_derived=True)  # a derivation that leads elsewhere


def test_the_figures_can_be_counted_on_paper() -> None:
    found = derivations([[WAY, MIRACLE, WRONG, SLIP], [MIRACLE, MIRACLE, WRONG, WRONG]], k=1)
    assert found.passed is not None
    assert found.verified is not None
    assert (found.passed.value, found.verified.value) == (0.5, 0.125)  # 4 of 8, and 1 of 8
    assert (found.right, found.miracles, found.samples, found.miracle_rate) == (4, 3, 8, 0.75)


def test_pass_at_k_is_the_share_of_choices_with_a_right_or_a_verified_sample() -> None:
    found = derivations([[WAY, MIRACLE, WRONG, WRONG]], k=2)
    assert found.passed is not None
    assert found.verified is not None
    assert found.passed.value == pytest.approx(5 / 6)  # 1 of the 6 pairs is of the two wrong ones
    assert found.verified.value == pytest.approx(3 / 6)  # 3 of the 6 pairs are without the verified one


def test_a_sample_without_one_of_the_verdicts_counts_nowhere() -> None:
    unknown = [Sample(is_right=None, is_derived=True), Sample(is_right=True, is_derived=None)]
    assert derivations([[WAY, WRONG, *unknown]], k=1) == derivations([[WAY, WRONG]], k=1)


def test_without_a_right_sample_there_is_no_miracle_rate() -> None:
    assert derivations([[WRONG, SLIP]], k=1).miracle_rate is None
    assert derivations([], k=4).passed is None
