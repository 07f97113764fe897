"""The proof of exact resume: one small case of it as it is, and what chooses the places to die at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.proofs import exact_resume
from benchmarks.results import ROOT
from benchmarks.rigs.killed_learner import Death, lines_of, text_of
from benchmarks.rigs.resumed_run import (
    WHILE_STARTING,
    WHILE_TRAINING,
    ResumedRunResult,
    comes_once,
    resumed_run,
)

pytestmark = pytest.mark.e2e


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_a_learner_that_was_killed_three_times_has_the_weights_of_one_that_was_not(tmp_path: Path) -> None:
    """The learner, a generator, a scorer and Redis as users start them; `make prove-suite` runs it."""
    (announced,) = places_of("groups/retirement", "__call__", "self._run_owner.retire")
    deaths = [_after_append(), WHILE_TRAINING, announced]
    result = resumed_run(tmp_path, ranks=1, zero_stage=0, steps=16, seed=3, deaths=deaths)
    assert result.verdict == "pass", result
    died = [death.split("`")[0] for death in result.deaths]
    assert died == ["before ", f"{WHILE_TRAINING}: the whole learner", "before "]
    assert result.again >= 1  # what the first death left in the journal alone
    assert (result.identical + result.unpublished, result.lost, result.twice) == (16, 0, 0)
    assert result.unpublished <= 6

    # Two ranks add up in another order: what `millrace replay` says then, and that its ranks follow and end.
    words = ["replay", "ranks-1-zero-0", "--steps", "15-16", "--ranks", "2", "--runs-dir", str(tmp_path)]
    replay = subprocess.run(
        [sys.executable, "-m", "tools.main", *words], cwd=ROOT, text=True, check=False, capture_output=True,
        timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert replay.returncode == 1, replay.stderr
    found = [line.split(",")[0] for line in replay.stdout.splitlines()]
    assert found[0].startswith("version 14")
    assert found[1:] == [
        "step 15: differs",
        "step 16: differs",
        "the run trained steps 1-16 with 1 rank",
        "steps 2: ok 0",
    ]


def places_of(file: str, function: str, beginning: str) -> list[str]:
    return [place for place in lines_of(file, function) if text_of(place).startswith(beginning)]


def _after_append() -> str:
    """Return the place where a step stands in the journal and nothing has trained on it."""
    return places_of("trainer", "_step", "stepped = self.policy.step")[0]


def test_the_places_to_die_at_are_the_lines_of_the_loop_and_of_the_recovery() -> None:
    texts = [text_of(place) for place in exact_resume.places()]
    in_order = [
        "self._step(groups)",
        "stepped = self.policy.step(batch, learner if learner.epochs else None)",
        "self.publisher.begin(self.policy, self.version)",
        "self.checkpoints.save(self.policy, self.progress())",
        "self._retire_what_has_ended()",
    ]
    assert [text for text in texts if text in in_order] == in_order
    assert not any(text.startswith(("def ", "return ", "break", "raise ", '"""', "try:")) for text in texts)
    assert len(set(exact_resume.places())) == len(texts)


def test_no_second_time_is_waited_for_where_a_line_comes_by_once() -> None:
    once = [text_of(place) for place in exact_resume.places() if comes_once(place)]
    file = "resume/recovery"
    recovery = [
        text_of(place)
        for place in (*lines_of(file, "recover", loop=True), *lines_of(file, "_bring_together"))
    ]
    assert len(recovery) > 5
    assert sorted(once) == sorted([*recovery, "stream = self._begin_file()"])


def test_every_place_is_dealt_once_and_every_run_has_its_moments() -> None:
    plan = exact_resume.plan(4, seed=5)
    moments = {WHILE_STARTING, WHILE_TRAINING}
    dealt = [place for hand in plan for place in hand if place not in moments]
    assert sorted(dealt) == sorted(exact_resume.places())
    assert [sum(place in moments for place in hand) for hand in plan] == [4] * 4
    assert exact_resume.plan(4, seed=5) == plan != exact_resume.plan(4, seed=6)


def test_a_function_that_is_not_there_any_more_is_named() -> None:
    with pytest.raises(ValueError, match=r"learner/trainer\.py has no function gone"):
        lines_of("trainer", "_step", "gone")


def test_death_looks_into_one_file_alone(tmp_path: Path) -> None:
    death = Death("trainer.py:5:2", tmp_path / "note")
    assert death.call(sys._getframe(), "call", None) is None  # this file is not the trainer's


RUN = {"steps": 10, "identical": 10, "lost": 0, "twice": 0}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "pass"),
        ({"identical": 9}, "1 steps differ"),
        ({"lost": 2, "twice": 1}, "2 lost, 1 twice"),
        ({"lost": -1}, "-1 lost"),
        ({"problem": "life 3 ended by itself"}, "life 3 ended by itself"),
        ({"deaths": ["before `a`"]}, "1 of 2 deaths"),
        ({"again": 0}, "nothing was trained again"),
    ],
)
def test_what_is_not_as_it_should_be_is_in_the_verdict(changes: dict[str, object], verdict: str) -> None:
    deaths = {"again": 1, "wanted": 2, "deaths": ["before `a`", WHILE_TRAINING]}
    result = ResumedRunResult(**(RUN | {"ranks": 2, "zero_stage": 2} | deaths | changes))  # type: ignore[arg-type]
    assert result.verdict == verdict
    assert exact_resume.as_table([(result, 5.0)])[2].endswith(f"| {verdict} |")


def test_nothing_is_proven_by_too_few_deaths_or_where_a_line_was_not_one() -> None:
    lines = exact_resume.places()
    hands = [[f"before `{text_of(place)}`" for place in lines[case::4]] for case in range(4)]

    def failed(*hands: list[str]) -> list[str]:
        facts = RUN | {"ranks": 1, "zero_stage": 0, "again": 1, "wanted": 0}
        done = [ResumedRunResult(**facts, deaths=hand) for hand in hands]  # type: ignore[arg-type]
        missed = exact_resume.failures(done)
        said = "\n".join(exact_resume.as_table([(result, 5.0) for result in done]))
        assert ("**NOT proven**" in said, "**Proven**" in said) == (bool(missed), not missed)
        assert all(f"- {failure}" in said for failure in missed)
        return missed

    assert failed(*hands) == []
    line, *others = hands[0]
    died = [f"died before {len(lines) - 1} of {len(lines)} lines"]
    assert failed([f"not {line}, which did not come", *others], *hands[1:]) == died
    assert failed(*hands, [WHILE_TRAINING] * 9) == ["ranks 1, ZeRO 0: 9 deaths, at least 10"]
