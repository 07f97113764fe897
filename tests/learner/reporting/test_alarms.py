"""What a step's numbers should make somebody look at, and how often it is said."""

from __future__ import annotations

from typing import Any

import pytest

from config.loading import load_run
from learner.reporting.alarms import Alarms
from tests.support.paths import ROOT

DEMO = ROOT / "config" / "recipes" / "demo_cpu.yaml"
HEALTHY = {"step": 30, "seconds": 1.0, "late_wait_seconds": 0.0, "truncated_share": 0.05, "mismatch_kl": 1e-6}


APART = {"generators": {"g0": {"mismatch_kl": 0.001}, "g1": {"mismatch_kl": 0.09}}}


def alarms(*records: dict[str, Any]) -> list[list[str]]:
    """Return what each of the records brings about, in a run with max_lag 4."""
    watch = Alarms(load_run(["--config", str(DEMO), "learner.max_lag=4"]))
    return [watch.of(HEALTHY | record) for record in records]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"mismatch_kl": 0.03}, "mismatch_kl=0.0300 is above 0.02"),
        (APART, "mismatch_kl=0.0900 of generator g1 is above 0.02"),
        ({"truncated_share": 0.25}, "25% of the completions were cut at sampling.max_tokens=24"),
    ],
)
def test_each_alarm_says_its_number_and_what_to_do(record: dict[str, Any], said: str) -> None:
    [nothing, [alarm]] = alarms({}, record)
    assert (nothing, said in alarm) == ([], True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "at sampling.max_tokens=24; what is cut is not trained on"),
        (("learner.filters.truncated=keep",), "what is cut is trained on as it is"),
        (
            ("scorers.tasks.lake={environment: {type: custom, import_path: 'lake:Lake'}}",),
            "or a limit of their episode; what is cut is not trained on, unless it is an episode",
        ),
    ],
    ids=["unset", "keep", "with an environment"],
)
def test_what_becomes_of_truncated_completions_is_said(words: tuple[str, ...], said: str) -> None:
    watch = Alarms(load_run(["--config", str(DEMO), *words]))
    (alarm,) = watch.of(HEALTHY | {"truncated_share": 0.25})
    assert alarm.endswith(said)


def test_the_limits_that_ended_episodes_are_named() -> None:
    lake = "scorers.tasks.lake={environment: {type: custom, import_path: 'lake:Lake'}}"
    ended_by = {"message": 0.5, "turns": 0.2, "context": 0.05, "tokens": 0.0, "crash": 0.25}
    watch = Alarms(load_run(["--config", str(DEMO), lake]))
    (alarm,) = watch.of(HEALTHY | {"truncated_share": 0.25, "episodes": {"ended_by": ended_by}})
    assert "or a limit of their episode (turns 20%, context 5%); what is cut" in alarm


def test_an_alarm_is_said_again_only_after_twenty_steps() -> None:
    bad = {"mismatch_kl": 0.5}
    assert [len(said) for said in alarms(*({"step": step, **bad} for step in (1, 20, 21)))] == [1, 0, 1]


@pytest.mark.parametrize("first", [1, 300])  # of a run that begins, and of one that goes on
def test_lateness_is_an_alarm_from_the_twentieth_step_of_this_life_on(first: int) -> None:
    said = alarms(*({"step": first + done, "late_wait_seconds": 0.5 * (done + 1)} for done in range(20)))
    assert said[:19] == [[]] * 19
    [alarm] = said[19]
    assert "50% of the time was spent waiting for late groups" in alarm
    assert "learner.max_lag=8 instead of 4" in alarm
