"""What an operator asks of a run, in every state of it, and what he is told."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.joining import reset_run_state
from broker.keys import Keys
from broker.protocol.run_owner import RunOwner
from broker.protocol.run_state import DRAIN, GO_ON, PAUSE, asked
from learner.status import Status
from tests.support.chain import make_run
from tests.support.told import Capsys, Patch
from tools.runs import control
from tools.runs.control import HasEnded


@pytest.fixture
def status(tmp_path: Path, link: RedisLink, keys: Keys, redis_url: str, monkeypatch: Patch) -> Status:
    """Of a learner that has claimed the run; Redis is the one that every tool uses."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setattr(control, "POLL_S", 0.01)
    run_owner = RunOwner(link, keys)
    run_owner.claim(0)
    return Status(make_run(tmp_path), link, keys, run_owner)


@pytest.fixture
def _learner(link: RedisLink, keys: Keys) -> None:
    """Let a learner live."""
    link.client.set(keys.alive("learner", "host-1"), "loading")


ENDS = pytest.mark.parametrize(("end", "code"), [("stopped", 0), ("failed", 1)])


def test_a_run_that_loads_again_is_there(status: Status, link: RedisLink, keys: Keys, tmp_path: Path) -> None:
    status.begin(0)
    reset_run_state(link, keys)
    assert control.control("test", tmp_path, PAUSE) == 0
    assert asked(link, keys) == PAUSE


@pytest.mark.usefixtures("status", "_learner")
def test_a_run_whose_first_learner_loads_is_there(link: RedisLink, keys: Keys, tmp_path: Path) -> None:
    link.client.delete(keys("run"))  # it has claimed nothing yet
    assert control.control("test", tmp_path, PAUSE) == 0


def test_without_a_run_nobody_is_asked(status: Status, link: RedisLink, keys: Keys, tmp_path: Path) -> None:
    status.end("finished", "", 9)
    with pytest.raises(HasEnded, match=r"run test is finished: .*test/model; `millrace up` begins"):
        control.control("test", tmp_path, DRAIN)
    assert asked(link, keys) == GO_ON
    with pytest.raises(HasEnded, match="there is no run other at 127"):
        control.control("other", tmp_path, DRAIN)
    assert not link.client.exists(Keys("other")("run"))


@pytest.mark.usefixtures("_learner")
@ENDS
def test_a_drain_waits_for_the_end_that_comes_after_it(
    status: Status, tmp_path: Path, capsys: Capsys, *, end: str, code: int
) -> None:
    status.begin(0)
    wanted = {"wanted": GO_ON if end == "stopped" else None}
    ending = threading.Timer(0.2, status.end, (end, "why", 3), wanted)
    ending.start()
    assert control.control("test", tmp_path, DRAIN, wait_s=20) == code
    ending.join()
    assert f"run test: {end} why" in capsys.readouterr().out


def test_a_run_that_had_ended_before_is_not_drained(
    status: Status, link: RedisLink, keys: Keys, tmp_path: Path, capsys: Capsys
) -> None:
    status.end("stopped", "a signal asked for it", 3)
    assert control.control("test", tmp_path, DRAIN, wait_s=20) == 1
    assert asked(link, keys) == DRAIN  # of the next learner
    said = capsys.readouterr()
    assert "no learner of it is alive: the next one will do it" in said.out
    assert "had ended before (stopped a signal asked for it), and no learner of it runs" in said.err


@pytest.mark.usefixtures("_learner")
@ENDS
def test_a_drain_of_a_run_that_had_ended_waits_for_the_end_of_the_learner_that_begins(
    status: Status, link: RedisLink, keys: Keys, tmp_path: Path, *, end: str, code: int
) -> None:
    status.end("failed", "redis was away", 3)

    def next_life() -> None:
        time.sleep(0.1)
        reset_run_state(link, keys)
        time.sleep(0.2)
        status.end(end, "", 4, wanted=GO_ON if end == "stopped" else None)

    living = threading.Thread(target=next_life)
    living.start()
    assert control.control("test", tmp_path, DRAIN, wait_s=20) == code
    living.join()


@pytest.mark.usefixtures("_learner")
def test_a_drain_that_takes_too_long_is_left_alone(status: Status, tmp_path: Path, capsys: Capsys) -> None:
    status.begin(0)
    assert control.control("test", tmp_path, DRAIN, wait_s=0.1) == 1
    assert "run test has not ended after 0 s; it goes on draining" in capsys.readouterr().err
