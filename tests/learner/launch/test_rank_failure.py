"""The reason of a run whose ranks died, as its status gives it. Redis, journal and folder are real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.joining import state_of
from broker.keys import Keys
from broker.protocol.run_owner import RunOwner
from config.run import Run
from learner.journal.writer import Journal
from learner.launch.rank_failure import report_death
from learner.launch.ranks import RanksEnded
from learner.resume.history import locked
from learner.status import Status, read_status
from tests.support.chain import make_run

pytestmark = pytest.mark.process

KILLED = RanksEnded(why="rank 1 was killed by SIGKILL", by_signal=True, has_verdict=False)
RAISED = RanksEnded(why="rank 1 ended with code 1: ValueError: x", by_signal=False, has_verdict=False)
BESIDE = RanksEnded(why="rank 1 ended with code 1: ValueError: x", by_signal=False, has_verdict=True)
Told = Callable[[], tuple[str, str]]
ECHOED = "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:2345"


@pytest.fixture
def run(link: RedisLink, tmp_path: Path) -> Run:
    return make_run(tmp_path, learner={"ranks": 2}, broker={"url": link.url})


@pytest.fixture
def status(run: Run, link: RedisLink, keys: Keys) -> Status:
    """Of a life that has begun."""
    run_owner = RunOwner(link, keys)
    Journal(run.folder / "journal", run_owner.claim(0), run=run.name, facts={"start": None}).close()
    status = Status(run, link, keys, run_owner)
    status.begin(3)
    return status


@pytest.fixture
def told(run: Run, link: RedisLink, keys: Keys) -> Callable[[], tuple[str, str]]:
    """Status and reason as roles and people are told them: the same."""

    def look() -> tuple[str, str]:
        state = state_of(link, keys)
        found = read_status(run.folder)
        assert (found["status"], found["reason"]) == (state.status, state.reason)
        return state.status, state.reason

    return look


@pytest.mark.parametrize(
    ("before", "ended", "after"),
    [
        (("running", ""), KILLED, ("running", KILLED.why)),  # the other roles wait for the next start
        (("running", ""), RAISED, ("failed", RAISED.why)),
        (("stopped", "a signal asked for it"), RAISED, ("failed", RAISED.why)),  # the launcher's own signal
        (("failed", ECHOED), KILLED, ("failed", KILLED.why)),
        (("failed", ECHOED), BESIDE, ("failed", BESIDE.why)),
        (("failed", "the disk is full"), RAISED, ("failed", "the disk is full")),
        (("running", ""), BESIDE, ("running", "")),
        (("finished", ""), RAISED, ("finished", "")),
    ],
)
def test_a_status_that_has_no_reason_of_its_own_gets_that_of_the_dead_rank(
    before: tuple[str, str], ended: RanksEnded, after: tuple[str, str], status: Status, told: Told
) -> None:
    status.end(*before, 3)
    report_death(status.run, ended)
    assert told() == after
    found = read_status(status.run.folder)
    assert (found["begun"], int(found["version"])) == ("yes", 3)


def test_the_name_of_a_run_that_never_began_stays_free(run: Run, told: Told) -> None:
    report_death(run, KILLED)
    assert told() == ("failed", KILLED.why)
    assert read_status(run.folder)["begun"] == "no"


def test_a_run_that_another_learner_has_is_left_alone(run: Run, status: Status, told: Told) -> None:
    with locked(run.folder):
        report_death(run, RAISED)
    assert told() == ("running", "")
