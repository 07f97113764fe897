"""What RQ is told, and what it says of who has which job. Real Redis, real RQ."""

from __future__ import annotations

import json
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest
from rq import Callback
from rq.job import JOB_ID_PATTERN

from broker.connection import RedisLink
from broker.keys import Keys
from broker.monitoring.heartbeat import Heartbeat
from scorers.pool.rq_queues import FUNCTION
from tests.support.pool_workers import delivered
from tests.support.station import ScriptedScorer, Station, make_run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def station(link: RedisLink, keys: Keys) -> Station:
    return Station(link, keys, make_run())


@pytest.mark.parametrize(
    ("group", "part"),
    [("17", "17"), ("eval-3-0", "eval-3-0"), ("?", "-"), ("é 17/{x}:*", "--17--x---"), ("9" * 500, "9" * 80)],
)
def test_a_jobs_id_names_its_first_group_in_letters_that_rq_takes(
    station: Station, group: str, part: str
) -> None:
    job_id = station.rq_queues.enqueue("math", ["1-0"], group)
    assert JOB_ID_PATTERN.fullmatch(job_id)
    assert job_id.startswith(f"test_{part}_")
    assert 0 <= station.rq_queues.age_s(job_id) < 10


def test_an_id_is_new_at_each_enqueue_and_the_last_one_carries_the_entry(station: Station) -> None:
    first = station.rq_queues.enqueue("math", ["1-0", "2-0"], "17")
    second = station.rq_queues.enqueue("math", ["1-0"], "17")
    assert first != second
    assert station.rq_queues.waiting() == {first, second}
    assert station.rq_queues.carriers() == {"1-0": second, "2-0": first}


def test_rq_stores_json_and_no_pickle(station: Station) -> None:
    job_id = station.rq_queues.enqueue("math", ["1-0", "2-0"], "17")
    stored: Any = station.link.client.hgetall(f"rq:job:{job_id}")
    call: list[Any] = ["scorers.pool.job.score_entries", None, [["1-0", "2-0"]], {}]
    assert json.loads(zlib.decompress(stored.pop(b"data"))) == call
    for value in stored.values():
        assert value.isascii(), "text that a person reads, and not a pickle, which begins with the byte 0x80"


def test_a_job_that_is_done_leaves_nothing_in_redis(station: Station) -> None:
    delivered(station, 0, 1)
    station.work(ScriptedScorer())
    kinds = (b"rq:job:", b"rq:results:", b"rq:execution", b"rq:wip:", b"rq:queue:", b"rq:finished:")
    assert [key for key in station.link.client.scan_iter(match="rq:*") if key.startswith(kinds)] == []
    assert station.rq_queues.carriers() == {}


@pytest.mark.parametrize(
    "words",
    [
        {"f": "os.mkdir"},
        {"f": FUNCTION, "on_success": Callback("os.mkdir")},
        {"f": FUNCTION, "on_failure": Callback("os.mkdir")},
    ],
)
def test_a_job_of_another_function_is_refused_and_forgotten(
    station: Station, words: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Who can write to Redis can put one on a queue."""
    folder = tmp_path / "made"
    job = station.rq_queues.queues["math"].enqueue(words.pop("f"), str(folder), **words)
    station.work(ScriptedScorer())
    assert not folder.exists()
    assert f"job_refused job={job.id} functions=" in caplog.text
    assert not station.link.client.exists(f"rq:job:{job.id}")
    assert station.queued_entries() == []


def test_a_job_that_is_no_json_is_refused_and_the_next_one_is_done(
    station: Station, caplog: pytest.LogCaptureFixture
) -> None:
    job = station.rq_queues.queues["math"].enqueue(FUNCTION, ["1-0"])
    station.link.client.hset(f"rq:job:{job.id}", "data", b"\x80\x04N.")
    delivered(station, 0)
    station.work(scorer := ScriptedScorer())
    assert f"job_refused job={job.id} functions=?" in caplog.text
    assert scorer.seen == ["0"]


def test_a_signal_that_came_before_rqs_own_handlers_is_heeded(station: Station) -> None:
    delivered(station, 0)
    stop = threading.Event()
    stop.set()
    station.work(scorer := ScriptedScorer(), stop=stop)
    assert scorer.seen == []
    assert len(station.queued()) == 1


def test_a_job_that_fails_is_forgotten_by_and_by(station: Station) -> None:
    job_id = station.rq_queues.enqueue("math", ["1-0"], "17")
    broken = ScriptedScorer()
    del broken.tally
    station.work(broken)
    assert 0 < station.link.client.ttl(f"rq:job:{job_id}") <= 300


def test_only_this_runs_scorers_whose_heart_beats_are_living(station: Station) -> None:
    hearts = [
        Heartbeat(station.link, station.keys, "scorer", "host-1-ab"),
        Heartbeat(station.link, station.keys, "generator", "g"),
        Heartbeat(station.link, Keys("test2"), "scorer", "other"),
    ]
    try:
        wait_until(lambda: station.rq_queues.living_workers() == ["host-1-ab"])
    finally:
        for heart in hearts:
            heart.stop()
    assert station.rq_queues.living_workers() == []


def test_only_carriers_whose_entry_is_gone_are_forgotten(station: Station) -> None:
    here, gone = station.roll_out(0, 1)
    station.rq_queues.enqueue("math", [here, gone], "0")
    station.link.client.xdel(station.keys("rollouts"), gone)
    station.rq_queues.discard_gone([here, gone])
    assert list(station.rq_queues.carriers()) == [here]
