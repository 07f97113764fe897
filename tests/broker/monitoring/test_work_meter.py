"""How much a process works, by a clock that the test turns."""

from __future__ import annotations

import pytest

from broker.monitoring.work_meter import COUNTERS, WorkMeter, as_fields


class Turned:
    """A clock for tests."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# What the process says, each followed by so many seconds; then the sums.
@pytest.mark.parametrize(
    ("said", "sums"),
    [
        ([], {}),  # it has not been ready yet
        ([((1.0, ""), 4)], {"up_s": 4, "busy_s": 4, "idle_s": 0}),
        ([((0.0, "groups"), 3), ((1.0, ""), 1)], {"up_s": 4, "busy_s": 1, "wait_groups_s": 3, "idle_s": 0}),
        ([((1.0, ""), 1), ((0.0, "groups"), 3)], {"up_s": 4, "busy_s": 1, "wait_groups_s": 3, "idle_s": 3}),
        (
            [((0.25, "prompts"), 8), ((0.0, "prompts"), 2)],  # a quarter of its room, then none
            {"up_s": 10, "busy_s": 2, "wait_prompts_s": 8, "idle_s": 2},
        ),
        (
            [((0.0, "groups"), 2), ((0.0, "groups"), 2), ((0.0, "late"), 1)],
            {"up_s": 5, "busy_s": 0, "wait_groups_s": 4, "wait_late_s": 1, "idle_s": 1},
        ),  # of waiting for this
    ],
)
def test_sums_tell_work_from_waiting(
    said: list[tuple[tuple[float, str], float]], sums: dict[str, float]
) -> None:
    clock = Turned()
    meter = WorkMeter(clock)
    clock.now += 50  # starting is neither
    for (share, waits_for), seconds in said:
        meter.hold(share, waits_for)
        clock.now += seconds
    assert meter.read() == pytest.approx(sums)
    assert set(sums) <= COUNTERS


def test_what_is_done_is_counted_and_what_is_under_way_counts_at_once() -> None:
    clock = Turned()
    meter = WorkMeter(clock)
    meter.hold(1.0)
    meter.count(groups=2, tokens=30)
    meter.count(groups=1)
    clock.now += 1.5
    assert meter.read() == {"up_s": 1.5, "busy_s": 1.5, "idle_s": 0.0, "groups": 3, "tokens": 30}
    assert as_fields(meter.read()) == {
        "up_s": "1.500",
        "busy_s": "1.500",
        "idle_s": "0.000",
        "groups": "3",
        "tokens": "30",
    }


def test_a_process_that_is_not_ready_is_idle_since_its_start() -> None:
    clock = Turned()
    meter = WorkMeter(clock)
    clock.now += 70
    assert meter.idle_s == 70
    meter.hold(0.0, "prompts")
    clock.now += 5
    assert meter.idle_s == 5
    meter.hold(0.5, "prompts")
    assert meter.idle_s == 0
