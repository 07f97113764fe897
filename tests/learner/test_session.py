"""How one life of the learner ends, and what it leaves behind for the others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from broker.connection import RedisLink
from broker.errors import BrokerUnavailable, Fenced, RunFailed
from broker.keys import Keys
from broker.protocol.run_owner import RunOwner
from broker.weight_exchange.parcels import Wish, unsealed
from broker.weight_exchange.redis_exchange import RedisExchange
from config.learner import LearnerConfig
from config.loading import to_yaml
from config.run import Run
from learner.groups import while_waiting
from learner.groups.feeder import Feeder
from learner.incarnation import STOPPED
from learner.journal.ledger import JournalError
from learner.journal.writer import Journal
from learner.session import Session
from learner.status import read_status
from learner.trainer import TrainingLoop
from learner.training.batch import Batch
from learner.training.checkpoint import Checkpoints, Progress
from learner.weight_sync import relay
from tests.conftest import ROOT
from tests.support.chain import FilePolicy, OneToken, TextWeights, make_run
from tests.support.journals import groups
from tests.support.made_up_time import MadeUpTime
from tests.support.redis_servers import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process


def train(session: Session, stop: threading.Event | None = None, policy: FilePolicy | None = None) -> int:
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
    return make_run(tmp_path, data={"train": {"type": "procedural", "size": 8}})


@pytest.fixture
def told(run: Run, link: RedisLink, keys: Keys) -> Told:
    return Told(link, keys, run)


def test_a_folder_that_takes_no_configuration_ends_it_with_the_reason(
    run: Run, link: RedisLink, told: Told, stopped: threading.Event
) -> None:
    (run.folder / "config.yaml").mkdir(parents=True)
    assert train(Session(run, link), stopped) == 1
    told.assert_in_both("failed")
    assert "config.yaml can't be written: Is a directory" in told["reason"]


def test_a_signal_ends_it_with_a_checkpoint_and_a_status(
    run: Run, link: RedisLink, told: Told, stopped: threading.Event
) -> None:
    assert train(Session(run, link), stopped) == 0
    told.assert_in_both("stopped")
    assert (run.folder / "checkpoints" / "step-000000").is_dir()
    assert (run.folder / "config.yaml").exists()
    assert not list(link.client.scan_iter(match="*alive*"))
    assert train(Session(run, link), stopped) == 0, "and the next one goes on"
    assert len(list((run.folder / "journal").glob("ledger-*"))) == 2


def test_a_run_that_began_with_anothers_checkpoint_needs_it_no_more(
    run: Run, link: RedisLink, stopped: threading.Event
) -> None:
    assert train(Session(run, link), stopped) == 0
    start = run.folder / "checkpoints" / "step-000000"
    learner = run.learner.model_copy(update={"resume": start})
    second = run.model_copy(update={"name": "second", "learner": learner})
    assert train(Session(second, link), stopped) == 0
    assert (second.folder / "checkpoints" / "step-000000").is_dir()
    shutil.rmtree(start)
    assert train(Session(second, link), stopped) == 0, "the same command goes on"


def test_a_checkpoint_of_void_steps_is_not_gone_on_from(
    run: Run, link: RedisLink, stopped: threading.Event
) -> None:
    assert train(Session(run, link), stopped) == 0
    cut_off: Any = FilePolicy()  # a learner whose steps are void, in the middle of its save
    Checkpoints(run).save(cut_off, Progress(version=5, first_row=0, fingerprint="f", fence=1))
    assert train(Session(run, link), stopped) == 0
    assert int(read_status(run.folder)["version"]) == 0


def test_a_generator_that_asks_is_given_the_weights_through_redis_while_the_learner_lives(
    run: Run, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "LOOK_S", 0.02)
    stop, codes = threading.Event(), []
    learner = threading.Thread(target=lambda: codes.append(train(Session(run, link), stop)))
    learner.start()
    exchange, given = RedisExchange(link.client, keys), []

    def is_given() -> bool:
        exchange.ask("g", Wish(count=time.monotonic_ns(), version=-1, held=""))
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
def test_a_signal_in_a_replay_waits_for_one_step_alone(
    run: Run, link: RedisLink, keys: Keys, told: Told
) -> None:
    begin(run, 4)
    policy = SignalAt(2)
    assert train(Session(run, link), policy.stop, policy) == 0
    assert policy.steps == 2
    told.assert_in_both("stopped")
    assert int(read_status(run.folder)["version"]) == 4, "the journal has them"
    assert link.client.hget(keys("run"), "version") is None, "nothing is announced half-way"
    assert not list(run.folder.glob("checkpoints/*"))
    policy = SignalAt(4)
    assert train(Session(run, link), policy.stop, policy) == 0
    assert told["version"] == "4"
    assert [path.name for path in (run.folder / "checkpoints").iterdir()] == ["step-000004"]


def test_a_fence_that_redis_gives_twice_is_claimed_anew(run: Run, link: RedisLink) -> None:
    session = Session(run, link)
    session.open()  # it has seen an empty journal when another life claims, and Redis forgets that
    begin(run)
    journal = session._claim({"config": to_yaml(run), "first_row": 0, "start": None})
    assert journal.fence == session.run_owner.fence == 2
    assert journal.ledger.previous == "ledger-000001.log", "what that life wrote counts"
    journal.close()


@pytest.mark.parametrize("harm", ["ledger", "configuration"])
def test_a_run_that_cant_go_on_says_why_in_both_places(
    run: Run, link: RedisLink, told: Told, stopped: threading.Event, harm: str
) -> None:
    assert train(Session(run, link), stopped) == 0
    if harm == "ledger":
        ledger = run.folder / "journal" / "ledger-000001.log"
        ledger.write_bytes(
            bytes([ledger.read_bytes()[0] ^ 1, *ledger.read_bytes()[1:]]) + ledger.read_bytes()
        )
    else:
        run = run.model_copy(update={"seed": 7})
    with pytest.raises((RunFailed, JournalError)) as caught:
        Session(run, link).open()
    told.assert_in_both("failed", str(caught.value))


def test_a_signal_while_redis_is_away_stops_a_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        assert train(Session(run, link), stop) == 0
    finally:
        server.kill()
        link.close()
    found = read_status(run.folder)
    assert (found["status"], found["reason"]) == ("stopped", "a signal asked for it")


class CountedPolicy(FilePolicy):
    """Counts how often the other ranks were told to go on waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.kept_alive = 0
        self.threads: set[int] = set()

    def keep_alive(self) -> None:
        self.kept_alive += 1
        self.threads.add(threading.get_ident())


