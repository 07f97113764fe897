"""How one life of the learner begins, is refused and ends, and what it leaves behind for the others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.connection import RedisLink
from broker.errors import BrokerUnavailable, Fenced, RunFailed, WrongBroker
from broker.keys import Keys
from broker.protocol.run_owner import RunOwner
from broker.weight_exchange.bundles import WeightsRequest, unsealed
from broker.weight_exchange.redis_exchange import RedisExchange
from config.learner import LearnerConfig
from config.loading import to_yaml
from config.run import Run
from learner.groups import while_waiting
from learner.groups.feeder import Feeder
from learner.incarnation import STOPPED
from learner.journal.ledger import JournalError, ledgers
from learner.journal.writer import Journal
from learner.resume.history import NameTaken, check_start, locked
from learner.session import TrainingSession
from learner.status import read_status
from learner.trainer import TrainingLoop
from learner.training.batch import Batch
from learner.training.checkpoint import MANIFEST, STATE, Checkpoints, Progress
from learner.weight_sync import relay
from tests.conftest import ROOT, free_port
from tests.support.chain import FilePolicy, OneToken, TextWeights, make_run
from tests.support.journals import groups
from tests.support.made_up_time import MadeUpTime
from tests.support.redis_servers import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

DATA = {"train": {"type": "procedural", "size": 8}}


def train(
    session: TrainingSession, stop: threading.Event | None = None, policy: FilePolicy | None = None
) -> int:
    loaded: Any = policy or FilePolicy()
    tokenizer: Any = OneToken()
    session.open()
    return session.train(lambda: (tokenizer, loaded), stop or threading.Event())


def begin(run: Run, steps: int = 0) -> Journal:
    """The journal of a life of so many steps, closed."""
    facts = {"config": to_yaml(run), "first_row": 0, "start": None}
    journal = Journal(run.folder / "journal", 1, run="test", facts=facts)
    for step in range(steps):
        journal.append(step, groups(f"{2 * step}", f"{2 * step + 1}"), [[0.5, -0.5], [0.5, -0.5]])
    journal.close()
    return journal


class Told:
    """What Redis is told of a run, where it is no less in status.json."""

    def __init__(self, link: RedisLink, keys: Keys, run: Run) -> None:
        self._link, self._keys, self._run = link, keys, run

    def __getitem__(self, field: str) -> str:
        value: Any = self._link.client.hget(self._keys("run"), field)
        return str(value.decode())

    def assert_in_both(self, status: str, reason: str = "") -> None:
        """Compare both with each other, and with these."""
        written = read_status(self._run.folder)
        assert self["status"] == written["status"] == status
        assert not reason or self["reason"] == written["reason"] == reason


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path, data=DATA)


@pytest.fixture
def told(run: Run, link: RedisLink, keys: Keys) -> Told:
    return Told(link, keys, run)


def test_a_folder_that_takes_no_configuration_and_data_that_cant_be_read_end_it_with_the_reason(
    run: Run, link: RedisLink, told: Told, stopped: threading.Event, tmp_path: Path
) -> None:
    nowhere = {"train": {"type": "dataset", "path": str(tmp_path / "nowhere.jsonl")}}
    assert train(TrainingSession(make_run(tmp_path, data=nowhere), link)) == 1
    told.assert_in_both("failed")
    assert "nowhere.jsonl (split train) can't be read" in told["reason"]
    (run.folder / "config.yaml").unlink(missing_ok=True)
    (run.folder / "config.yaml").mkdir(parents=True)
    assert train(TrainingSession(run, link), stopped) == 1
    told.assert_in_both("failed")
    assert "config.yaml can't be written: Is a directory" in told["reason"]


def test_a_signal_ends_it_with_a_checkpoint_and_a_status_and_no_void_step_is_gone_on_from(
    run: Run, link: RedisLink, told: Told, stopped: threading.Event
) -> None:
    assert train(TrainingSession(run, link), stopped) == 0
    told.assert_in_both("stopped")
    assert (run.folder / "checkpoints" / "step-000000").is_dir()
    assert (run.folder / "config.yaml").exists()
    assert not list(link.client.scan_iter(match="*alive*"))
    cut_off: Any = FilePolicy()  # a learner whose steps are void, in the middle of its save
    Checkpoints(run).save(cut_off, Progress(version=5, first_row=0, fingerprint="f", fence=1))
    assert train(TrainingSession(run, link), stopped) == 0, "and the next one goes on"
    assert len(list((run.folder / "journal").glob("ledger-*"))) == 2
    assert int(read_status(run.folder)["version"]) == 0


def test_a_run_needs_its_first_checkpoint_once(run: Run, link: RedisLink, stopped: threading.Event) -> None:
    assert train(TrainingSession(run, link), stopped) == 0
    start = run.folder / "checkpoints" / "step-000000"
    learner = run.learner.model_copy(update={"resume": start})
    second = run.model_copy(update={"name": "second", "learner": learner})
    assert train(TrainingSession(second, link), stopped) == 0
    assert (second.folder / "checkpoints" / "step-000000").is_dir()
    shutil.rmtree(start)
    assert train(TrainingSession(second, link), stopped) == 0, "the same command goes on"


def test_a_generator_that_asks_is_given_the_weights_through_redis_while_the_learner_lives(
    run: Run, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "LOOK_S", 0.02)
    stop, codes = threading.Event(), []
    learner = threading.Thread(target=lambda: codes.append(train(TrainingSession(run, link), stop)))
    learner.start()
    exchange, given = RedisExchange(link.client, keys), []

    def is_given() -> bool:
        exchange.ask("g", WeightsRequest(count=time.monotonic_ns(), version=-1, held=""))
        manifest = exchange.read_manifest()
        if manifest and manifest.anchor and (value := exchange.get((manifest.anchor.name, 0))):
            given.append(unsealed(manifest.anchor, 0, value))
        return bool(given)

    wait_until(is_given)
    assert given == [b"weights 0"]
    stop.set()
    learner.join(20)
    assert codes == [0]
    assert not list(link.client.scan_iter(match="*weights:*"))


class SignalAt(FilePolicy):
    """Does so many steps, and then a signal comes."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.last = steps
        self.stop = threading.Event()

    def step(self, batch: Batch, settings: LearnerConfig | None = None) -> dict[str, float]:
        metrics = super().step(batch, settings)
        if self.steps == self.last:
            self.stop.set()
        return metrics


