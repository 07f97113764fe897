"""A start that is refused: said of a run that has begun, whoever waits for it; a name that is new stays free."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.connection import RedisLink
from broker.errors import BrokerUnavailable, RunFailed, WrongBroker
from broker.keys import Keys
from broker.protocol.run_owner import RunOwner
from config.run import Run
from learner.journal.ledger import ledgers
from learner.resume.history import NameTaken, check_start, locked
from learner.session import Session
from learner.status import read_status
from learner.training.checkpoint import MANIFEST, STATE, Checkpoints, Progress
from tests.conftest import free_port
from tests.support.chain import FilePolicy, OneToken, make_run

pytestmark = pytest.mark.process

DATA = {"train": {"type": "procedural", "size": 8}}


def stopped() -> threading.Event:
    stop = threading.Event()
    stop.set()
    return stop


def train(session: Session, stop: threading.Event) -> int:
    policy: Any = FilePolicy()
    tokenizer: Any = OneToken()
    session.open()
    return session.train(lambda: (tokenizer, policy), stop)


def assert_told(run: Run, link: RedisLink, status: str, reason: str = "") -> None:
    """Compare status and reason in Redis and in status.json, with each other and with these."""
    for name, value in (("status", status), ("reason", reason)):
        found: Any = link.client.hget(Keys("test")("run"), name)
        assert not value or found.decode() == read_status(run.folder)[name] == value


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path, data=DATA)


def is_killed(run: Run, link: RedisLink, keys: Keys) -> None:
    """What a life of the run says that ended by -9 a moment ago."""
    assert train(Session(run, link), stopped()) == 0
    RunOwner(link, keys).claim(0)
    link.client.hset(keys("run"), mapping={"status": "running", "reason": ""})
    file = run.folder / "status.json"
    ended = json.loads(file.read_text()) | {"status": "running", "reason": "", "version": 7}
    file.write_text(json.dumps(ended))


@pytest.fixture
def no_append_only_file(link: RedisLink) -> Iterator[None]:
    link.client.config_set("appendonly", "no")
    yield
    link.client.config_set("appendonly", "yes")


@pytest.mark.usefixtures("no_append_only_file")
def test_a_refused_redis_is_said_of_a_run_that_has_begun(run: Run, link: RedisLink, keys: Keys) -> None:
    with pytest.raises(WrongBroker):
        Session(run, link).open()
    assert (link.client.hgetall(keys("run")), read_status(run.folder)) == ({}, {}), "a new name stays free"
    link.client.config_set("appendonly", "yes")
    is_killed(run, link, keys)
    link.client.config_set("appendonly", "no")
    with pytest.raises(WrongBroker) as caught:
        Session(run, link).open()
    assert_told(run, link, "failed", str(caught.value))
    assert int(read_status(run.folder)["version"]) == 7
    assert link.client.hget(keys("run"), "begun") == b"yes"
    with locked(run.folder):
        pass


def test_a_folder_that_cant_be_written_is_said_of_a_begun_run_unless_its_learner_lives(
    run: Run, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_killed(run, link, keys)
    really = Path.open

    def refuse(path: Path, *args: Any, **options: Any) -> Any:
        if path.name == "learner.lock":
            raise OSError(30, "Read-only file system")
        return really(path, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr("learner.resume.history.PATIENCE_S", 0.0)
    link.client.hset(keys.alive("learner", "elsewhere-77"), mapping={"pid": "77"})
    with pytest.raises(RunFailed, match="can't be written"):
        Session(run, link).open()
    assert_told(run, link, "running")  # it is the living one's status
    link.client.delete(keys.alive("learner", "elsewhere-77"))
    with pytest.raises(RunFailed, match="can't be written"):
        Session(run, link).open()
    told: Any = link.client.hgetall(keys("run"))
    assert told[b"status"] == b"failed"
    assert told[b"reason"].decode().startswith(f"the run's folder {run.folder} can't be written")


def test_a_lock_that_has_no_room_on_the_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    full = pytest.raises(RunFailed, match="lock can't be written: No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr("os.write", refuse)
        with full, locked(tmp_path):
            pytest.fail("it is locked")
    taken = pytest.raises(NameTaken, match=f"living learner .*-{os.getpid()}")
    with locked(tmp_path), taken, locked(tmp_path):
        pytest.fail("it is locked twice")


@pytest.fixture
def few_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("learner.incarnation.LAST_WORDS_S", 0.1)


@pytest.mark.usefixtures("few_last_words")
@pytest.mark.parametrize(
    ("is_asked", "status", "reason"),
    [(False, "failed", "no answer from redis at 127.0.0.1:"), (True, "stopped", "a signal asked for it")],
)
def test_a_redis_that_is_away_at_the_start_is_said_in_status_json(
    run: Run, link: RedisLink, keys: Keys, *, is_asked: bool, status: str, reason: str
) -> None:
    is_killed(run, link, keys)
    away = RedisLink(f"redis://127.0.0.1:{free_port()}/0", outage_s=0.1)
    if is_asked:
        away.stop.set()
    with pytest.raises(BrokerUnavailable):
        Session(run, away).open()
    found = read_status(run.folder)
    assert (found["status"], found["reason"][: len(reason)], found["begun"]) == (status, reason, "yes")
    assert int(found["version"]) == 7


def test_a_taken_name_is_no_failure_of_the_run_that_has_it(run: Run, link: RedisLink, keys: Keys) -> None:
    is_killed(run, link, keys)
    never = run.model_copy(update={"learner": run.learner.model_copy(update={"resume": "never"})})
    with pytest.raises(NameTaken):
        Session(never, link).open()
    assert_told(run, link, "running")


def break_manifest(start: Path) -> None:
    content = json.loads((start / MANIFEST).read_text())
    content["files"][STATE]["sha256"] = "0" * 64
    (start / MANIFEST).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("harm", "changes", "reason"),
    [
        (break_manifest, {}, "is a broken checkpoint: state.json has another checksum"),
        (shutil.rmtree, {}, "there is no such folder"),
        (lambda _: None, {"zero": {"stage": 2}}, r"shape: learner\.zero\.stage=2, and it was written with 1"),
        (lambda _: None, {"ranks": 2}, r"shape: learner\.ranks=2, and it was written with 1"),
        (lambda _: None, {"steps": 4}, r"stands at step 4, and learner\.steps=4 are no more than that"),
    ],
    ids=["a broken one", "none", "of another stage", "of another number of ranks", "with no step left"],
)
def test_a_checkpoint_that_a_run_cant_begin_from_leaves_its_name_free(
    run: Run, link: RedisLink, harm: Callable[[Path], object], changes: dict[str, Any], reason: str
) -> None:
    saved: Any = FilePolicy()
    start = Checkpoints(run).save(saved, Progress(version=4, first_row=0, fingerprint="f"))
    good = shutil.copytree(start, run.folder / "good")
    harm(start)

    def load() -> Any:
        raise AssertionError("nothing heavy is loaded first")

    second = make_run(run.runs_dir, name="second", data=DATA, learner={"resume": start} | changes)
    session = Session(second, link)
    session.open()
    assert session.train(load, threading.Event()) == 1
    found = read_status(second.folder)
    assert (found["status"], found["begun"]) == ("failed", "no")
    assert re.search(reason, found["reason"])
    assert not ledgers(second.folder / "journal")
    again = make_run(run.runs_dir, name="second", data=DATA, learner={"resume": good})
    assert train(Session(again, link), stopped()) == 0, "the name begins with another one"


def test_a_checkpoint_has_to_fit_the_launchers_ranks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: Any = FilePolicy()
    start = Checkpoints(run).save(saved, Progress(version=4, first_row=0, fingerprint="f"))
    check_start(run, start)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RunFailed, match=r"learner\.ranks=2, and it was written with 1"):
        check_start(run, start)