def test_ranks_are_kept_waiting_in_an_outage(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They sit in a collective with a time-out; an outage may last longer."""
    monkeypatch.setattr(while_waiting, "KEEP_ALIVE_S", -1.0)  # each time
    server, made_up = RedisServer(tmp_path / "redis"), MadeUpTime()
    link = RedisLink(server.url, outage_s=600, clock=made_up.clock, sleep=made_up.sleep)
    policy, counts = CountedPolicy(), [0, 0]

    def lose_redis(trainer: TrainingLoop) -> str:
        counts[0] = policy.kept_alive
        server.kill()
        made_up.later(300.0, server.start)
        trainer.run_owner.position()  # or whatever else is asked of Redis
        counts[1] = policy.kept_alive
        return STOPPED

    monkeypatch.setattr(TrainingLoop, "train", lose_redis)
    try:
        assert train(Session(run, link), policy=policy) == 0
    finally:
        server.kill()
        link.close()
    assert counts[1] - counts[0] >= 2
    assert policy.threads == {threading.get_ident()}, "commands to the ranks come from one thread"


def test_a_new_life_takes_back_what_the_last_one_said(run: Run, link: RedisLink, keys: Keys) -> None:
    """Nobody who joins now takes the old failure for the new, or an old configuration for this one's."""
    old: dict[Any, Any] = {"status": "failed", "reason": "a typo", "begun": "no", "config": "old"}
    link.client.hset(keys("run"), mapping=old)
    Session(run, link).open()
    assert link.client.hgetall(keys("run")) == {}


def test_data_that_cant_be_read_fail_the_run(tmp_path: Path, link: RedisLink, told: Told) -> None:
    run = make_run(tmp_path, data={"train": {"type": "dataset", "path": str(tmp_path / "nowhere.jsonl")}})
    assert train(Session(run, link)) == 1
    told.assert_in_both("failed")
    assert "nowhere.jsonl (split train) can't be read" in told["reason"]


@pytest.mark.parametrize("steps", [0, 4])
def test_a_later_life_that_fails_leaves_its_steps(run: Run, link: RedisLink, told: Told, steps: int) -> None:
    begin(run, steps)

    def load() -> Any:
        raise RunFailed("model.path=/nowhere: no such folder")

    session = Session(run, link)
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

    session = Session(run, link)
    session.open()
    assert session.train(load, threading.Event()) == 1
    told.assert_in_both("failed", reason)
    assert told["begun"] == "no"
    Session(run, link).open()


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


def test_a_bug_fails_the_run(run: Run, link: RedisLink, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: TextWeights, file: Path) -> None:
        raise KeyError("lm_head.weight")

    monkeypatch.setattr(TextWeights, "save_weights", fail)
    assert train(Session(run, link)) == 1
    assert told["reason"] == "KeyError: 'lm_head.weight'"


def test_a_replaced_learner_leaves_the_status_to_the_newer_one(
    run: Run, link: RedisLink, keys: Keys, told: Told
) -> None:
    def replace() -> None:
        wait_until(lambda: link.client.hget(keys("run"), "status") is not None, poll_s=0.01)
        RunOwner(link, keys).claim(0)

    threading.Thread(target=replace, daemon=True).start()
    assert train(Session(run, link)) == 1
    told.assert_in_both("running")


@pytest.mark.parametrize("how", ["it ends", "it fails", "it gives advice"])
def test_a_learner_that_was_cut_off_leaves_status_json_to_the_newer_one(
    run: Run, link: RedisLink, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Redis has forgotten the newer one's fence; the folder has not."""
    newer = '{"status": "running", "version": 40}'
    session = Session(run, link)

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


def test_a_failed_feeder_fails_the_run(
    run: Run, link: RedisLink, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise BrokerUnavailable("no answer from redis")

    monkeypatch.setattr(RunOwner, "issue", fail)
    assert train(Session(run, link)) == 1
    assert told["reason"] == "no answer from redis"


class DyingFeeder:
    """Its thread ends, with a reason, while somebody looks whether it lives."""

    failure: BaseException | None = None

    @property
    def has_died(self) -> bool:
        self.failure = Fenced("a newer learner has the run")
        return True


def test_a_feeder_that_dies_while_it_is_looked_at_is_no_bug() -> None:
    feeder: Any = DyingFeeder()
    with pytest.raises(Fenced):
        Feeder.raise_failure(feeder)


def test_a_full_disk_hides_no_reason(
    run: Run, link: RedisLink, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object, *args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    write_text = Path.write_text

    def write(path: Path, text: str, **options: Any) -> Any:
        return refuse(path) if path.name == "status.tmp" else write_text(path, text, **options)

    monkeypatch.setattr(Path, "write_text", write)
    monkeypatch.setattr(TextWeights, "save_weights", refuse)
    monkeypatch.setattr("learner.reporting.metrics.Metrics.close", refuse)
    assert train(Session(run, link)) == 1
    assert told["status"] == "failed"
    assert "No space left on device" in told["reason"]


def test_a_session_is_ready_to_refuse_a_run_before_torch_is_imported() -> None:
    """Importing torch takes seconds, and a name that is taken is to be said at once."""
    code = "import sys, learner.session; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=60).returncode == 0
