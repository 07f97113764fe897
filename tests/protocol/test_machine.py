"""What drives the random runs, and what judges them: that it acts, looks, and takes nothing else for a failure."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from learner.session import TrainingSession
from tests.protocol import random_runs
from tests.protocol.invariants import GUARDED, Bounds, Violated
from tests.protocol.lives import drive
from tests.protocol.machine import ProtocolMachine
from tests.protocol.random_runs import run_batch
from tests.protocol.workers import Crew, Worker
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


def test_each_action_of_a_worker_has_something_to_act_on(world: World) -> None:
    crew = Crew(world)
    crew.workers["prompts", "a"].is_killed()  # it holds nothing
    assert world.did["workers killed"] == 0
    world.begin()
    acts: dict[str, Callable[[Worker], None]] = {
        "leases renewed": lambda worker: worker.renew(),
        "workers killed": lambda worker: worker.is_killed(),
        "destinations of a wrong type": lambda worker: worker.finish_into_a_wrong_type(0),
        "destinations full": lambda worker: worker.finish_while_destination_fails(0),
        "given up": lambda worker: worker.give_up(0),
        "hand-overs without a reply": lambda worker: worker.finish(0, is_reply_lost=True),
    }
    for name, act in acts.items():
        act(crew.holder(3))
        assert world.did[name] == 1, name
    crew.come_to_an_end()


def test_what_is_only_read_or_renewed_is_no_command_that_a_rewind_counts(world: World) -> None:
    client: Any = world.client
    run, prompts = world.keys("run"), world.keys("prompts")
    client.hset(run, "config", "x" * 100)  # a hash table, whose order moves while it is read and grows
    for number in range(5):
        client.hset(run, f"field{number}", "")
    client.xgroup_create(prompts, "workers", mkstream=True)
    client.xreadgroup("workers", "a", {prompts: ">"})
    world.history.look()
    length, contents = len(world.history), world.now.contents
    for _ in range(3):
        client.hget(run, "nothing")
        time.sleep(0.002)
        client.xreadgroup("workers", "a", {prompts: ">"})
        world.history.look()
    assert (len(world.history), world.now.contents) == (length, contents)
    client.xadd(prompts, {"group": "7", "floor": "0"})
    client.xreadgroup("workers", "a", {prompts: ">"})
    assert world.history.look()


def test_a_redis_that_goes_back_finds_no_stream_that_is_full_for_ever(world: World) -> None:
    crew = Crew(world)
    world.begin()
    crew.holder(3).finish_while_destination_fails(0)
    assert world.did["destinations full"] == 1
    world.go_back(1)
    crew.come_to_an_end()


def test_a_learner_that_ends_silently_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainingSession, "train", lambda *_: 0)
    life = world.begin()
    while life.loop.advance() != "end":
        pass
    with pytest.raises(Violated, match="by itself, with exit code 0"):
        world.see_who_has_ended()


@pytest.mark.parametrize(
    ("bounds", "is_held"),
    [(Bounds(2, 1), True), (Bounds(3, 1), True), (Bounds(1, 2), False), (Bounds(2, 0), False)],
)
def test_the_bounds_hold_between_two_lives_unless_smaller(
    bounds: Bounds, is_held: bool, world: World
) -> None:
    world.begin().until_it_waits()
    assert world.invariants.bounds == Bounds(2, 1)
    world.newest().kill()
    world.bounds = bounds
    world.begin()
    assert world.invariants.bounds == (Bounds(2, 1) if is_held else None)
    world.newest().until_it_waits()
    assert world.invariants.bounds == bounds


def test_a_learner_that_claims_last_though_it_began_first_may_issue(world: World) -> None:
    world.begin().until_it_waits()
    world.newest().kill()
    world.bounds = Bounds(3, 2)
    earlier, later = world.begin(), world.begin()
    while not later.fence:
        later.loop.advance()
    earlier.until_it_waits()
    assert earlier.fence > later.fence
    assert len(world.now.slots) == Bounds(3, 2).budget
    assert world.broken is None


def test_smaller_bounds_hold_once_what_came_back_is_brought_down(world: World) -> None:
    world.bounds = Bounds(3, 1)
    world.begin().until_it_waits()
    assert len(world.now.slots) == world.bounds.budget > Bounds(1, 0).budget + Bounds(1, 0).surplus
    world.newest().kill()
    length = len(world.history)
    world.forget_all()
    world.bounds = Bounds(1, 0)
    world.newest().until_it_waits()
    assert world.invariants.bounds == Bounds(1, 0)
    world.go_back(len(world.history) - length)
    world.look("anything", 0)
    assert world.invariants.bounds is None, "an older backup: the groups of Bounds(3, 1) are in flight again"
    for _ in range(2):  # until the learner has noticed, and then recovered
        world.newest().until_it_waits()
    assert world.invariants.bounds == Bounds(1, 0)


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("command", sorted(GUARDED))
def test_no_script_of_an_older_fence_may_change_anything(command: str, world: World) -> None:
    world.client.hset(world.keys("run"), "fence", 2)
    world.history.look()
    world.client.hset(world.keys("run"), "status", "failed")
    with pytest.raises(Violated, match=f"14: {command} of fence 1"):
        world.look(command, 1)


def test_what_was_issued_are_the_ordinals_and_the_retries_that_the_cursor_names(world: World) -> None:
    state = replace(world.now, cursor={"position": "3", "retry:1": "2", "seq": "9"})
    assert state.issued() == {"0", "1", "2", "1-r1", "1-r2"}
