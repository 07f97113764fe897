"""`python -m scorers`: it keeps its children alive, ends with the run, and leaves nobody behind.

Where only the watching matters, the children are a shell script in the interpreter's place.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker import codec, role_pool
from broker.connection import RedisLink
from broker.fork_server.client import ForkServer
from broker.keys import SCORED, Keys
from broker.monitoring.snapshot import snapshot
from broker.processes import has_ended, stop
from scorers.__main__ import main
from scorers.pool import first_worker, supervisor
from scorers.pool.several_runs import run_pools
from tests.support.forked_program import fork_main
from tests.support.station import SLEEPER, Station, make_run
from tests.support.waiting import is_running, wait_until, wait_until_gone

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

CHILD = """#!/bin/bash
part={part}
trap 'echo TERM >> {folder}/signals; sleep 0.2; exit 0' TERM
echo "$@" >> {folder}/words
echo $$ >> {folder}/pids-$part
{does}
[ -z "$SCORER_READY" ] || eval "exec $SCORER_READY>&-"
exec 9<> <(:)
while :; do read -u 9; done
"""


class Children:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def pids(self, part: str) -> list[int]:
        return [*map(int, self.lines(f"pids-{part}"))]

    def all(self) -> list[int]:
        return [pid for file in self.folder.glob("pids-*") for pid in map(int, self.lines(file.name))]


@pytest.fixture
def station(link: RedisLink, keys: Keys) -> Station:
    return Station(link, keys, make_run(scorers={"workers": 2}))


def with_children(
    folder: Path, monkeypatch: pytest.MonkeyPatch, does: str = "", part: str = "${@: -1}"
) -> Children:
    """Put the script in the interpreter's place; the word `part` of each start is its name."""
    script = folder / "child"
    script.write_text(CHILD.format(folder=folder, does=does, part=part))
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr(role_pool, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(role_pool, "POLL_S", 0.02)
    return Children(folder)


@pytest.fixture
def children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Children:
    return with_children(tmp_path, monkeypatch)


def watched(
    run: Callable[[threading.Event], int], meanwhile: Callable[[], object], *, is_told: bool = True
) -> int:
    """Run pools while something happens to them, after which they are told to end; return the exit code."""
    told = threading.Event()

    def happen() -> None:
        try:
            meanwhile()
        finally:
            if is_told:
                told.set()

    happening = threading.Thread(target=happen)
    happening.start()
    code = run(told)
    happening.join()
    return code


def pool_of(station: Station) -> supervisor.PoolSupervisor:
    return supervisor.PoolSupervisor(station.joined, [], fork_server=ForkServer([]))


@pytest.mark.parametrize(("status", "code"), [("finished", 0), ("stopped", 0), ("failed", 1)])
def test_it_ends_with_the_run(
    station: Station, children: Children, monkeypatch: pytest.MonkeyPatch, status: str, code: int
) -> None:
    monkeypatch.setattr(role_pool, "LOOK_EVERY_S", 0.1)

    def end_the_run() -> None:
        wait_until(lambda: len(children.all()) == 3)
        station.link.client.hset(station.keys("run"), mapping={"status": status, "reason": "because"})

    assert watched(pool_of(station).run, end_the_run, is_told=False) == code
    assert not any(map(is_running, children.all()))


def test_a_child_that_is_killed_is_started_again(station: Station, children: Children) -> None:
    def kill_two() -> None:
        wait_until(lambda: len(children.all()) == 3)
        os.kill(children.pids("worker")[0], signal.SIGKILL)
        os.kill(children.pids("dispatcher")[0], signal.SIGKILL)
        wait_until(lambda: len(children.all()) == 5)

    assert watched(pool_of(station).run, kill_two) == 0
    assert (len(children.pids("dispatcher")), len(children.pids("worker"))) == (2, 3)
    assert not any(map(is_running, children.all()))


@pytest.mark.parametrize("because", ["ready", "killed", "slow"])
def test_the_first_worker_has_a_start(
    station: Station, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, because: str
) -> None:
    waits = f"[ $part = dispatcher ] || until [ -e {tmp_path}/go ]; do sleep 0.02; done"
    children = with_children(tmp_path, monkeypatch, waits)
    monkeypatch.setattr(first_worker, "ALONE_S", 2.0 if because == "slow" else 60.0)
    alone: list[int] = []

    def follow() -> None:
        wait_until(lambda: children.pids("dispatcher") and children.pids("worker"))
        time.sleep(0.5)  # 25 looks of the pool
        alone.extend(children.pids("worker"))
        if because == "ready":
            (tmp_path / "go").touch()
        elif because == "killed":
            os.kill(alone[0], signal.SIGKILL)
        wait_until(lambda: len(children.pids("worker")) == (3 if because == "killed" else 2))

    assert watched(pool_of(station).run, follow) == 0
    assert len(alone) == 1
    assert len(children.pids("worker")) == (3 if because == "killed" else 2)
    assert not any(map(is_running, children.all()))


@pytest.mark.prove
def test_a_real_worker_says_when_it_is_ready(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_worker, "ALONE_S", math.inf)
    monkeypatch.setenv("REDIS_URL", station.link.url)
    first = first_worker.FirstWorker(ForkServer([]))
    process = first.spawn([sys.executable, "-m", "scorers", "--run", "test", "--part", "worker"])
    try:
        wait_until(first.may_be_followed, within_s=60)
        assert not has_ended(process), "its end would have been taken for it"
    finally:
        first.close()
        stop(process, 0)
        said = process.stderr.read().decode() if process.stderr else ""
    assert "self_test passed" in said


def test_the_end_is_one_signal_to_each_child_and_time_to_finish(station: Station, children: Children) -> None:
    pool = pool_of(station)
    assert watched(pool.run, lambda: wait_until(lambda: len(children.all()) == 3)) == 0
    assert [part.process.returncode for part in pool.pool.parts if part.process] == [0, 0, 0]
    assert children.lines("signals") == ["TERM"] * 3, "a second one means: at once"


@pytest.mark.parametrize(
    "case",
    [
        ("exit 7", 7, 1),
        ("exit 2", 2, 2),  # bad config: another start of the pool would change nothing
        ("kill -9 $$", -9, 1),  # so soon, it may be its own doing
        ("kill -SEGV $$", -11, 1),
    ],
)
def test_a_child_that_keeps_failing_is_given_up_with_the_reason(
    station: Station,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    case: tuple[str, int, int],
) -> None:
    does, code, ours = case
    children = with_children(tmp_path, monkeypatch, f"if [ $part = dispatcher ]; then {does}; fi")
    assert pool_of(station).run(threading.Event()) == ours
    assert len(children.pids("dispatcher")) == 5
    assert f"child_ended part=dispatcher code={code} failures=1" in caplog.text
    assert f"giving_up part=dispatcher code={code}: it failed 5 times in a row" in caplog.text
    assert not any(map(is_running, children.all()))


def test_the_real_pool_survives_a_kill_and_dies_whole(link: RedisLink, keys: Keys, tmp_path: Path) -> None:
    scorers_section = {"workers": 1, "tasks": {"math": {"scorer": SLEEPER}}}
    station = Station(link, keys, make_run(broker={"lease_s": 0.6}, scorers=scorers_section))
    station.roll_out(0, 1, 2)
    scorers = station.start(tmp_path, is_real=True)
    try:
        scorers.until(lambda: sorted(station.ids("scored")) == ["0", "1", "2"])
        killed = _pid_of(station, "scorer")
        os.kill(killed, signal.SIGKILL)
        station.roll_out(3)
        scorers.until(lambda: sorted(station.ids("scored")) == ["0", "1", "2", "3"])
        station.audit()
        left = [_pid_of(station, "scorer"), _pid_of(station, "dispatcher")]
        assert killed not in left
        scorers.process.kill()
        wait_until_gone(*left)
    finally:
        stop(scorers.process, 0)
    assert "child_ended part=worker code=-9" in scorers.log.read_text()


@pytest.mark.prove
def test_a_pool_grows_and_each_part_serves_its_queues(link: RedisLink, keys: Keys, tmp_path: Path) -> None:
    tasks = {
        "quick": {"scorer": SLEEPER},
        "slow": {"scorer": SLEEPER | {"queue": "code", "options": {"seconds": 0.2}}},
    }
    station = Station(link, keys, make_run(scorers={"workers": 1, "tasks": tasks}))
    first = station.start(tmp_path, "--queues", "light")
    second = None
    try:
        station.roll_out(*range(6), task="slow")  # nobody serves `code` yet
        station.roll_out(6, 7, task="quick")
        first.until(lambda: station.ids("scored") == ["6", "7"])
        second = station.start(tmp_path, "--queues", "code,judge", "--workers", "2")
        second.until(lambda: station.rq_queues.serving() == {"light": 1, "code": 2})
        station.roll_out(*range(8, 14), task="slow")
        second.until(lambda: len(station.ids("scored")) == 14)
        slow = [codec.decode_scored(station.entry(str(number)).raw).worker for number in range(8, 14)]
        assert len(set(slow)) == 2, "both new workers had work"
        assert len(_pids(station, "dispatcher")) == 2
        station.audit()
    finally:
        stop(first.process, 0)
        if second is not None:
            stop(second.process, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--queues", "math,gpu"), "no queue 'gpu'; there are light, math, code, judge"),
        (("--workers", "0"), "'0' is no number of workers"),
    ],
)
def test_words_without_a_meaning_are_refused_with_what_has_one(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--run", "test", *words])
    assert said in capsys.readouterr().err


def test_queues_that_the_run_lacks_are_refused_with_those_it_has(station: Station, tmp_path: Path) -> None:
    scorers = station.start(tmp_path, "--queues", "judge,code")
    assert scorers.process.wait(20) == 2
    assert "no task of this run is scored in judge or code; its queues are math" in scorers.log.read_text()


def _pids(station: Station, role: str) -> list[int]:
    processes = snapshot(station.link.client, "test").processes
    return [process.pid for process in processes if process.role == role]


def _pid_of(station: Station, role: str) -> int:
    wait_until(lambda: len(_pids(station, role)) == 1)
    return _pids(station, role)[0]


@pytest.fixture
def tls_station(tls_url: str, keys: Keys) -> Iterator[Station]:
    link = RedisLink(tls_url, outage_s=10)
    yield Station(link, keys, make_run())
    link.close()


@pytest.mark.prove
def test_a_pool_dispatches_and_scores_by_tls(tls_station: Station, tmp_path: Path) -> None:
    tls_station.roll_out(0, 1)
    pool = tls_station.start(tmp_path, "--workers", "1")
    try:
        pool.until(lambda: int(tls_station.client.xlen(tls_station.keys(SCORED))) == 2)
    finally:
        pool.process.terminate()
        assert pool.process.wait(30) == 0


def test_a_pool_that_does_not_know_the_authority_ends_with_what_to_set(tls_url: str, tmp_path: Path) -> None:
    url = tls_url.partition("?")[0].replace("//", "//:planted-secret@")
    with (tmp_path / "log").open("wb") as stream:
        ended = fork_main(main, ["--run", "test"], env={**os.environ, "REDIS_URL": url}, stderr=stream)
    assert ended.wait(60) == 2  # it would fail each time
    said = (tmp_path / "log").read_text()
    assert "signed by an authority that this machine does not know" in said
    assert "ssl_ca_certs=/path/ca.pem" in said
    assert not any(word in said for word in ("Traceback", "planted"))


def runs_after(condition: Callable[[], bool], *words: str) -> int:
    """Run the pools of two runs until the condition is true; return the exit code."""
    return watched(lambda told: run_pools(["first", "api"], list(words), told), lambda: wait_until(condition))


def test_each_run_has_a_pool_that_is_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = f"[ $part = first ] || trap 'echo TERM >> {tmp_path}/signals; sleep 0.6; exit 0' TERM"
    pools = with_children(tmp_path, monkeypatch, slow, part="$4")
    assert runs_after(lambda: len(pools.all()) == 2, "--queues", "math") == 0
    assert pools.lines("signals") == ["TERM", "TERM"], "a second one would cut a pool's workers short"
    assert sorted(pools.lines("words")) == [
        "-m scorers --run api --queues math",
        "-m scorers --run first --queues math",
    ]
    for pid in pools.all():
        wait_until_gone(pid)


@pytest.mark.prove(keep=True)
@pytest.mark.parametrize(("first", "code"), [("exit 2", 2), ("kill -9 $$", 1)])
def test_a_pool_that_fails_ends_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, code: int
) -> None:
    other = f"until [ -e {tmp_path}/pids-api ]; do sleep 0.02; done"
    pools = with_children(tmp_path, monkeypatch, f"[ $part = api ] || {{ {other}; {first}; }}", "$4")
    assert run_pools(["first", "api"], [], threading.Event()) == code
    for pid in pools.all():
        wait_until_gone(pid)


def test_a_run_that_has_ended_leaves_the_others_their_pools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends = f"trap 'echo TERM >> {tmp_path}/signals; exit 0' TERM"
    pools = with_children(tmp_path, monkeypatch, f"{ends}; [ $part = api ] || exit 0", "$4")
    caplog.set_level("INFO")
    early: list[str] = []

    def is_one_left() -> bool:
        early[:] = pools.lines("signals")
        return len(pools.all()) == 2 and "pool_ended run=first code=0" in caplog.text

    assert runs_after(is_one_left) == 0
    assert (early, pools.lines("signals")) == ([], ["TERM"])


def test_what_makes_no_sense_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[list[str]] = [
        ["--run", "first,api", "--part", "worker"],
        ["--run", "first,"],
        ["--run", "a b"],
    ]
    for words in cases:
        with subtests.test(words=words):
            with pytest.raises(SystemExit) as ended:
                main(words)
            assert ended.value.code == 2
