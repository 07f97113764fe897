"""A scorer's process: it proves itself first, finishes its job when told to end, and loses nothing when killed or stopped."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from broker import codec, role_pool
from broker.connection import RedisLink
from broker.keys import GROUP, ROLLOUTS, Keys
from broker.messages import SampledGroup
from broker.monitoring.heartbeat import Heartbeat
from broker.monitoring.snapshot import snapshot
from broker.processes import stop
from sandbox.program import SandboxUnavailable
from scorers.group import GroupScorer
from scorers.pool import worker as worker_module
from tests.support.pool_workers import busy_and_idle, delivered, running, sleeping_for, sweep_later, workers
from tests.support.redis_servers import RedisServer
from tests.support.station import HANGING, RIGHT, SLEEPER, Scorers, ScriptedScorer, Station, make_run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

PACE = {"workers": 1, "groups_per_job": 1}
MINE = """
import sys
from scorers.custom import SimpleScorer

HEAVY = {"torch", "vllm", "deepspeed", "transformers", "sympy", "math_verify"}

class Mine(SimpleScorer):
    name, version = "mine", "1"

    def score(self, text, verification_info):
        return self.scored(1.0, f"imported {sorted(HEAVY & set(sys.modules))}")
"""


def hanging_for(seconds: float) -> dict[str, object]:
    return {"tasks": {"math": {"scorer": {"type": "math", "deadline_s": seconds}}}}


MISSING = {"tasks": {"math": {"scorer": {"type": "custom", "queue": "math", "import_path": "no.such:Mine"}}}}


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        (MISSING, "import_path no.such:Mine: No module named 'no'"),
        (hanging_for(1e-6), "the math scorer's self-test failed"),  # no answer is that quick
    ],
)
def test_a_worker_that_can_not_score_takes_no_job_and_says_why(
    link: RedisLink, keys: Keys, tmp_path: Path, tasks: dict[str, object], reason: str
) -> None:
    station = Station(link, keys, make_run(scorers=PACE | tasks))
    delivered(station, 0)
    with workers(station, tmp_path) as (worker,):
        assert worker.process.wait(60) == 2, "another start would change nothing"
    said = worker.log.read_text()
    assert f"ended part=worker reason={reason}" in said
    assert "Traceback" not in said
    assert len(station.queued()) == 1
    (pending,) = link.client.xpending_range(keys(ROLLOUTS), GROUP, "-", "+", 10)
    assert pending["times_delivered"] == 1, "read by the dispatcher, begun by nobody"
    assert station.rq_queues.living_workers() == []


class NeedsSandbox:
    """A `GroupScorer` whose sandbox is away for the first `times` self-tests."""

    def __init__(self, times: int) -> None:
        self.times = times

    def self_test(self) -> None:
        if self.times:
            self.times -= 1
            raise SandboxUnavailable("http://sandbox:8080 refuses")


def test_a_worker_whose_sandbox_is_away_waits_for_it_and_says_so(
    link: RedisLink, keys: Keys, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_module, "FIRST_PAUSE_S", 0.25)
    monkeypatch.setattr("broker.monitoring.heartbeat.LOOK_S", 0.02)
    scorer, told = NeedsSandbox(2), threading.Event()
    heart = Heartbeat(link, keys, "scorer", "w")
    assert worker_module._prove(cast("GroupScorer", scorer), "w", heart, told)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        f"waiting worker=w pause_s={pause} for=http://sandbox:8080 refuses" for pause in ("0.25", "0.50")
    ]
    says = "waiting for http://sandbox:8080 refuses"
    wait_until(lambda: [process.state for process in snapshot(link.client, keys.name).processes] == [says])
    told.set()
    assert not worker_module._prove(cast("GroupScorer", scorer), "w", heart, told), "told to end before"
    heart.stop()


def test_sigterm_finishes_the_job_and_leaves_the_next(link: RedisLink, keys: Keys, tmp_path: Path) -> None:
    station = Station(link, keys, make_run(scorers=PACE | sleeping_for(1.0)))
    station.roll_out(0, text=HANGING)
    delivered(station, 1)
    _, second = station.queued()
    with workers(station, tmp_path) as (worker,):
        worker.until(lambda: station.begun() == {"0": 1, "1": 0})
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(30) == 0, worker.log.read_text()
    assert station.ids("scored") == ["0"], worker.log.read_text()
    assert codec.decode_scored(station.entry("0").raw).rewards == (0.0, 0.0), "it hung, which is wrong"
    assert station.queued() == [second]
    assert station.rq_queues.living_workers() == []


def test_kill_9_costs_what_is_not_handed_over_one_try(link: RedisLink, keys: Keys, tmp_path: Path) -> None:
    station = Station(link, keys, make_run(scorers=sleeping_for(1.0), broker={"lease_s": 0.6}))
    with station.dispatcher() as dispatcher, workers(station, tmp_path, 2) as both:
        both[0].until(lambda: station.rq_queues.serving()["math"] == 2)
        entries = [*station.roll_out(0, 1), *station.roll_out(2, text=HANGING), *station.roll_out(3)]
        dispatcher.hold(dispatcher.rollouts.read_new(64, block_s=0))
        dispatcher.deliver_all()
        assert station.queued() in ([entries], []), "one job"
        both[0].until(lambda: station.ids("scored") == ["0", "1"] and station.begun() == {"2": 1, "3": 0})
        victim, survivor = busy_and_idle(station, both)
        victim.process.kill()
        with running(dispatcher):
            survivor.until(lambda: station.begun().get("2") == 2)
            survivor.until(lambda: sorted(station.ids("scored")) == ["0", "1", "2", "3"])
    done_by = [codec.decode_scored(station.entry(group_id).raw).worker for group_id in "0123"]
    assert [f"-{victim.process.pid}-" in worker for worker in done_by] == [True, True, False, False]
    assert station.ids(ROLLOUTS) == station.ids("dead") == []
    assert survivor.log.read_text().count("scored group=") == 2
    station.audit()


@pytest.mark.prove
def test_every_worker_gives_the_same_result_each_time(link: RedisLink, keys: Keys, tmp_path: Path) -> None:
    station = Station(link, keys, make_run(scorers=hanging_for(1.0)))
    other = ("\\boxed{\\sqrt{16} + 0.5}", "no box", "\\boxed{2 \\cdot 2.0}", "\\boxed{3.99999999}")
    with workers(station, tmp_path, 2) as both:
        both[0].until(lambda: station.rq_queues.serving()["math"] == 2)
        entries = station.roll_out(*range(4), texts=[RIGHT, HANGING, *other])
        with station.dispatcher() as dispatcher:
            assert dispatcher.rollouts.read_new(64, block_s=0)
            for entry in entries:  # while one is at the first, the other takes one
                dispatcher.rq_queues.enqueue("math", [entry], "0")
        both[0].until(lambda: len(station.ids("scored")) == 4)
    groups = [codec.decode_scored(station.entry(str(number)).raw) for number in range(4)]
    assert len({group.worker for group in groups}) == 2
    results = [[replace(score, seconds=0.0) for score in group.scores] for group in groups]
    assert results == [results[0]] * 4
    assert {group.rewards for group in groups} == {(1.0, 0.0, 0.0, 0.0, 1.0, 0.0)}


# A worker's options; the groups that it scores, in order, those that are left, its queues as its heartbeat says, and
# the heavy libraries that it has imported.
Served = tuple[tuple[str, ...], list[str], list[str], set[str], list[str]]
TWO_QUEUES: Served = ("--queues", "judge,light"), ["3", "1", "2"], ["0"], {"judge", "light"}, []
ALL: Served = (), ["1", "2", "0", "3"], [], {"judge", "light", "math"}, ["math_verify", "sympy"]


@pytest.mark.prove(cases=("all queues",))
@pytest.mark.parametrize("case", [TWO_QUEUES, ALL], ids=["two queues", "all queues"])
def test_a_worker_serves_its_queues_in_their_order_and_imports_what_they_need(
    link: RedisLink, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Served
) -> None:
    options, scored, left, queues, imported = case
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    custom = {"type": "custom", "import_path": "mine:Mine"}
    tasks = {"math": {}, "slow": {"scorer": custom | {"queue": "judge"}}, "quick": {"scorer": custom}}
    station = Station(link, keys, make_run(scorers=PACE | {"tasks": tasks}))
    station.roll_out(0, task="math")
    station.roll_out(1, 2, task="quick")
    delivered(station, 3, task="slow")
    worker = station.start(tmp_path, "--part", "worker", *options, is_real=True)
    try:
        worker.until(lambda: station.ids("scored") == scored)
        assert station.ids(ROLLOUTS) == left, "nobody serves them"
        worker.until(lambda: set(station.rq_queues.serving()) == queues)
        reason = codec.decode_scored(station.entry("3").raw).scores[0].reason
        assert reason == f"imported {imported}"
    finally:
        stop(worker.process, 0)


@pytest.mark.parametrize("part", ["worker", "dispatcher"])
def test_a_part_told_to_end_before_its_run_is_there_ends(
    link: RedisLink, keys: Keys, tmp_path: Path, part: str
) -> None:
    station = Station(link, keys, make_run())
    link.client.delete(keys("run"))
    scorers = station.start(tmp_path, "--part", part)
    try:
        scorers.until(lambda: _listens(scorers))
        scorers.process.send_signal(signal.SIGTERM)
        assert scorers.process.wait(20) == 0, scorers.log.read_text()
    finally:
        stop(scorers.process, 0)


def _listens(scorers: Scorers) -> bool:
    """Return whether it has set up its signals: SIGTERM, the fifteenth bit of those that it catches."""
    status = Path(f"/proc/{scorers.process.pid}/status").read_text()
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(caught >> (signal.SIGTERM - 1) & 1)


DEADLY = {"type": "custom", "import_path": "tests.support.sleeper:Deadly"}


def leases(station: Station) -> list[tuple[str, int]]:
    found = station.client.xpending_range(station.keys(ROLLOUTS), GROUP, "-", "+", 100)
    return [(item["consumer"].decode(), item["times_delivered"]) for item in found]


@pytest.mark.prove
def test_a_worker_that_stood_still_past_its_lease_counts_no_more(
    link: RedisLink, keys: Keys, tmp_path: Path
) -> None:
    station = Station(link, keys, make_run(scorers=sleeping_for(0.3), broker={"lease_s": 0.6}))
    with station.dispatcher() as dispatcher, workers(station, tmp_path, 2) as both:
        both[0].until(lambda: station.rq_queues.serving()["math"] == 2)
        station.roll_out(0, text=HANGING)
        with running(dispatcher):
            both[0].until(lambda: station.begun() == {"0": 1} and station.jobs_at_work() != set())
            stopped, other = busy_and_idle(station, both)
            stopped.process.send_signal(signal.SIGSTOP)
            other.until(lambda: station.ids("scored") == ["0"])
            stopped.process.send_signal(signal.SIGCONT)
            other.until(lambda: "scored group=0" in stopped.log.read_text())
            station.roll_out(1)
            other.until(lambda: station.ids("scored") == ["0", "1"])
    assert f"-{other.process.pid}-" in codec.decode_scored(station.entry("0").raw).worker
    assert station.ids(ROLLOUTS) == station.ids("dead") == []
    station.audit()


def test_a_worker_told_to_end_finishes_its_group_and_hands_others_back(link: RedisLink, keys: Keys) -> None:
    station = Station(link, keys, make_run())
    delivered(station, 0, 1, 2)
    told = threading.Event()

    def tell(_: SampledGroup) -> None:
        told.set()  # what broker.processes does in a worker's process
        os.kill(os.getpid(), signal.SIGTERM)

    station.work(scorer := ScriptedScorer(tell), stop=told)
    assert (scorer.seen, station.ids("scored")) == (["0"], ["0"])
    assert leases(station) == [("nobody", 1)] * 2
    with station.dispatcher() as dispatcher, running(dispatcher):
        wait_until(lambda: len(station.queued_entries()) == 2)  # long before the lease is over
    station.work(ScriptedScorer())
    assert station.ids("scored") == ["0", "1", "2"]


def test_a_group_that_takes_longer_than_the_grace_time_is_handed_back(
    link: RedisLink, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    station = Station(link, keys, make_run(scorers=sleeping_for(300.0)))
    station.roll_out(0, text=HANGING)
    delivered(station, 1)
    assert len(station.queued()) == 1
    monkeypatch.setattr(worker_module, "GRACE_S", 0.2)
    worker = station.start(tmp_path, "--part", "worker")
    try:
        worker.until(lambda: station.begun() == {"0": 1, "1": 0})
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(20) == 0, worker.log.read_text()
    finally:
        stop(worker.process, 0)
    assert "handed_back groups=2" in worker.log.read_text(), "the others of its job, too"
    assert leases(station) == [("nobody", 1)] * 2, "and what was begun is no attempt"
    assert station.hash("jobs") == station.hash("tries") == {}
    assert station.rq_queues.living_workers() == []


def test_a_group_that_kills_its_workers_goes_to_the_dead_with_what_is_known(
    link: RedisLink, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(role_pool, "FIRST_PAUSE_S", 0.02)
    section = {"workers": 1, "tasks": {"math": {"scorer": DEADLY}}}
    station = Station(link, keys, make_run(broker={"lease_s": 0.5, "max_attempts": 2}, scorers=section))
    station.roll_out(0, text=HANGING)
    payload = station.entry("0").raw[b"payload"]
    scorers = station.start(tmp_path)
    try:
        scorers.until(lambda: station.ids("dead") == ["0"])
        station.roll_out(1)
        scorers.until(lambda: station.ids("scored") == ["1"])
    finally:
        stop(scorers.process, 0)
    dead_letter = codec.decode_dead(station.entry("0").raw)
    said = "2 scorers began this group and none finished it (broker.max_attempts=2): "
    assert dead_letter.reason.startswith(said)
    assert dead_letter.reason.count(" (was killed by SIGSEGV)") == 2
    assert (dead_letter.attempts, dead_letter.stage, dead_letter.original) == (2, ROLLOUTS, payload)
    assert "Fatal Python error: Segmentation fault" in dead_letter.traceback
    assert "tests/support/sleeper.py" in dead_letter.traceback
    assert "Fatal Python error: Segmentation fault" in scorers.log.read_text(), "passed on, as ever"
    station.audit()


@pytest.fixture
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One whose memory may be full without harm to anybody."""
    server = RedisServer(tmp_path_factory.mktemp("own"))
    yield server
    server.kill()


