"""Whether a name is free, is gone on with, or is done."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.connection import RedisLink
from broker.errors import RunFailed
from broker.keys import Keys
from config.run import Run
from learner.journal.ledger import DROPPED, GroupOutcome
from learner.journal.writer import Journal
from learner.resume import history
from learner.resume.history import AlreadyFinished, NameTaken, locked
from learner.status import Status
from tests.conftest import ROOT
from tests.support.chain import make_prompt, make_run, make_scored

pytestmark = pytest.mark.process


Look = Callable[[Run], history.History]
AFTER = pytest.mark.parametrize("is_forgotten", [False, True], ids=["Redis is as it was", "Redis is empty"])


@pytest.fixture
def look(link: RedisLink, keys: Keys) -> Look:
    return lambda run: history.look(run, link, keys)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path)


def begin(run: Run, *, steps: int = 0, **facts: Any) -> None:
    """A life that did so many steps."""
    journal = Journal(run.folder / "journal", 1, run=run.name, facts={"start": None, **facts})
    for step in range(steps):
        journal.append(step, [make_scored(make_prompt(str(step)), [1.0, 0.0])], [[0.5, -0.5]])
    journal.close()


def resuming(run: Run, resume: str | Path, **learner: Any) -> Run:
    return make_run(run.runs_dir, learner={"resume": resume, **learner})


def test_a_new_name_is_free_and_a_begun_one_has_outcomes(run: Run, link: RedisLink, look: Look) -> None:
    link.client.hset(Keys("test-2").alive("learner", "host-77"), mapping={"pid": "77"})
    assert not look(run).has_begun, "a living learner of another run does not matter"
    journal = Journal(run.folder / "journal", 3, run="test", facts={"first_row": 7})
    journal.end({"0": GroupOutcome(DROPPED, "zero_variance: 1")})
    journal.close()
    found = look(run)
    assert (found.ledger.fence, found.first_incarnation["first_row"]) == (3, 7)
    assert set(found.ledger.outcomes) == {"0"}


@AFTER
def test_a_finished_run_is_done_unless_more_steps_are_asked_for(
    run: Run, link: RedisLink, keys: Keys, look: Look, *, is_forgotten: bool
) -> None:
    status = Status(run, link, keys)
    begin(run, steps=4)
    status.begin(0)
    status.end("finished", "", 4)
    if is_forgotten:
        link.client.flushall()
    (run.folder / "model").mkdir()
    with pytest.raises(AlreadyFinished, match=r"run test is finished; its model is in .*test/model"):
        look(resuming(run, "auto", steps=4))
    assert look(resuming(run, "auto", steps=5)).has_begun


@AFTER
@pytest.mark.parametrize("end", ["running", "stopped", "failed"])
def test_a_run_that_stopped_half_way_goes_on_and_never_is_never(
    run: Run, link: RedisLink, keys: Keys, look: Look, *, is_forgotten: bool, end: str
) -> None:
    status = Status(run, link, keys)
    begin(run)
    status.begin(0)
    if end != "running":
        status.end(end, "why", 3)
    if is_forgotten:
        link.client.flushall()
    assert look(run).has_begun
    with pytest.raises(NameTaken, match=rf"has begun \({end}\), and learner\.resume=never .*millrace rm tes"):
        look(resuming(run, "never"))


def test_a_run_from_a_checkpoint_goes_on_under_one_command(run: Run, look: Look, tmp_path: Path) -> None:
    begin(run, start=str(Path("elsewhere/step-000040").absolute()))
    assert look(resuming(run, "elsewhere/step-000040")).has_begun
    with pytest.raises(NameTaken, match="has begun"):
        look(resuming(run, "elsewhere/step-000080"))
    (tmp_path / "file").write_text("")
    told = r"the run's folder .*file/test can't be written: Not a directory.*runs_dir="
    with pytest.raises(RunFailed, match=told), locked(tmp_path / "file" / "test"):
        pass


def test_groups_without_a_journal_here_are_nobodys(run: Run, link: RedisLink, keys: Keys, look: Look) -> None:
    link.client.hset(keys("cursor"), "position", 12)
    with pytest.raises(NameTaken, match=r"holds groups of a run test, whose journal is not in") as refused:
        look(run)
    said = str(refused.value)
    assert "whose journal is not in this learner's runs_dir" in said
    assert "millrace rm test" in said
    assert str(run.folder) not in said, "which is not here"
    begin(run)
    assert look(run).has_begun


def test_a_living_learner_of_another_folder_is_named_and_a_dead_ones_heartbeat_stops_nobody(
    run: Run, link: RedisLink, keys: Keys, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PATIENCE_S", 0.1)  # a number may be used again: its key would run out
    monkeypatch.setattr(history, "POLL_S", 0.05)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    link.client.hset(keys.alive("learner", f"{socket.gethostname()}-{dead.pid}"), "pid", str(dead.pid))
    look(run)
    for name in (f"{socket.gethostname()}-{os.getppid()}", "elsewhere-77"):
        key = keys.alive("learner", name)
        link.client.hset(key, "pid", "77")
        with pytest.raises(NameTaken, match=rf"has a living learner \({name}\)"):
            look(run)
        link.client.pexpire(key, 50)
        look(run)  # a heartbeat elsewhere is waited out


@pytest.mark.parametrize("has_begun_here", [True, False])
def test_a_second_learner_of_a_finished_run_names_no_folder_that_is_not_here(
    tmp_path: Path, run: Run, link: RedisLink, keys: Keys, look: Look, *, has_begun_here: bool
) -> None:
    Status(run, link, keys).end("finished", "", 4)
    second = make_run(tmp_path / "second", learner={"steps": 4})
    if has_begun_here:
        begin(second, steps=4)
    with pytest.raises(AlreadyFinished, match="run test is finished; its model is in") as refused:
        look(second)
    assert str(second.folder) not in str(refused.value)
    assert "none of it is here" in str(refused.value)


def test_a_folder_has_one_learner_and_a_kill_frees_it(run: Run) -> None:
    code = f"""
from pathlib import Path
from learner.resume.history import locked
with locked(Path({str(run.folder)!r})):
    print('held', flush=True)
    input()
"""
    command = [sys.executable, "-c", code]
    other = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    held = pytest.raises(NameTaken, match=rf"has a living learner \({socket.gethostname()}-{other.pid}\)")
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with held, locked(run.folder):
            pass
    finally:
        other.kill()
        other.communicate()
    with locked(run.folder):
        pass
