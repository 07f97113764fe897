"""The table of what lag costs, and the verdict on it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.proofs.staleness import LOSSES, StalenessResult, as_table, draw, holds, read_runs

pytestmark = pytest.mark.process


def result(loss: str, max_lag: int, seed: int, after: float | None, *, exit_code: int = 0) -> StalenessResult:
    of_run = {
        "exit_code": exit_code,
        "seconds": 100.0 + seed,
        "lag_mean": max_lag / 2,
        "clipped": 0.01,
        "commit": "abc",
    }
    return StalenessResult(loss=loss, max_lag=max_lag, seed=seed, before=0.25, after=after, **of_run)  # type: ignore[arg-type]


GOOD = [result("grpo", lag, seed, 0.9 + seed / 100) for lag in (0, 4) for seed in (0, 1)]


def test_a_row_is_the_mean_of_its_seeds_with_the_least_and_the_most() -> None:
    lines = as_table([*GOOD, result("cispo", 4, 0, 0.5)])
    assert "| grpo | 4 | 2 | 0.905 (0.900 to 0.910) | 2.0 | 1.0% | 100 |" in lines
    assert "| cispo | 4 | 1 | 0.500 (0.500 to 0.500) | 2.0 | 1.0% | 100 |" in lines
    assert lines[-1] == (
        "**Holds**: 5 of 5 runs ended well with a clean audit; grpo at max_lag 4 reaches 0.905, and 0.905 without lag. "
        "Commit abc."
    )


@pytest.mark.parametrize(
    "spoilt",
    [
        [*GOOD[:2], result("grpo", 4, 0, 0.8)],
        [*GOOD, result("gspo", 16, 0, 0.9, exit_code=1)],
        [*GOOD[:2], result("grpo", 4, 0, None)],
        [],
    ],
)
def test_a_run_that_failed_and_a_default_that_loses_by_lag_are_no_proof(
    spoilt: list[StalenessResult],
) -> None:
    assert holds(GOOD)
    assert not holds(spoilt)


def test_what_has_run_is_read_back_and_not_run_again(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    assert read_runs(file) == {}
    file.write_text("".join(json.dumps(asdict(one)) + "\n" for one in GOOD))
    assert read_runs(file) == {(one.loss, one.max_lag, one.seed): one for one in GOOD}


@pytest.mark.prove
def test_the_picture_has_every_loss_and_bound(tmp_path: Path) -> None:
    found = [result(loss, lag, seed, 0.9) for loss in LOSSES for lag in (0, 16) for seed in (0, 1)]
    draw(found, tmp_path / "staleness.png")
    assert (tmp_path / "staleness.png").stat().st_size > 10_000
