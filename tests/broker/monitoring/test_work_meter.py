"""How much a process works, by a clock that the test turns."""

from __future__ import annotations

import pytest

from broker.monitoring.work_meter import COUNTERS, WorkMeter, as_fields

GROUPS = (0.0, "groups")


# What the process says, each followed by so many seconds; then the sums.
@pytest.mark.parametrize(
    ("said", "sums"),
    [
        ([], {}),  # it has not been ready yet
        ([((1.0, ""), 4)], {"up_s": 4, "busy_s": 4, "idle_s": 0}),
        ([(GROUPS, 3), ((1.0, ""), 1)], {"up_s": 4, "busy_s": 1, "wait_groups_s": 3, "idle_s": 0}),
        ([((1.0, ""), 1), (GROUPS, 3)], {"up_s": 4, "busy_s": 1, "wait_groups_s": 3, "idle_s": 3}),
        (
            [((0.25, "prompts"), 8), ((0.0, "prompts"), 2)],  # a quarter of its room, then none
            {"up_s": 10, "busy_s": 2, "wait_prompts_s": 8, "idle_s": 2},
        ),
        (
            [(GROUPS, 2), (GROUPS, 2), ((0.0, "late"), 1)],  # idle is of waiting for this
            {"up_s": 5, "busy_s": 0, "wait_groups_s": 4, "wait_late_s": 1, "idle_s": 1},
        ),
    ],
)
def test_sums_tell_work_from_waits(
    said: list[tuple[tuple[float, str], float]], sums: dict[str, float]
) -> None:
    now = [100.0]
    meter = WorkMeter(lambda: now[0])
    now[0] += 50  # starting is neither
    for (share, waits_for), seconds in said:
        meter.hold(share, waits_for)
        now[0] += seconds
    assert meter.read() == pytest.approx(sums)
    assert set(sums) <= COUNTERS


def test_what_is_done_is_counted_and_what_is_under_way_counts_at_once() -> None:
    now = [0.0]
    meter = WorkMeter(lambda: now[0])
    meter.hold(1.0)
    meter.count(groups=2, tokens=30)
    meter.count(groups=1)
    now[0] += 1.5
    assert meter.read() == {"up_s": 1.5, "busy_s": 1.5, "idle_s": 0.0, "groups": 3, "tokens": 30}
    fields = {"up_s": "1.500", "busy_s": "1.500", "idle_s": "0.000", "groups": "3", "tokens": "30"}
    assert as_fields(meter.read()) == fields


def test_a_process_that_is_not_ready_is_idle_since_its_start() -> None:
    now = [0.0]
    meter = WorkMeter(lambda: now[0])
    now[0] += 70
    assert meter.idle_s == 70
    meter.hold(0.0, "prompts")
    now[0] += 5
    assert meter.idle_s == 5
    meter.hold(0.5, "prompts")
    assert meter.idle_s == 0