@pytest.mark.prove
def test_a_signal_in_a_replay_waits_for_one_step(run: Run, link: RedisLink, keys: Keys, told: Told) -> None:
    begin(run, 4)
    policy = SignalAt(2)
    assert train(TrainingSession(run, link), policy.stop, policy) == 0
    assert policy.steps == 2
    told.assert_in_both("stopped")
    assert int(read_status(run.folder)["version"]) == 4, "the journal has them"
    assert link.client.hget(keys("run"), "version") is None, "nothing is announced half-way"
    assert not list(run.folder.glob("checkpoints/*"))
    policy = SignalAt(4)
    assert train(TrainingSession(run, link), policy.stop, policy) == 0
    assert told["version"] == "4"
    assert [path.name for path in (run.folder / "checkpoints").iterdir()] == ["step-000004"]


@pytest.mark.parametrize("harm", ["ledger", "configuration"])
def test_a_run_that_cant_go_on_says_why_in_both_places(
    run: Run, link: RedisLink, told: Told, stopped: threading.Event, harm: str
) -> None:
    assert train(TrainingSession(run, link), stopped) == 0
    if harm == "ledger":
        ledger = run.folder / "journal" / "ledger-000001.log"
        ledger.write_bytes(
            bytes([ledger.read_bytes()[0] ^ 1, *ledger.read_bytes()[1:]]) + ledger.read_bytes()
        )
    else:
        run = run.model_copy(update={"seed": 7})
    with pytest.raises((RunFailed, JournalError)) as caught:
        TrainingSession(run, link).open()
    told.assert_in_both("failed", str(caught.value))


def test_a_signal_in_an_outage_stops_a_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its journal has all of it."""
    server = RedisServer(tmp_path / "redis")
    link = RedisLink(server.url, outage_s=30)
    stop = link.stop
    trained = TrainingLoop.train

    def lose_redis(trainer: TrainingLoop) -> str:
        server.kill()
        threading.Timer(0.2, stop.set).start()
        return trained(trainer)

    monkeypatch.setattr(TrainingLoop, "train", lose_redis)
    try:
        assert train(TrainingSession(run, link), stop) == 0
    finally:
        server.kill()
        link.close()
    found = read_status(run.folder)
    assert (found["status"], found["reason"]) == ("stopped", "a signal asked for it")


def test_ranks_wait_out_an_outage(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They sit in a collective with a time-out; an outage may last longer."""
    monkeypatch.setattr(while_waiting, "KEEP_ALIVE_S", -1.0)  # each time
    server, made_up = RedisServer(tmp_path / "redis"), MadeUpTime()
    link = RedisLink(server.url, outage_s=600, clock=made_up.clock, sleep=made_up.sleep)
    policy, counts = FilePolicy(), [0, 0]
    told: list[int] = []  # the threads that told the other ranks to go on waiting
    policy.keep_alive = lambda: told.append(threading.get_ident())  # type: ignore[attr-defined]

    def lose_redis(trainer: TrainingLoop) -> str:
        counts[0] = len(told)
        server.kill()
        made_up.later(300.0, server.start)
        trainer.run_owner.position()  # or whatever else is asked of Redis
        counts[1] = len(told)
        return STOPPED

    monkeypatch.setattr(TrainingLoop, "train", lose_redis)
    try:
        assert train(TrainingSession(run, link), policy=policy) == 0
    finally:
        server.kill()
        link.close()
    assert counts[1] - counts[0] >= 2
    assert set(told) == {threading.get_ident()}, "commands to the ranks come from one thread"


