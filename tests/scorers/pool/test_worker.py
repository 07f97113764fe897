"""A scorer's process: it proves itself first, finishes its job when told to end, and loses nothing when killed."""

from __future__ import annotations

import logging
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from broker import codec
from broker.connection import RedisLink
from broker.keys import GROUP, ROLLOUTS, Keys
from broker.monitoring.heartbeat import Heartbeat
from broker.monitoring.snapshot import snapshot
from broker.processes import stop
from scorers.group import GroupScorer
from scorers.pool import worker as worker_module
from scorers.sandbox.program import SandboxUnavailable
from tests.support.pool_workers import busy_and_idle, delivered, running, sleeping_for, workers
from tests.support.station import HANGING, RIGHT, Scorers, Station, make_run
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
    """Return a scorer whose hanging answers cost so many seconds."""
    return {"tasks": {"math": {"scorer": {"type": "math", "deadline_s": seconds}}}}


MISSING = {"tasks": {"math": {"scorer": {"type": "custom", "queue": "math", "import_path": "no.such:Mine"}}}}


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        (hanging_for(1e-6), "the math scorer's self-test failed"),  # no answer is that quick
        (MISSING, "import_path no.such:Mine: No module named 'no'"),
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


def test_sigterm_finishes_the_job_at_hand_and_leaves_the_next(
    link: RedisLink, keys: Keys, tmp_path: Path
) -> None:
    station = Station(link, keys, make_run(scorers=PACE | sleeping_for(1.0)))
    station.roll_out(0, text=HANGING)
    delivered(station, 1)
    first, second = station.queued()
    with workers(station, tmp_path) as (worker,):
        worker.until(lambda: station.rq_queues.carriers()[first[0]] in station.jobs_at_work())
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(30) == 0, worker.log.read_text()
    assert station.ids("scored") == ["0"]
    assert codec.decode_scored(station.entry("0").raw).rewards == (0.0, 0.0), "it hung, which is wrong"
    assert station.queued() == [second]
    assert station.rq_queues.living_workers() == []


def test_kill_9_costs_the_groups_not_yet_handed_over_one_try_at_most(
    link: RedisLink, keys: Keys, tmp_path: Path
) -> None:
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
def test_every_worker_gives_the_same_result_at_every_repeat(
    link: RedisLink, keys: Keys, tmp_path: Path
) -> None:
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
    worker = station.start(tmp_path, "--part", "worker", *options)
    try:
        worker.until(lambda: station.ids("scored") == scored)
        assert station.ids(ROLLOUTS) == left, "nobody serves them"
        worker.until(lambda: set(station.rq_queues.serving()) == queues)
        reason = codec.decode_scored(station.entry("3").raw).scores[0].reason
        assert reason == f"imported {imported}"
    finally:
        stop(worker.process, 0)


@pytest.mark.parametrize("part", ["worker", "dispatcher"])
def test_a_part_that_is_told_to_end_before_the_run_is_there_ends_with_0(
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