@pytest.mark.prove
def test_a_worker_that_redis_ends_at_work_is_started_again(
    own_redis: RedisServer, keys: Keys, tmp_path: Path
) -> None:
    link = RedisLink(own_redis.url, outage_s=30)
    section = {"workers": 1, "tasks": {"math": {"scorer": SLEEPER | {"options": {"hanging_s": 0.5}}}}}
    station = Station(link, keys, make_run(broker={"lease_s": 0.6}, scorers=section))
    delivered(station, 0, text=HANGING)
    scorers = station.start(tmp_path)
    try:
        scorers.until(lambda: station.begun() == {"0": 1})
        link.client.config_set("maxmemory", 1)
        scorers.until(lambda: "child_ended part=worker" in scorers.log.read_text())
        assert station.ids("scored") == ["0"], "what is there can leave a full memory"
        link.client.config_set("maxmemory", 0)
        station.roll_out(1)
        scorers.until(lambda: station.ids("scored") == ["0", "1"])
        station.audit()
    finally:
        stop(scorers.process, 0)
        link.close()


def test_what_a_killed_dispatcher_had_leased_is_delivered_by_another(link: RedisLink, keys: Keys) -> None:
    station = Station(link, keys, make_run())
    entries = station.roll_out(0, 1)
    with station.dispatcher() as killed:
        killed.hold(killed.rollouts.read_new(64, block_s=0))  # and no job was made
    station.sweep()
    assert station.queued() == [], "its lease has not run out"
    sweep_later(station, *entries)
    assert station.queued_entries() == entries
    station.work(scorer := ScriptedScorer())
    assert (scorer.seen, station.ids("scored")) == (["0", "1"], ["0", "1"])
