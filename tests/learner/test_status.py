"""What the others are told, and which Redis is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.connection import RedisLink
from broker.errors import Fenced, WrongBroker
from broker.joining import RunState, reset_run_state, state_of
from broker.keys import Keys
from broker.protocol.run_owner import RunOwner
from broker.protocol.run_state import DRAIN, GO_ON, PAUSE, ask, asked, explain, explanation
from config.learner import LearnerConfig
from config.loading import from_yaml
from config.run import Run
from learner.status import Status, check_redis, has_reached_end, read_status
from tests.conftest import free_port
from tests.support.chain import make_run
from tests.support.full_volume import mounted
from tests.support.paths import ROOT
from tests.support.played import TASKS

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path)


@pytest.fixture
def status(run: Run, link: RedisLink, keys: Keys) -> Status:
    return Status(run, link, keys)


Told = Callable[[], dict[str, str]]


@pytest.fixture
def told(link: RedisLink, keys: Keys) -> Told:
    """What the others are told of the run."""

    def told() -> dict[str, str]:
        found: Any = link.client.hgetall(keys("run"))
        return {name.decode(): value.decode() for name, value in found.items()}

    return told


def test_the_others_find_the_configuration_and_the_end(status: Status, run: Run, told: Told) -> None:
    status.begin(0)
    assert (told()["status"], told()["steps"]) == ("running", "100")
    assert from_yaml(told()["config"]).learner == run.learner
    assert yaml.safe_load(told()["config"])["name"] == "test"
    status.end("failed", "redis at 127.0.0.1:1 is gone", 7)
    assert told()["reason"] == "redis at 127.0.0.1:1 is gone"
    assert (read_status(run.folder)["status"], int(read_status(run.folder)["version"])) == ("failed", 7)


def test_advice_is_kept_till_over(status: Status, run: Run, link: RedisLink, keys: Keys, told: Told) -> None:
    status.begin(3)
    advice = "learner.max_lag=8 instead of 4"
    status.advise(advice)
    assert told()["advice"] == advice
    status.tell_wanted(PAUSE)
    kept = read_status(run.folder)
    assert (kept["advice"], kept["status"], kept["version"], kept["wanted"]) == (advice, "running", 3, PAUSE)
    status.tell_wanted("")
    assert read_status(run.folder)["wanted"] == ""
    status.tell_wanted(DRAIN)
    status.end("stopped", "drained", 4)
    assert read_status(run.folder)["wanted"] == "", "what has ended is asked for nothing any more"
    reset_run_state(link, keys)
    assert "advice" not in told()


def test_lost_time_is_told_to_agents_alone_and_again_to_a_redis_that_was_away_or_has_forgotten_it(
    run: Run, status: Status, link: RedisLink, keys: Keys, told: Told
) -> None:
    status.begin(0)
    status.tell_lost(12.5)
    assert "lost_s" not in told()
    tasks = make_run(run.runs_dir, scorers={"tasks": TASKS}).scorers
    played = Status(run.model_copy(update={"scorers": tasks}), link, keys)  # of a run with agents
    played.begin(0)
    played._link = RedisLink(f"redis://127.0.0.1:{free_port()}", outage_s=1)
    played.tell_lost(12.5)
    played._link = link
    assert state_of(link, keys).lost_s == pytest.approx(played.away_s, abs=0.001), "what `begin` told"
    played.tell_lost(12.5)
    assert state_of(link, keys).lost_s == 12.5
    link.client.hset(keys("run"), "lost_s", "3")  # Redis went back
    played.begin(1)
    assert state_of(link, keys).lost_s == 12.5
    reset_run_state(link, keys)
    assert "lost_s" not in told()


def test_the_time_in_which_a_run_was_stopped_is_lost(
    run: Run, link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Episodes under way at a Ctrl-C were late when the run went on, and worth 0."""
    with_agents = run.model_copy(update={"scorers": make_run(run.runs_dir, scorers={"tasks": TASKS}).scorers})
    first = Status(with_agents, link, keys)
    first.begin(0)
    assert first.away_s == state_of(link, keys).lost_s == 0
    first.end("stopped", "by a signal", 3)
    hour_ago = time.time() - 3600
    os.utime(run.folder / "status.json", (hour_ago, hour_ago))
    (run.folder / "journal").mkdir()
    (run.folder / "journal" / "notes.jsonl").write_text("{}\n")  # an operator's
    again = Status(with_agents, link, keys)
    assert 3600 <= again.away_s < 3700
    (run.folder / "journal" / "ledger-000001.log").touch()
    assert Status(with_agents, link, keys).away_s < 100
    later = time.time() + 100  # the journal's steps were trained again
    monkeypatch.setattr("learner.status.time.time", lambda: later)
    again.begin(3)
    assert state_of(link, keys).lost_s == pytest.approx(again.away_s, abs=0.001), (
        "a sum that falls begins anew"
    )