def test_a_new_life_takes_back_the_lasts_words_and_claims_anew(run: Run, link: RedisLink, keys: Keys) -> None:
    """Nobody who joins now takes the old failure for the new, or an old configuration for this one's."""
    old: dict[Any, Any] = {"status": "failed", "reason": "a typo", "begun": "no", "config": "old"}
    link.client.hset(keys("run"), mapping=old)
    session = TrainingSession(run, link)
    session.open()  # it has seen an empty journal when another life claims, and Redis forgets that
    assert link.client.hgetall(keys("run")) == {b"coming": to_yaml(run).encode()}
    begin(run)
    journal = session._claim({"config": to_yaml(run), "first_row": 0, "start": None})
    assert journal.fence == session.run_owner.fence == 2
    assert journal.ledger.previous == "ledger-000001.log", "what that life wrote counts"
    journal.close()


@pytest.mark.parametrize("steps", [0, 4])
def test_a_later_life_that_fails_leaves_its_steps(run: Run, link: RedisLink, told: Told, steps: int) -> None:
    begin(run, steps)

    def load() -> Any:
        raise RunFailed("model.path=/nowhere: no such folder")

    session = TrainingSession(run, link)
    session.open()
    assert session.train(load, threading.Event()) == 1
    assert (told["begun"], read_status(run.folder)["begun"]) == ("yes", "yes")
    assert int(read_status(run.folder)["version"]) == steps


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RunFailed("learner.zero.stage=3 needs a GPU"), "learner.zero.stage=3 needs a GPU"),
        (OSError("nowhere is no model"), "OSError: nowhere is no model"),
    ],
    ids=["of the run", "of a library"],
)
def test_a_policy_that_cant_be_loaded_fails_the_run_and_leaves_its_name_free(
    run: Run, link: RedisLink, told: Told, error: Exception, reason: str
) -> None:
    def load() -> Any:
        raise error

    session = TrainingSession(run, link)
    session.open()
    assert session.train(load, threading.Event()) == 1
    told.assert_in_both("failed", reason)
    assert told["begun"] == "no"
    TrainingSession(run, link).open()


