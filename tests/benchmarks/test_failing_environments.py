"""Environments that hang, leak, raise, are late or exit, beside groups that do not."""

from __future__ import annotations

import pytest

from benchmarks.measures.playing.failing_environments import SMOKE, measure

pytestmark = pytest.mark.process


@pytest.mark.prove
def test_each_failure_costs_its_episodes_and_no_others_and_is_named() -> None:
    (row,) = measure(SMOKE)  # raises where it is not so
    assert row.ours[0] > 0
