"""What the proof of `millrace top` calls held."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.proofs.bottleneck import QUICK, SITUATIONS, Situation, SituationRow, as_table
from config.loading import load_run
from tests.conftest import ROOT
from tools.run_view.finding import BottleneckFinding

pytestmark = pytest.mark.process

IN_FLIGHT = "learner.groups_in_flight"
BY_NAME = {situation.bottleneck: situation for situation in SITUATIONS}


def row(made: str, *, named: str, gain: float = 1.0, knob: str = "", after: float = 4.0) -> SituationRow:
    """Two groups a second before, `after` after."""
    facts: dict[str, Any] = {"gain": gain, "utilisation": 0.97, "knob": {knob: 2} if knob else {}}
    said = BottleneckFinding(text="", bottleneck=named, **facts)
    return SituationRow(situation=BY_NAME[made], before=2.0, after=after, said=said)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (row("scorers", named="scorers"), "held"),
        (row("scorers", named="scorers", after=3.01), "held"),  # 4 were expected, which is a third more
        (row("scorers", named="scorers", after=2.9), "NOT held: the estimate"),
        (row("generators", named="generators", after=6.1), "NOT held: the estimate"),
        (row("generators", named="budget", knob="learner.max_lag"), "NOT held: top named budget"),
        (row("scorers", named=""), "NOT held: top named nothing"),
        (row("learner", named="learner", knob="learner.ranks", after=2.1), "held"),  # the key; not its gain
        (row("budget", named="budget", knob="learner.max_lag"), "held"),
        (row("budget", named="budget", knob=IN_FLIGHT), f"NOT held: top named {IN_FLIGHT}"),
    ],
)
def test_a_situation_holds_where_top_named_it_and_foresaw_what_came(
    found: SituationRow, verdict: str
) -> None:
    assert found.verdict == verdict


def test_the_table_shows_the_estimate_beside_what_came() -> None:
    lines = as_table([row("scorers", named="scorers", after=3.6), row("learner", named="scorers")], 20)
    assert lines[2] == "| slow scorers | scorers | 97% | one more scorer | 2.00 | 4.00 | 3.60 | +11% | held |"
    assert lines[3].startswith("| slow learner | scorers | 97% | learner.ranks=2 |")
    assert "**1 of 2 held**" in lines[-1]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.bottleneck)
def test_the_settings_of_a_situation_can_be_read(situation: Situation) -> None:
    demo = str(ROOT / "config/recipes/demo_cpu.yaml")
    words = ["--config", demo, *QUICK, *situation.settings, *situation.knob]
    assert load_run(words).scorers.tasks["math"].scorer.type == "custom"
