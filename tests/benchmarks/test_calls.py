"""What a call costs where every episode has asked before one is answered, in a tiny size."""

from __future__ import annotations

import pytest

from benchmarks.measures.playing.calls import SMOKE, measure

pytestmark = pytest.mark.process


@pytest.mark.prove
def test_every_call_is_answered_and_its_cost_is_found_for_worker_and_redis() -> None:
    worker, redis = measure(SMOKE)  # raises where a call is missing, or asked in another way
    assert min(worker.ours) > 0
    assert min(redis.ours) > 0
