"""The small world of the rubric proof: its grades, its rows, and the verdict on runs in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from benchmarks.proofs.rubric import (
    MODES,
    RubricResult,
    as_table,
    held_out,
    holds,
    policy_run,
    rubric_model_run,
)
from benchmarks.rigs.rubric_world import Sum, sums, write_rows
from config.loading import build_run
from config.scorer_kinds import VerifierMode
from tasks.route import route
from tools.evaluate.derivations import Sample, derivations

pytestmark = pytest.mark.process

WAY = Sample(is_right=True, is_derived=True)
MIRACLE = Sample(is_right=True, is_derived=False)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("3+5=8, 8+4=12. \\boxed{12}", 10),
        ("3+5=8, 8+4=13. \\boxed{13}", 5),  # the second step slips
        ("3+5=8, 8+4=12. \\boxed{13}", 5),  # and so does what is stated
        ("3+5=9, 9+4=13. \\boxed{13}", 0),
        ("5+3=8, 8+4=12. \\boxed{12}", 0),  # other numbers than the question's first
        ("\\boxed{12}", 0),  # right, and without a way
        ("", 0),
    ],
)
def test_the_grade_is_five_points_for_each_step_that_is_shown_and_right(text: str, points: int) -> None:
    assert Sum(3, 5, 4).grade(text) == points


def test_no_held_out_problem_is_trained_on_and_every_row_reaches_its_scorer(tmp_path: Path) -> None:
    train, test = sums()
    assert not set(train) & set(test)
    write_rows(tmp_path)
    for name, kind in (("grade_train", "grade"), ("policy_test", "rubric")):
        rows = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        assert {route(row)[0] for row in rows} == {kind}


def test_every_mode_of_the_scorer_is_proven() -> None:
    assert {settings["mode"] for settings in MODES.values()} == set(get_args(VerifierMode))


@pytest.mark.parametrize("mode", MODES)
def test_what_is_trained_is_a_run_and_asks_the_judge_that_it_serves(mode: str, tmp_path: Path) -> None:
    assert build_run([("a test", rubric_model_run(tmp_path, 5))]).judge.serve is None
    run = build_run([("a test", policy_run(tmp_path, mode, 5))])
    assert run.judge.serve is not None
    assert run.judge.serve.model == str(tmp_path / "rubric-model" / "model")


def test_a_round_is_read_by_its_version_and_checked_line_by_line(tmp_path: Path) -> None:
    answers = ["3+5=8, 8+4=12. \\boxed{12}<|im_end|>", "\\boxed{12}<|im_end|>", *["\\boxed{9}"] * 6]
    asked = {"step": 0, "prompt": [{"role": "user", "content": "What is 3+5+4?"}]}
    rows = [{**asked, "answer": answer} for answer in answers]
    file = tmp_path / "evaluated.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = held_out(file).values()
    assert (found.samples, found.right, found.miracles) == (8, 2, 1)
    assert found.passed is not None
    assert found.passed.value == 1.0  # one of the eight is right


def test_the_proof_holds_where_graded_solutions_have_fewer_results_without_a_way() -> None:
    model = RubricResult(name="rubric-model", exit_code=0, reward=(0.6, 0.9))
    guessed, derived = derivations([[MIRACLE] * 8], k=8), derivations([[WAY] * 6 + [MIRACLE] * 2], k=8)
    outcome = RubricResult(name="outcome", exit_code=0, reward=(0.3, 0.8), before=derived, after=guessed)
    graded = replace(outcome, name="tinyv_only", before=guessed, after=derived)
    assert holds(model, [outcome, graded])
    assert not holds(model, [replace(outcome, after=derived), graded])
    assert not holds(replace(model, reward=(0.9, 0.9)), [outcome, graded])
    assert not holds(model, [outcome, replace(graded, exit_code=1)])
    table = "\n".join(as_table(model, [outcome, graded]))
    of_outcome = "| outcome | 0.30 to 0.80 | 1.00 to 1.00 | 1.00 to 0.00 | 8 of 8 to 8 of 8 | 25% to 100% |"
    assert of_outcome in table
    assert "**Holds**" in table
