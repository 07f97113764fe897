"""What an environment would do itself is played as the policy would do it, and told as a scorer reads it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agents.references import Found, References
from config.run import Run
from tests.support.paths import ROOT
from tests.support.played import custom, run_with

pytestmark = pytest.mark.process

SECTIONS = {"riddle": custom("Riddle", max_turns=3), "guess": custom("Guess")}


@pytest.fixture(scope="module")
def references() -> Iterator[tuple[asyncio.Runner, References]]:
    with asyncio.Runner() as runner:
        made = References(run_with(SECTIONS))
        try:
            yield runner, made
        finally:
            runner.run(made.close())


def row_of(task: str, reference: Any, **info: Any) -> dict[str, Any]:
    return {
        "task": task,
        "verification_info": {"type": task, "reference": reference, **info},
        "columns": {},
        "messages": [],
    }


RIGHT = {"ended_by": "environment", "reward": {"value": 1.0, "low": -1.0, "high": 1.0, "turns": [0.0, 1.0]}}
SHORT = {"ended_by": "turns", "remark": "the reference's 1 actions do not end the episode", "text": "what?"}


@pytest.mark.parametrize(
    ("reference", "key", "holds"),
    [
        (["what?", "17"], "episode", {**RIGHT, "text": "17"}),
        ([{"content": "what?"}, "17"], "episode", RIGHT),
        (["what?"], "episode", SHORT),
        (["what?"] * 4, "episode", {"ended_by": "turns"}),
        (["what?", "raise"], "wrong", "ValueError: no riddle"),
        ([], "untested", "the environment of task 'riddle' has no reference for this row"),
        (None, "untested", "has no reference for this row"),
        ("17", "untested", "reference gives a list of actions, texts or messages, or None, got str '17'"),
    ],
)
def test_an_episode_is_what_its_references_actions_make(
    references: tuple[asyncio.Runner, References], reference: Any, key: str, holds: Mapping[str, Any] | str
) -> None:
    runner, made = references
    found = json.loads(json.dumps(runner.run(made.found(row_of("riddle", reference, seed=17)))))
    assert list(found) == [key]
    if isinstance(holds, str):
        assert holds in found[key]
        return
    assert {name: found[key][name] for name in holds} == holds
    said = [turn["role"] for turn in found[key]["messages"]]
    assert said == ["assistant", "user"] * min(len(reference), 3)


def test_an_environment_without_the_method_is_asked_once(
    references: tuple[asyncio.Runner, References],
) -> None:
    runner, made = references
    reason = "the environment of task 'guess' has no method `reference`, which would play its rows"
    for row in (row_of("guess", None), row_of("guess", None, fails="reset is not even called")):
        assert runner.run(made.found(row)) == {"untested": reason}


@pytest.mark.prove
def test_the_process_answers_in_the_order_of_its_rows() -> None:
    run: Run = run_with(SECTIONS)
    sections = {"scorers": run.scorers.model_dump(mode="json", include={"tasks"})}
    rows = [row_of("riddle", ["what?", str(seed)], seed=seed) for seed in range(5)]
    lines = "".join(json.dumps(one) + "\n" for one in (sections, *rows))
    words = [sys.executable, "-m", "agents.references"]
    done = subprocess.run(
        words, input=lines, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    )
    found: list[Found] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["episode"]["text"] for one in found] == ["0", "1", "2", "3", "4"]
    assert all(one["episode"]["reward"]["value"] == 1.0 for one in found)
