"""What drives the random runs, and what judges them: that it acts, looks, and takes nothing else for a failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from learner.session import Session
from tests.protocol import random_runs
from tests.protocol.invariants import GUARDED, Bounds, Violated
from tests.protocol.lives import drive
from tests.protocol.machine import ProtocolMachine
from tests.protocol.random_runs import run_batch
from tests.protocol.world import World
from tests.support.edited_scripts import without_line

pytestmark = [
    pytest.mark.process,
    pytest.mark.prove,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # killed: nothing closed
]


@pytest.fixture
def world(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    one = World(redis_url, tmp_path, *drive(monkeypatch), bounds=Bounds(2, 1), is_clock_back=False)
    yield one
    one.close()


@pytest.mark.prove(after=3)
@pytest.mark.parametrize(
    ("error", "without", "is_seen"),
    [
        (Violated("8: too late"), "rule 3", True),
        (Violated("8: too late"), "", False),
        (AssertionError("the machine itself"), "rule 3", False),
        (ConnectionError("no redis"), "rule 3", False),
        (KeyboardInterrupt(), "rule 3", False),
        (pytest.fail.Exception("Timeout"), "", False),
    ],
    ids=repr,
)
def test_a_batch_fails_by_whatever_ends_it_and_misses_a_rule_by_a_violation_alone(
    error: BaseException, without: str, is_seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(random_runs, "run_until", end)
    machine: Any = type("Machine", (ProtocolMachine,), {"actions": 5, "rules_applied": 2, "did": {}})
    report = tmp_path / "report"
    with nullcontext() if is_seen else pytest.raises(type(error)):
        assert run_batch(machine, 10, first_seed=1, without=without, report=str(report)) == repr(error)
    row = json.loads(report.read_text())
    assert (row["failure"], row["actions"], row["rules"]) == (repr(error), 5, 2)


@pytest.mark.prove(keep=True)
def test_a_line_that_its_script_has_no_more_can_not_be_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="has no such line any more"):
        without_line("issue", "a line of last year")(monkeypatch)


def test_a_learner_that_ends_silently_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "train", lambda *_: 0)
    life = world.begin()
    while life.loop.advance() != "end":
        pass
    with pytest.raises(Violated, match="by itself, with exit code 0"):
        world.see_who_has_ended()


@pytest.mark.parametrize("command", sorted(GUARDED))
def test_no_script_of_an_older_fence_may_change_anything(command: str, world: World) -> None:
    world.client.hset(world.keys("run"), "fence", 2)
    world.history.look()
    world.client.hset(world.keys("run"), "status", "failed")
    with pytest.raises(Violated, match=f"14: {command} of fence 1"):
        world.look(command, 1)
