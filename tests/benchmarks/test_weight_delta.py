"""The benchmark of deltas, with a model of a million parameters."""

from __future__ import annotations

import pytest

from benchmarks.measures.weight_delta import SMOKE, measure

pytestmark = pytest.mark.process


@pytest.mark.prove
def test_deltas_of_a_small_model_arrive_bit_for_bit_near_their_entropy_and_by_redis() -> None:
    rows = {row.unit: row for row in measure(SMOKE) if row.beside.startswith("bar")}
    assert rows["versions"].ours == [SMOKE.steps]
    assert rows["bits a changed element"].ratio >= 1
