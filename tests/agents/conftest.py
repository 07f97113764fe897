"""What tests of agents at play share."""

from __future__ import annotations

import pytest

from agents import group, turns, worker
from broker.monitoring import heartbeat
from generators import calls
from generators import worker as generator_worker
from generators.weight_sync import follower
from tests.support.spawned_by_setpriv import _spawned_by_setpriv

__all__ = ["_spawned_by_setpriv"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have agents and generators look often."""
    for module, *names in (
        (worker, "LOOK_EVERY_S", "BLOCK_S"),
        (turns, "LOOK_EVERY_S", "HEAR_S"),
        (group, "FIRST_PAUSE_S"),
        (generator_worker, "LOOK_EVERY_S", "BLOCK_S"),
        (calls, "TAKE_OVER_EVERY_S"),
        (follower, "BLOCK_S", "ASK_S"),
        (heartbeat, "LOOK_S"),
    ):
        for name in names:
            monkeypatch.setattr(module, str(name), 0.05)
