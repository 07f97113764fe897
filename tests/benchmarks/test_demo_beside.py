"""What the proof beside another checkout reads out of a run's steps."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.proofs.demo_beside import BEFORE, WARM, Side

USED = {"began_at": 1000.0, "wall_s": 60.0, "processor_s": 60.0, "memory_mb": 700.0}


def line(number: int, **changed: Any) -> dict[str, Any]:
    return {"at": 1010.0 + number, "groups": 16, "dropped": 0, **changed}


def test_a_side_is_read_from_its_steps() -> None:
    slow_start = [line(number, at=1005.0 + number / 100) for number in range(WARM - 1)]
    side = Side(lines=[*slow_start, *map(line, range(WARM - 1, 30)), line(30, at=1042.0)], used=USED)
    assert (side.first_step_s, side.behind_s, side.last_step_s) == (5.0, 18.0, 3.0)
    assert side.last_by_before == 3.0
    assert side.step_s == pytest.approx((1042.0 - 1019.0) / 21)
    assert len(side.lines) > WARM + BEFORE


def test_only_steps_that_are_mostly_empty_count_as_such() -> None:
    at = [line(0), line(1, dropped=16), line(2, dropped=48), line(5, dropped=80), line(6, dropped=47)]
    assert Side(lines=at, used=USED).empty_step_s == 2.0
    assert Side(lines=at[:2], used=USED).empty_step_s is None