@pytest.mark.prove
def test_a_folder_without_a_model_ends_the_program_with_the_reason(tmp_path: Path, link: RedisLink) -> None:
    config, model = tmp_path / "run.yaml", tmp_path / "empty"
    model.mkdir()  # the path is there, and passes the look that everything begins with
    text = "data: {train: {type: procedural}}\nlearner: {device: cpu}\n"
    config.write_text(f"name: test\nmodel: {{path: {model}}}\nruns_dir: {tmp_path}\n{text}")
    command = [sys.executable, "-m", "learner", "--config", str(config)]
    variables = os.environ | {"REDIS_URL": link.url}
    ended = subprocess.run(
        command, env=variables, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    told = Told(link, Keys("test"), make_run(tmp_path))
    told.assert_in_both("failed", read_status(tmp_path / "test")["reason"])
    assert told["begun"] == read_status(tmp_path / "test")["begun"] == "no"
    assert f"model.path={model}" in told["reason"]


@pytest.mark.parametrize(
    ("owner", "name", "error", "reason"),
    [
        (TextWeights, "save_weights", KeyError("lm_head.weight"), "KeyError: 'lm_head.weight'"),
        (RunOwner, "issue", BrokerUnavailable("no answer from redis"), "no answer from redis"),
    ],
    ids=["a bug", "of the feeder"],
)
def test_a_bug_and_a_failed_feeder_fail_the_run(
    run: Run,
    link: RedisLink,
    told: Told,
    monkeypatch: pytest.MonkeyPatch,
    *,
    owner: Any,
    name: str,
    error: Any,
    reason: str,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(owner, name, fail)
    assert train(TrainingSession(run, link)) == 1
    assert told["reason"] == reason


def test_a_replaced_learner_says_no_more(run: Run, link: RedisLink, keys: Keys, told: Told) -> None:
    def replace() -> None:
        wait_until(lambda: link.client.hget(keys("run"), "status") is not None, poll_s=0.01)
        RunOwner(link, keys).claim(0)

    threading.Thread(target=replace, daemon=True).start()
    assert train(TrainingSession(run, link)) == 1
    told.assert_in_both("running")


@pytest.mark.parametrize("how", ["it ends", "it fails", "it gives advice"])
def test_a_learner_that_was_cut_off_leaves_status_json_to_the_newer_one(
    run: Run, link: RedisLink, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Redis has forgotten the newer one's fence; the folder has not."""
    newer = '{"status": "running", "version": 40}'
    session = TrainingSession(run, link)

    def take_over(trainer: TrainingLoop) -> str:
        (run.folder / "journal" / "ledger-000009.log").touch()
        (run.folder / "status.json").write_text(newer)
        if how == "it gives advice":
            trainer.metrics._advise("a smaller learning rate")
        if how == "it fails":
            raise KeyError("a bug")
        return STOPPED

    monkeypatch.setattr(TrainingLoop, "train", take_over)
    assert train(session) == 1
    assert (run.folder / "status.json").read_text() == newer


def test_a_feeder_that_dies_while_it_is_looked_at_is_no_bug() -> None:
    class DyingFeeder:
        """Its thread ends, with a reason, while somebody looks whether it lives."""

        failure: BaseException | None = None

        @property
        def has_died(self) -> bool:
            self.failure = Fenced("a newer learner has the run")
            return True

    feeder: Any = DyingFeeder()
    with pytest.raises(Fenced):
        Feeder.raise_failure(feeder)


def test_full_disks_are_told(run: Run, link: RedisLink, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, *args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    write_text = Path.write_text

    def write(path: Path, text: str, **options: Any) -> Any:
        return refuse(path) if path.name == "status.tmp" else write_text(path, text, **options)

    monkeypatch.setattr(Path, "write_text", write)
    monkeypatch.setattr(TextWeights, "save_weights", refuse)
    monkeypatch.setattr("learner.reporting.metrics.Metrics.close", refuse)
    assert train(TrainingSession(run, link)) == 1
    assert told["status"] == "failed"
    assert "No space left on device" in told["reason"]


def test_a_run_is_refused_and_a_journal_read_before_torch_is_imported() -> None:
    """Importing torch takes seconds, and a name that is taken is to be said at once."""
    modules = "learner.session, learner.journal.ledger, generators.engines.scripted"
    code = (
        f"import sys, {modules}; sys.exit(bool({{'torch', 'transformers', 'datasets'}} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=60).returncode == 0


# -------------------------------------------------------- a start that is refused: said of a run that has begun alone


def over() -> threading.Event:
    """Return what ends a learner before its first step."""
    stop = threading.Event()
    stop.set()
    return stop


def assert_told(run: Run, link: RedisLink, status: str, reason: str = "") -> None:
    Told(link, Keys("test"), run).assert_in_both(status, reason)


def is_killed(run: Run, link: RedisLink, keys: Keys) -> None:
    """What a life of the run says that ended by -9 a moment ago."""
    assert train(TrainingSession(run, link), over()) == 0
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
        TrainingSession(run, link).open()
    assert (link.client.hgetall(keys("run")), read_status(run.folder)) == ({}, {}), "a new name stays free"
    link.client.config_set("appendonly", "yes")
    is_killed(run, link, keys)
    link.client.config_set("appendonly", "no")
    with pytest.raises(WrongBroker) as caught:
        TrainingSession(run, link).open()
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
        TrainingSession(run, link).open()
    assert_told(run, link, "running")  # it is the living one's status
    link.client.delete(keys.alive("learner", "elsewhere-77"))
    with pytest.raises(RunFailed, match="can't be written"):
        TrainingSession(run, link).open()
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
        TrainingSession(run, away).open()
    found = read_status(run.folder)
    assert (found["status"], found["reason"][: len(reason)], found["begun"]) == (status, reason, "yes")
    assert int(found["version"]) == 7


def test_a_taken_name_is_no_failure_and_a_checkpoint_fits_the_launchers_ranks(
    run: Run, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_killed(run, link, keys)
    never = run.model_copy(update={"learner": run.learner.model_copy(update={"resume": "never"})})
    with pytest.raises(NameTaken):
        TrainingSession(never, link).open()
    assert_told(run, link, "running")
    saved: Any = FilePolicy()
    start = Checkpoints(run).save(saved, Progress(version=4, first_row=0, fingerprint="f"))
    check_start(run, start)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RunFailed, match=r"learner\.ranks=2, and it was written with 1"):
        check_start(run, start)


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
    session = TrainingSession(second, link)
    session.open()
    assert session.train(load, threading.Event()) == 1
    found = read_status(second.folder)
    assert (found["status"], found["begun"]) == ("failed", "no")
    assert re.search(reason, found["reason"])
    assert not ledgers(second.folder / "journal")
    again = make_run(run.runs_dir, name="second", data=DATA, learner={"resume": good})
    assert train(TrainingSession(again, link), over()) == 0, "the name begins with another one"
