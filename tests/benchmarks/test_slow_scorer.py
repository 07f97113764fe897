"""The proof with a scorer of a second: its scorer, its table, and the verdict."""

from __future__ import annotations

import time

import pytest

from benchmarks.proofs.slow_scorer import SlowRun, as_table, holds, ratios, settings_of
from benchmarks.rigs.groups import RECIPE, spoken_rollout
from config.loading import load_run
from scorers.group import GroupScorer

pytestmark = pytest.mark.process


def run(train_s: float, after: float | None = 0.95, *, exit_code: int = 0, lag: float = 0.0) -> SlowRun:
    return SlowRun(exit_code=exit_code, train_s=train_s, scored_s=1.0, lag=lag, after=after)


GOOD = [(run(50.0, lag=4.0), run(100.0)), (run(60.0), run(90.0, 0.96)), (run(40.0, 0.94), run(80.0))]


def test_the_table_has_both_sides_and_the_ratio_of_the_pairs() -> None:
    lines = as_table(GOOD, 4)
    assert ratios(GOOD) == [2.0, 1.5, 2.0]
    assert lines[0].startswith("| what | unit | max_lag 4 | max_lag 0 |")
    assert "| first step to last | s | 50 (40 to 60) | 90 (80 to 100) | 2.00 | 1.50 to 2.00 |" in lines
    assert lines[-1].startswith("**Holds**: 6 of 6 runs ended well with a clean audit; 2.00 times as fast")


@pytest.mark.parametrize(
    "spoilt",
    [
        [],
        [(run(70.0), run(100.0))],
        [(run(50.0, 0.92), run(100.0))],
        [(run(50.0, None), run(100.0))],
        [*GOOD, (run(50.0, exit_code=1), run(100.0))],
    ],
)
def test_a_slow_a_failed_and_a_worse_run_are_no_proof(spoilt: list[tuple[SlowRun, SlowRun]]) -> None:
    assert holds(GOOD)
    assert not holds(spoilt)


def test_the_scorer_thinks_once_a_group_and_says_what_the_math_scorer_says() -> None:
    settings = settings_of(0.2, 3, 24)
    config = load_run(["--config", str(RECIPE), *settings])
    assert (config.scorers.workers, config.learner.steps, config.evaluation.every) == (24, 3, 3)
    scorer = GroupScorer(config.scorers)
    try:
        began = time.monotonic()
        found = [
            list(scorer.score(spoken_rollout(name, ["\\boxed{3}", "\\boxed{4}"], "3"), "test").rewards)
            for name in ("1", "2")
        ]
        seconds = time.monotonic() - began
    finally:
        scorer.close()
    assert found == [[1.0, 0.0]] * 2
    assert seconds >= 0.4
