"""What breaks leases, the sweep and renewal: workers that stand still, end themselves, or are killed by a group.

Real Redis, real RQ; where a process matters it is a real one.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker import codec
from broker.connection import RedisLink
from broker.keys import GROUP, ROLLOUTS, Keys
from broker.messages import SampledGroup
from broker.processes import spawn, stop
from tests.support.pool_workers import busy_and_idle, delivered, running, sleeping_for, sweep_later, workers
from tests.support.redis_servers import RedisServer
from tests.support.station import HANGING, SLEEPER, Scorers, ScriptedScorer, Station, make_run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

DEADLY = {"type": "custom", "import_path": "tests.support.sleeper:Deadly"}
# `python -m scorers` with a grace time that a test can wait for.
IMPATIENT = """
import sys
import scorers.pool.worker
scorers.pool.worker.GRACE_S = 0.2
from scorers.__main__ import main
sys.exit(main(["--run", "test", "--part", "worker"]))
"""


def leases(station: Station) -> list[tuple[str, int]]:
    """Consumer and deliveries of each pending entry of `rollouts`."""
    found = station.client.xpending_range(station.keys(ROLLOUTS), GROUP, "-", "+", 100)
    return [(item["consumer"].decode(), item["times_delivered"]) for item in found]


@pytest.mark.prove
def test_a_worker_that_stood_still_for_longer_than_its_lease_counts_no_more(
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


def test_a_worker_told_to_end_finishes_its_group_and_hands_the_others_of_its_job_back(
    link: RedisLink, keys: Keys
) -> None:
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
    link: RedisLink, keys: Keys, tmp_path: Path
) -> None:
    station = Station(link, keys, make_run(scorers=sleeping_for(300.0)))
    station.roll_out(0, text=HANGING)
    delivered(station, 1)
    assert len(station.queued()) == 1
    log = tmp_path / "worker.log"
    with log.open("wb") as stream:
        environment = {**os.environ, "REDIS_URL": link.url}
        process = spawn([sys.executable, "-c", IMPATIENT], stderr=stream, env=environment)
    worker = Scorers(process, log)
    try:
        worker.until(lambda: station.begun() == {"0": 1, "1": 0})
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()
    finally:
        stop(process, 0)
    assert "handed_back groups=2" in log.read_text(), "the others of its job, too"
    assert leases(station) == [("nobody", 1)] * 2, "and what was begun is no attempt"
    assert station.hash("jobs") == station.hash("tries") == {}
    assert station.rq_queues.living_workers() == []


def test_a_group_that_kills_its_workers_goes_to_the_dead_with_what_is_known(
    link: RedisLink, keys: Keys, tmp_path: Path
) -> None:
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
    letter = codec.decode_dead(station.entry("0").raw)
    said = "2 scorers began this group and none finished it (broker.max_attempts=2): "
    assert letter.reason.startswith(said)
    assert letter.reason.count(" (was killed by SIGSEGV)") == 2
    assert (letter.attempts, letter.stage, letter.original) == (2, ROLLOUTS, payload)
    assert "Fatal Python error: Segmentation fault" in letter.traceback
    assert "tests/support/sleeper.py" in letter.traceback
    assert "Fatal Python error: Segmentation fault" in scorers.log.read_text(), "passed on, as ever"
    station.audit()


@pytest.fixture
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One whose memory may be full without harm to anybody."""
    server = RedisServer(tmp_path_factory.mktemp("own"))
    yield server
    server.kill()


@pytest.mark.prove
def test_a_worker_that_redis_ends_in_the_middle_of_a_job_is_started_again(
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


def test_what_a_dispatcher_had_leased_when_it_was_killed_is_delivered_by_another(
    link: RedisLink, keys: Keys
) -> None:
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
