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
from learner.journal.ledger import DROPPED, Outcome
from learner.journal.writer import Journal
from learner.resume import history
from learner.resume.history import AlreadyFinished, NameTaken, locked, look
from learner.status import Status
from tests.conftest import ROOT
from tests.support.chain import make_prompt, make_run, make_scored

pytestmark = pytest.mark.process

Redis = Callable[[RedisLink], object]


def forget(link: RedisLink) -> None:
    """Redis is empty: the folder is all that is left."""
    link.client.flushall()


def keep(link: RedisLink) -> None:
    """Redis is as it was."""


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


def test_a_new_name_is_free(run: Run, link: RedisLink, keys: Keys) -> None:
    assert not look(run, link, keys).has_begun


@pytest.mark.parametrize("redis", [keep, forget])
def test_a_finished_run_is_done_already_unless_more_steps_are_asked_for(
    run: Run, link: RedisLink, keys: Keys, redis: Redis
) -> None:
    status = Status(run, link, keys)
    begin(run, steps=4)
    status.begin(0)
    status.end("finished", "", 4)
    redis(link)
    (run.folder / "model").mkdir()
    with pytest.raises(AlreadyFinished, match=r"run test is finished; its model is in .*test/model"):
        look(resuming(run, "auto", steps=4), link, keys)
    assert look(resuming(run, "auto", steps=5), link, keys).has_begun


@pytest.mark.parametrize("redis", [keep, forget])
@pytest.mark.parametrize("end", ["running", "stopped", "failed"])
def test_a_run_that_stopped_half_way_goes_on_and_never_is_never(
    run: Run, link: RedisLink, keys: Keys, redis: Redis, end: str
) -> None:
    status = Status(run, link, keys)
    begin(run)
    status.begin(0)
    if end != "running":
        status.end(end, "why", 3)
    redis(link)
    assert look(run, link, keys).has_begun
    with pytest.raises(
        NameTaken, match=rf"has begun \({end}\), and learner\.resume=never .*millrace rm test"
    ):
        look(resuming(run, "never"), link, keys)


def test_a_run_that_began_with_a_checkpoint_goes_on_under_the_same_command_and_no_other(
    run: Run, link: RedisLink, keys: Keys
) -> None:
    begin(run, start=str(Path("elsewhere/step-000040").absolute()))
    assert look(resuming(run, "elsewhere/step-000040"), link, keys).has_begun
    with pytest.raises(NameTaken, match="has begun"):
        look(resuming(run, "elsewhere/step-000080"), link, keys)


def test_groups_of_a_run_whose_journal_is_elsewhere_are_nobodys_to_go_on_with(
    run: Run, link: RedisLink, keys: Keys
) -> None:
    link.client.hset(keys("cursor"), "position", 12)
    with pytest.raises(
        NameTaken, match=r"holds groups of a run test, whose journal is not in .*millrace rm test"
    ):
        look(run, link, keys)
    begin(run)
    assert look(run, link, keys).has_begun


def test_a_living_learner_of_another_folder_is_named(
    run: Run, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PATIENCE_S", 0.1)  # a number may be used again: its key would run out
    name = f"{socket.gethostname()}-{os.getppid()}"
    link.client.hset(keys.alive("learner", name), mapping={"pid": "77"})
    with pytest.raises(NameTaken, match=rf"has a living learner \({name}\)"):
        look(run, link, keys)


@pytest.mark.parametrize("has_begun_here", [True, False])
def test_a_second_learner_of_a_finished_run_names_no_folder_that_is_not_here(
    tmp_path: Path, run: Run, link: RedisLink, keys: Keys, *, has_begun_here: bool
) -> None:
    Status(run, link, keys).end("finished", "", 4)
    second = make_run(tmp_path / "second", learner={"steps": 4})
    if has_begun_here:
        begin(second, steps=4)
    with pytest.raises(AlreadyFinished, match="run test is finished; its model is in") as refused:
        look(second, link, keys)
    assert str(second.folder) not in str(refused.value)
    assert "none of it is here" in str(refused.value)


def test_groups_of_a_run_that_is_elsewhere_are_refused_without_a_path_that_is_not_here(
    run: Run, link: RedisLink, keys: Keys
) -> None:
    link.client.hset(keys("cursor"), "position", 12)
    with pytest.raises(NameTaken, match=r"whose journal is not in this learner's runs_dir") as refused:
        look(run, link, keys)
    assert str(run.folder) not in str(refused.value)


def test_the_heartbeat_of_a_learner_that_died_here_stops_nobody(
    run: Run, link: RedisLink, keys: Keys
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    link.client.hset(
        keys.alive("learner", f"{socket.gethostname()}-{dead.pid}"), mapping={"pid": str(dead.pid)}
    )
    look(run, link, keys)


def test_the_heartbeat_of_a_learner_elsewhere_is_waited_out(
    run: Run, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PATIENCE_S", 0.2)
    monkeypatch.setattr(history, "POLL_S", 0.05)
    key = keys.alive("learner", "elsewhere-77")
    link.client.hset(key, mapping={"pid": "77"})
    with pytest.raises(NameTaken, match=r"has a living learner \(elsewhere-77\)"):
        look(run, link, keys)
    link.client.pexpire(key, 100)
    look(run, link, keys)


def test_a_living_learner_of_another_run_does_not_matter(run: Run, link: RedisLink, keys: Keys) -> None:
    link.client.hset(Keys("test-2").alive("learner", "host-77"), mapping={"pid": "77"})
    look(run, link, keys)


def test_a_folder_has_one_learner_and_a_kill_frees_it(run: Run) -> None:
    code = (
        f"from pathlib import Path\nfrom learner.resume.history import locked\nwith locked(Path({str(run.folder)!r})):\n"
        "    print('held', flush=True)\n    input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with (
            pytest.raises(NameTaken, match=rf"has a living learner \({socket.gethostname()}-{other.pid}\)"),
            locked(run.folder),
        ):
            pass
    finally:
        other.kill()
        other.communicate()
    with locked(run.folder):
        pass


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(
            RunFailed, match=r"the run's folder .*file/test can't be written: Not a directory.*runs_dir="
        ),
        locked(tmp_path / "file" / "test"),
    ):
        pass


def test_outcomes_are_read_with_it(run: Run, link: RedisLink, keys: Keys) -> None:
    journal = Journal(run.folder / "journal", 3, run="test", facts={"first_row": 7})
    journal.end({"0": Outcome(DROPPED, "zero_variance: 1")})
    journal.close()
    found = look(run, link, keys)
    assert (found.ledger.fence, found.first_incarnation["first_row"], set(found.ledger.outcomes)) == (
        3,
        7,
        {"0"},
    )
