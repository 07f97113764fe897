"""A scorer's process: it proves itself first, finishes its job when told to end, and loses nothing when killed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker import codec
from broker.connection import Link
from broker.keys import GROUP, ROLLOUTS, Keys
from broker.processes import stop
from tests.scorers.station import HANGING, Scorers, Station, make_run

PACE = {"workers": 1, "groups_per_job": 1}


@contextmanager
def workers(station: Station, folder: Path, count: int = 1) -> Iterator[list[Scorers]]:
    """Real worker processes, without the pool that would start them again."""
    started = [station.start(folder, "--part", "worker") for _ in range(count)]
    try:
        yield started
    finally:
        for scorers in started:
            stop(scorers.process, 0)


def hanging_for(seconds: float) -> dict[str, object]:
    """A scorer whose hanging answers cost so many seconds."""
    return {"tasks": {"math": {"scorer": {"type": "math", "deadline_s": seconds}}}}


def test_a_worker_that_fails_its_self_test_takes_no_job_and_says_why(link: Link, keys: Keys, tmp_path: Path) -> None:
    station = Station(link, keys, make_run(scorers=PACE | hanging_for(1e-6)))       # no answer is that quick
    station.roll_out(0)
    station.deliver()
    with workers(station, tmp_path) as (worker,):
        assert worker.process.wait(60) == 1
    said = worker.log.read_text()
    assert "ended part=worker reason=the math scorer's self-test failed" in said
    assert "Traceback" not in said
    assert len(station.queued()) == 1
    (pending,) = link.client.xpending_range(keys(ROLLOUTS), GROUP, "-", "+", 10)
    assert pending["times_delivered"] == 1, "read by the dispatcher, begun by nobody"
    assert station.delivery.living_workers() == []


def test_sigterm_finishes_the_job_at_hand_and_leaves_the_next(link: Link, keys: Keys, tmp_path: Path) -> None:
    station = Station(link, keys, make_run(scorers=PACE | hanging_for(2.0)))
    station.roll_out(0, text=HANGING)
    station.roll_out(1)
    station.deliver()
    first, second = station.queued()
    with workers(station, tmp_path) as (worker,):
        worker.until(lambda: station.delivery.carriers()[first[0]] in station.jobs_at_work())
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(30) == 0, worker.log.read_text()
    assert station.ids("scored") == ["0"]
    assert codec.decode_scored(station.entry("0").raw).rewards == (0.0, 0.0), "it hung, which is wrong"
    assert station.queued() == [second]
    assert station.delivery.living_workers() == []


def test_kill_9_in_the_middle_of_a_job_loses_nothing(link: Link, keys: Keys, tmp_path: Path) -> None:
    station = Station(link, keys, make_run(scorers=PACE | hanging_for(2.0), broker={"lease_s": 0.6}))
    ended = threading.Event()
    with station.dispatcher() as dispatcher, workers(station, tmp_path, 2) as both:
        delivering = threading.Thread(target=dispatcher.run, args=(ended,))
        delivering.start()
        try:
            both[0].until(lambda: len(station.delivery.living_workers()) == 2)
            station.roll_out(0, text=HANGING)
            both[0].until(lambda: len(station.jobs_at_work()) == 1)
            victim, = (worker for worker in both for name in station.delivery.living_workers()
                       if f"-{worker.process.pid}-" in name and station.delivery.current([name]))
            victim.process.kill()
            survivor, = (worker for worker in both if worker is not victim)
            survivor.until(lambda: station.ids("scored") == ["0"])
        finally:
            ended.set()
            delivering.join()
    assert f"-{survivor.process.pid}-" in codec.decode_scored(station.entry("0").raw).worker
    assert station.ids(ROLLOUTS) == station.ids("dead") == []
    station.audit()


@pytest.mark.parametrize("part", ["worker", "dispatcher"])
def test_a_part_that_is_told_to_end_before_the_run_is_there_ends_with_0(link: Link, keys: Keys, tmp_path: Path,
                                                                        part: str) -> None:
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
    """Whether it has set up its signals: SIGTERM, the fifteenth bit of those that it catches."""
    status = Path(f"/proc/{scorers.process.pid}/status").read_text()
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(caught >> (signal.SIGTERM - 1) & 1)