@pytest.fixture
def hold(run: Run, link: RedisLink, keys: Keys) -> Callable[[], Status]:
    """Return a learner that has claimed the run, the newest of those that did."""

    def claim() -> Status:
        run_owner = RunOwner(link, keys)
        run_owner.claim(0)
        return Status(run, link, keys, run_owner)

    return claim


def test_a_learner_that_was_cut_off_says_nothing_of_a_newer_ones_run(
    hold: Callable[[], Status], told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    older, newer = hold(), hold()
    newer.begin(3)
    before = told()
    older.advise("a smaller learning rate")
    older.end("failed", "redis was away", 2, wanted="")
    with pytest.raises(Fenced, match="a newer learner has taken run test over"):
        older.begin(2)
    assert told() == before
    assert caplog.messages == ["status_not_told status=failed: a newer learner has run test"]


def test_a_learner_that_fails_before_its_claim_says_so_of_nobodys_run_only(
    run: Run, hold: Callable[[], Status], link: RedisLink, keys: Keys, told: Told
) -> None:
    hold().end("stopped", "", 2)
    reset_run_state(link, keys)  # as the next learner does before it loads
    unclaimed = Status(run, link, keys, RunOwner(link, keys))
    unclaimed.end("failed", "there is no such model", 0)
    assert told()["status"] == "failed"
    reset_run_state(link, keys)
    hold().begin(2)  # another one was quicker
    unclaimed.end("failed", "there is no such model", 0)
    assert told()["status"] == "running"


def test_a_beginning_leaves_the_fence_as_it_is_and_what_was_asked_is_done_at_the_end(
    status: Status, hold: Callable[[], Status], link: RedisLink, keys: Keys, told: Told
) -> None:
    link.client.hset(keys("run"), "fence", 9)  # a newer learner may have claimed the run meanwhile
    status.begin(0)
    assert told()["fence"] == "9"
    held = hold()
    ask(link, keys, DRAIN)
    held.end("failed", "a bug", 3)
    assert asked(link, keys) == DRAIN  # the next learner drains
    held.end("stopped", "drained", 3, wanted=GO_ON)
    assert asked(link, keys) == GO_ON


@pytest.mark.parametrize(
    ("end", "wanted", "said"),
    [
        ("stopped", None, ("failed", "scorers-0 keeps dying")),
        ("stopped", GO_ON, ("stopped", "the learner's words")),  # drained meanwhile, as it was asked to
        ("finished", None, ("finished", "the learner's words")),
        ("failed", None, ("failed", "the learner's words")),
    ],
)
def test_a_signal_that_was_explained_is_the_reason_of_a_run_that_it_stopped(
    end: str, wanted: str | None, said: tuple[str, str], status: Status, link: RedisLink
) -> None:
    keys, folder = Keys("test"), status.run.folder
    explain(link, keys, "scorers-0 keeps dying")
    status.end(end, "the learner's words", 3, wanted=wanted)
    assert (read_status(folder)["status"], read_status(folder)["reason"]) == said
    assert state_of(link, keys) == RunState(*said)
    explain(link, keys, "")
    status.end("stopped", "a signal asked for it", 3)
    assert state_of(link, keys) == RunState("stopped", "a signal asked for it")


@pytest.mark.usefixtures("server_settings")
def test_full_memory_keeps_nobody_from_talking(
    hold: Callable[[], Status], link: RedisLink, keys: Keys, told: Told
) -> None:
    status = hold()
    link.outage_s = 0.1
    link.client.config_set("maxmemory", 1)
    status.begin(0)
    status.advise("a smaller learning rate")
    ask(link, keys, PAUSE)
    explain(link, keys, "scorers-0 keeps dying")
    assert explanation(link, keys) == "scorers-0 keeps dying"
    found = told()
    expected = ("running", "a smaller learning rate", PAUSE)
    assert (found["status"], found["advice"], found["wanted"]) == expected
    status.end("failed", "memory is full", 0)
    assert told()["status"] == "failed"


def test_advice_waits_for_no_redis_and_the_end_is_heard_of_even_when_the_disk_takes_nothing(
    *, run: Run, tmp_path: Path, link: RedisLink, keys: Keys, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    waited: list[float] = []
    away = RedisLink(f"redis://127.0.0.1:{free_port()}/0", outage_s=0.1, sleep=waited.append)
    Status(run, away, keys).advise("a smaller learning rate")
    assert waited == []
    away.close()
    (tmp_path / "file").write_text("")
    status = Status(make_run(tmp_path / "file"), link, keys)  # a folder can't be made in a file
    status.end("failed", "No space left on device", 3)
    assert told()["status"] == "failed"
    assert "status_not_written" in caplog.text


# ----------------------------------------------------------------------------------------------- which Redis is refused


@pytest.fixture
def server_settings(link: RedisLink) -> Iterator[None]:
    """Set back what a test sets on the shared server."""
    names = ("maxmemory", "maxmemory-policy", "appendonly")
    before: dict[str, Any] = {name: link.client.config_get(name)[name] for name in names}
    yield
    for name, value in before.items():
        link.client.config_set(name, value)


@pytest.mark.usefixtures("server_settings")
@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("maxmemory-policy", "allkeys-lru", r"evicts keys \(allkeys-lru\): redis-cli (.*)"),
        ("appendonly", "no", "keeps no append-only file: redis-cli CONFIG SET appendonly yes"),
    ],
)
def test_a_redis_that_may_lose_something_is_refused_with_the_command_that_mends_it(
    *, run: Run, link: RedisLink, name: str, value: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    link.client.config_set("maxmemory", 1 << 30)
    check_redis(run, link)  # full memory is refused, not evicted
    link.client.config_set(name, value)
    with pytest.raises(WrongBroker, match=told) as caught:
        check_redis(run, link)
    if name == "appendonly":  # one may mean a forgetful Redis
        broker = run.broker.model_copy(update={"durability": "none"})
        check_redis(run.model_copy(update={"broker": broker}), link)
        assert "durability=none" in caplog.text
    command = str(caught.value).split("redis-cli ")[1].split(" (")[0]
    link.client.execute_command(*command.split())
    check_redis(run, link)


def test_an_old_redis_is_refused(run: Run, link: RedisLink, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("6.0.16", "6.2.14", "7.0.15", "10.0"):
        info = {**link.client.info(), "redis_version": version}
        with monkeypatch.context() as patch:
            patch.setattr(link.client, "info", lambda info=info: info)
            refused = pytest.raises(WrongBroker, match=r"is 6\.0\.16; 6\.2 or newer is needed")
            with refused if version == "6.0.16" else nullcontext():
                check_redis(run, link)


@pytest.mark.parametrize(
    ("ended", "learner", "has_nothing_left"),
    [
        ({"version": 7, "epochs": None}, {"steps": 7}, True),
        ({"version": 7, "epochs": None}, {"steps": 8}, False),  # more steps were asked for
        ({"version": 7, "epochs": 2}, {"epochs": 2}, True),
        ({"version": 7, "epochs": 2}, {"epochs": 3}, False),  # another epoch was asked for
        ({"version": 7, "epochs": 2}, {"steps": 90, "epochs": 2}, True),
        ({"version": 7, "epochs": None}, {"steps": 9, "epochs": 2}, False),  # its steps ended it
        ({"version": 200, "epochs": None}, {"epochs": 2}, False),  # how many steps that makes, the data say
    ],
)
def test_a_finished_run_has_nothing_left_to_do_unless_more_is_asked_for(
    tmp_path: Path, ended: dict[str, Any], learner: dict[str, int], has_nothing_left: bool
) -> None:
    run = make_run(tmp_path, learner=learner)
    if "steps" not in learner:
        unset = {name: value for name, value in run.learner.model_dump().items() if name != "steps"}
        run = run.model_copy(update={"learner": LearnerConfig.model_validate(unset)})
    run.folder.mkdir(parents=True)
    (run.folder / "status.json").write_text(json.dumps({"status": "finished"} | ended))
    assert has_reached_end(run, ended["version"]) is has_nothing_left


# argv: the folder of the runs, on a volume of its own that is filled up, and the reasons to write there one by one.
ON_A_FULL_DISK = """
import json, sys
from pathlib import Path
from learner.status import read_status, write_failed
from learner.journal.disk import replace_in_place
from tests.support.chain import make_run
run = make_run(Path(sys.argv[1]))
run.folder.mkdir(parents=True)
file = run.folder / "status.json"
replace_in_place(file, json.dumps({"status": "failed", "reason": "an earlier one", "version": 7, "begun": "yes"}))
with open(Path(sys.argv[1]) / "ballast", "wb", buffering=0) as ballast:
    for size in (1 << 16, 1 << 12, 1):
        try:
            while True:
                ballast.write(bytes(size))
        except OSError:
            pass
for reason in sys.argv[2:]:
    write_failed(run, reason)
    print(json.dumps([read_status(run.folder), sorted(path.name for path in run.folder.iterdir())]))
"""


def test_a_reason_finds_room_in_the_file_that_a_full_disk_already_holds(tmp_path: Path) -> None:
    reasons = ["No space left on device", "x" * 20_000, "é" * 5_000]
    with mounted(tmp_path / "full", size_mb=1) as volume:
        words = [sys.executable, "-c", ON_A_FULL_DISK, str(tmp_path / "full"), *reasons]
        done = subprocess.run(
            [*volume.inside, f"--wd={ROOT}", *words],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 0, done.stderr
    for reason, line in zip(reasons, done.stdout.splitlines(), strict=True):
        found, names = json.loads(line)
        assert (found["status"], found["version"], found["begun"]) == ("failed", 7, "yes")
        assert reason.startswith(found["reason"])
        assert len(found["reason"]) >= min(len(reason), 500)
        assert names == ["status.json"], "nothing is left beside it"
