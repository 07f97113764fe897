"""`python -m agents`: how many processes it is, how it waits where there is nothing to play, and how it ends.

Where only the watching matters, the children are a shell script in the interpreter's place.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents import pool
from agents.__main__ import ROLE, main
from agents.pool import IDLE, run_pool, wait_for_the_end
from broker import role_pool
from broker.connection import RedisLink
from broker.joining import Joined, RunState
from broker.keys import Keys
from broker.monitoring.heartbeat import Heartbeat
from broker.monitoring.snapshot import snapshot
from tests.support.played import TASKS
from tests.support.station import make_run
from tests.support.waiting import is_running, wait_until

CHILD = """#!/bin/bash
echo "$@" >> {folder}/words
echo $$ >> {folder}/pids
{does}
trap 'exit 0' TERM
while :; do sleep 0.02; done
"""


class Children:
    """Scripts in the place of workers, and what they have written."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, does: str = "") -> None:
        self.folder = folder
        script = folder / "child"
        script.write_text(CHILD.format(folder=folder, does=does))
        script.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(script))
        monkeypatch.setattr(role_pool, "FIRST_PAUSE_S", 0.02)
        monkeypatch.setattr(role_pool, "POLL_S", 0.02)

    @property
    def pids(self) -> list[int]:
        file = self.folder / "pids"
        return list(map(int, file.read_text().split())) if file.exists() else []

    @property
    def words(self) -> set[str]:
        return set((self.folder / "words").read_text().splitlines())


def joined(link: RedisLink, keys: Keys, **sections: Any) -> Joined:
    return Joined(make_run(**sections), link, keys)


def after(condition: Callable[[], bool], then: Callable[[], object]) -> threading.Thread:
    """Do something beside the test once a condition is true."""

    def wait_and_do() -> None:
        try:
            wait_until(condition)
        finally:
            then()

    thread = threading.Thread(target=wait_and_do)
    thread.start()
    return thread


@pytest.mark.process
def test_each_worker_is_a_process_that_is_started_again_and_ends_with_its_parent(
    link: RedisLink, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children, stop = Children(tmp_path, monkeypatch), threading.Event()
    killer = after(
        lambda: len(children.pids) == 3, lambda: os.kill(children.pids[1], signal.SIGKILL)
    )  # of three
    ender = after(lambda: len(children.pids) == 4, stop.set)
    assert run_pool(joined(link, keys, scorers={"tasks": TASKS}), ["--run", "test"], 3, stop) == 0
    killer.join()
    ender.join()
    assert children.words == {"-m agents --run test"}
    assert not any(map(is_running, children.pids))


@pytest.mark.prove(after=1)
@pytest.mark.process
@pytest.mark.parametrize(("does", "code"), [("exit 7", 1), ("exit 2", 2)])
def test_a_worker_that_can_not_be_kept_alive_ends_all(
    link: RedisLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, code: int
) -> None:
    children = Children(tmp_path, monkeypatch, does)
    assert run_pool(joined(link, Keys("test")), ["--run", "test"], 2, threading.Event()) == code
    assert not any(map(is_running, children.pids))


@pytest.mark.parametrize("how", ["the run ends", "a signal comes"])
def test_a_run_without_an_environment_is_waited_for_and_said_to_be(
    link: RedisLink, keys: Keys, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that ended would be started again, or take the others with it."""
    monkeypatch.setattr(pool, "LOOK_EVERY_S", 0.05)
    stop = threading.Event()
    link.client.hset(keys("run"), mapping={"status": "running", "reason": ""})
    heartbeat = Heartbeat(link, keys, ROLE, "h-1-a", ttl_s=0.6)

    def end() -> None:
        if how == "a signal comes":
            stop.set()
        else:
            link.client.hset(keys("run"), mapping={"status": "finished"})

    ender = after(lambda: [beat.state for beat in snapshot(link.client, "test").processes] == [IDLE], end)
    try:
        state = wait_for_the_end(joined(link, keys), heartbeat, stop)
    finally:
        ender.join()
        heartbeat.stop()
    assert state == RunState("running" if how == "a signal comes" else "finished", "")


def test_no_workers_are_no_number_of_workers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--run", "test", "--workers", "0"])
    assert "'0' is no number of workers" in capsys.readouterr().err
