"""What a step's numbers should make somebody look at, and how often it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config.loading import load_run
from learner.alarms import Alarms

DEMO = Path(__file__).resolve().parents[2] / "config" / "recipes" / "demo_cpu.yaml"
HEALTHY = {"step": 30, "seconds": 1.0, "late_wait_seconds": 0.0, "truncated_share": 0.05, "mismatch_kl": 1e-6}


def alarms(*records: dict[str, Any]) -> list[list[str]]:
    """What each of the records brings about, in a run with max_lag 4."""
    watch = Alarms(load_run(["--config", str(DEMO), "learner.max_lag=4"]))
    return [watch.of(HEALTHY | record) for record in records]


def test_a_healthy_step_says_nothing() -> None:
    assert alarms({}) == [[]]


@pytest.mark.parametrize(("record", "said"), [
    ({"mismatch_kl": 0.03}, "mismatch_kl=0.0300 is above 0.02"),
    ({"late_wait_seconds": 0.5}, "50% of the time was spent waiting for late groups"),
    ({"late_wait_seconds": 0.5}, "learner.max_lag=8 instead of 4"),
    ({"truncated_share": 0.25}, "25% of the completions were cut at sampling.max_tokens=24"),
])
def test_each_alarm_says_its_number_and_what_to_do(record: dict[str, Any], said: str) -> None:
    [[alarm]] = alarms(record)
    assert said in alarm


def test_an_alarm_is_said_again_only_after_twenty_steps() -> None:
    bad = {"mismatch_kl": 0.5}
    assert [len(said) for said in alarms({"step": 1, **bad}, {"step": 20, **bad}, {"step": 21, **bad})] == [1, 0, 1]


def test_lateness_is_no_alarm_in_the_first_steps() -> None:
    assert alarms({"step": 3, "late_wait_seconds": 0.9}) == [[]]
