"""Each entry gets one job, and another one when that is lost; what RQ is told and says. Real Redis, real RQ."""

from __future__ import annotations

import json
import logging
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rq import Callback
from rq.job import JOB_ID_PATTERN

from broker.connection import RedisLink
from broker.keys import GROUP, ROLLOUTS, Keys
from broker.messages import SampledGroup
from broker.monitoring.counters import ProcessTally
from broker.monitoring.heartbeat import Heartbeat
from config.scorer_kinds import JudgeConfig
from config.scorers import TaskConfig
from scorers.pool import dispatcher as dispatching
from scorers.pool.dispatcher import Dispatcher, job_size
from scorers.pool.rq_queues import FUNCTION
from scorers.reward_server.api_run import api_run
from scorers.reward_server.redis_messages import admit, rollout_of
from tests.support.pool_workers import delivered, running, sweep_later
from tests.support.station import RIGHT, ScriptedScorer, Station, make_run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def station(link: RedisLink, keys: Keys) -> Station:
    return Station(link, keys, make_run())


def test_a_job_is_worth_its_overhead_and_leaves_work_for_the_other_workers(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, int, float | None, int]] = [
        (100, 2, None, 1),  # nobody knows yet what a group costs
        (100, 2, 0.005, 16),  # groups_per_job
        (100, 2, 0.03, 8),  # a quarter of a second
        (100, 2, 1.0, 1),
        (9, 2, 0.005, 4),  # the other worker gets as many
        (3, 8, 0.02, 1),
        (3, 8, 0.005, 3),  # apart, RQ would take longer than the scorers
        (9, 2, 0.002, 8),
        (100, 2, 0.0001, 16),
        (1, 1, 0.005, 1),
    ]
    for waiting, workers, seconds_a_group, size in cases:
        with subtests.test(waiting=waiting, workers=workers, seconds_a_group=seconds_a_group):
            assert job_size(waiting, workers, seconds_a_group, most=16) == size


def test_groups_that_wait_for_others_do_so_together_whatever_one_takes(subtests: pytest.Subtests) -> None:
    for waiting, workers, size in [(100, 2, 16), (9, 2, 4), (3, 8, 1), (20, 1, 16)]:
        for seconds_a_group in (None, 60.0):
            with subtests.test(waiting=waiting, workers=workers, seconds_a_group=seconds_a_group):
                assert job_size(waiting, workers, seconds_a_group, most=16, is_waiting=True) == size


def costing(station: Station, seconds_a_group: float) -> Station:
    tally = ProcessTally()
    tally.count("math", "math", {"groups": 10}, seconds=10 * seconds_a_group)
    tally.write(station.link.client, station.keys, is_due=True)
    return station


@contextmanager
def holding(station: Station) -> Iterator[Dispatcher]:
    with station.dispatcher() as dispatcher:
        dispatcher.hold(dispatcher.rollouts.read_new(64, block_s=0))
        yield dispatcher


def test_a_queues_list_is_kept_short_and_the_rest_is_held_until_it_is_wanted(station: Station) -> None:
    ids = station.roll_out(*range(20))
    with holding(costing(station, 0.05)) as dispatcher:  # five a job
        dispatcher.deliver()
        dispatcher.deliver()
        assert station.queued() == [ids[:5], ids[5:10]]
        station.age(*ids)
        dispatcher.sweep()
        assert len(dispatcher.held["math"]) == 10, "what is held is not lost, however long it is"
        station.link.client.lpop(station.rq_queues.queues["math"].key)
        dispatcher.deliver()
        assert station.queued() == [ids[5:10], ids[10:15]]
        with station.dispatcher() as other:
            other.sweep()
            assert not any(other.held.values()), "another's are leased"
        stop = threading.Event()
        stop.set()
        dispatcher.run(stop)
    assert station.queued() == [ids[5:10], ids[10:15], ids[15:]], "told to end, it holds nothing back"


def jobs_of(station: Station) -> dict[str, list[list[str]]]:
    queues = station.rq_queues.queues.items()
    return {name: [station.entries_of(job) for job in queue.get_job_ids()] for name, queue in queues}


def test_jobs_never_mix_queues_and_each_task_goes_to_its_own(link: RedisLink, keys: Keys) -> None:
    custom = {"type": "custom", "import_path": "a.b:C"}
    sections = {"math": {}, "program": {"scorer": {"type": "code"}}, "short": {"scorer": custom}}
    station = Station(link, keys, make_run(scorers={"tasks": sections}))
    tasks = ["math", "program", "math", "short", "unheard-of", "program"]
    ids = [station.roll_out(number, task=task)[0] for number, task in enumerate(tasks)]
    station.deliver()
    queued = jobs_of(station)
    wanted = {"light": [[ids[3], ids[4]]], "math": [[ids[0], ids[2]]], "code": [[ids[1], ids[5]]]}
    assert queued == wanted | {"judge": [], "slow": []}


def test_two_dispatchers_at_once_deliver_each_entry_once(station: Station) -> None:
    with station.dispatcher() as one, station.dispatcher() as other, running(one), running(other):
        ids = [entry for first in range(0, 40, 4) for entry in station.roll_out(*range(first, first + 4))]

        def taken() -> int:
            held = sum(map(len, (*one.held.values(), *other.held.values())))
            return held + len(station.rq_queues.carriers())

        wait_until(lambda: taken() == 40)
    assert sorted(station.queued_entries()) == sorted(ids)


def lose_the_job(station: Station, entry_id: str) -> None:
    job_id = station.rq_queues.carriers()[entry_id]
    station.link.client.delete(f"rq:job:{job_id}")
    station.link.client.lrem(station.rq_queues.queues["math"].key, 0, job_id)


def lose_all_of_rq(station: Station, entry_id: str) -> None:
    station.link.client.delete(*station.link.client.scan_iter(match="rq:*"), station.keys("jobs"))


def take_it_and_die(station: Station, entry_id: str) -> None:
    station.link.client.lpop(station.rq_queues.queues["math"].key)  # the job is there; nobody is at it


@pytest.mark.parametrize("lose", [lose_the_job, lose_all_of_rq, take_it_and_die])
def test_an_entry_whose_job_is_lost_is_delivered_again_after_the_lease(
    station: Station, lose: Callable[[Station, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    (entry,) = delivered(station, 0)
    lost = station.rq_queues.carriers()[entry]
    lose(station, entry)
    station.sweep()
    assert station.queued() == [], "the lease has not run out"
    sweep_later(station, entry)
    assert station.queued() == [[entry]]
    assert station.rq_queues.carriers()[entry] != lost
    assert "delivering_again group=0" in caplog.text
    station.work(scorer := ScriptedScorer())
    assert scorer.seen == ["0"]
    assert station.ids("scored") == ["0"]


def test_a_job_in_the_queues_list_is_not_delivered_again_however_long_it_waits(station: Station) -> None:
    entries = delivered(station, 0, 1)
    queued = station.queued()
    sweep_later(station, *entries)
    assert station.queued() == queued
    pending: Any = station.link.client.xpending_range(station.keys(ROLLOUTS), GROUP, "-", "+", 10)
    assert [item["time_since_delivered"] < 60_000 for item in pending] == [True, True], "leased anew"


@pytest.mark.parametrize(
    ("its_heart_beats", "hard_age_s", "again"),
    [
        (True, 3600.0, False),
        (False, 3600.0, True),  # RQ's record of the worker is there for minutes after its death
        (True, 0.0, True),  # nobody is believed for ever
    ],
)
def test_a_job_that_a_worker_is_at_is_believed_while_its_heart_beats(
    station: Station, monkeypatch: pytest.MonkeyPatch, its_heart_beats: bool, hard_age_s: float, again: bool
) -> None:
    monkeypatch.setattr(dispatching, "HARD_AGE_S", hard_age_s)
    _, second = delivered(station, 0, 1)
    queued: list[list[str]] = []
    alive = station.keys.alive("scorer", "w")

    def sweep_meanwhile(rollout: SampledGroup) -> None:
        if rollout.prompt.group_id == "0" and not queued:
            wait_until(lambda: station.link.client.exists(alive) == 1)
            if not its_heart_beats:
                station.link.client.delete(alive)
            sweep_later(station, second)
            queued.append(station.queued_entries())

    station.work(ScriptedScorer(sweep_meanwhile))
    assert queued == [[second] if again else []]
    assert station.ids("scored") == ["0", "1"], "delivered once or twice, each is scored once"


def test_many_lost_jobs_come_back_in_one_sweep(station: Station) -> None:
    entries = station.roll_out(*range(90))
    for _ in range(2):
        station.deliver()
    lose_all_of_rq(station, "")
    sweep_later(station, *entries)
    assert station.queued_entries() == entries


def test_what_is_left_of_jobs_whose_entry_was_retired_is_forgotten(station: Station) -> None:
    (entry,) = station.roll_out(0)
    with station.dispatcher() as dispatcher:
        leased = dispatcher.rollouts.read_new(64, block_s=0)
        station.learner.retire(["0"])  # its deadline was over
        dispatcher.hold(leased)
        dispatcher.deliver_all()
        assert list(station.rq_queues.carriers()) == [entry]
        station.work(scorer := ScriptedScorer())
        assert scorer.seen == []
        dispatcher.sweep()
    assert station.rq_queues.carriers() == {}


def test_what_is_held_and_wanted_by_nobody_any_more_is_let_go(station: Station) -> None:
    station.roll_out(*range(5))
    with holding(station) as dispatcher:
        station.learner.retire(["0", "1", "3"])
        dispatcher.rollouts.renew()
        dispatcher.discard_gone()
        assert [entry.group_id for entry in dispatcher.held["math"]] == ["2", "4"]


def calls_of(station: Station) -> dict[str, int]:
    """Return how often each command was called since the server's start."""
    found: Any = station.link.client.info("commandstats")
    return {name.removeprefix("cmdstat_"): stats["calls"] for name, stats in found.items()}


def test_while_no_queue_has_room_nothing_but_the_length_of_the_lists_is_asked_for(station: Station) -> None:
    """The loop comes by fifty times a second while entries are held."""
    station.roll_out(*range(20))
    with holding(costing(station, 0.25)) as dispatcher:  # one group a job
        dispatcher.deliver()
        assert len(station.queued()) == 2
        before = calls_of(station)
        for _ in range(20):
            dispatcher.deliver()
        after = calls_of(station)
        assert len(station.queued()) == 2
        asked = {name: count - before.get(name, 0) for name, count in after.items()}
        assert asked.pop("llen") == 20
        assert asked.pop("info") == 1
        assert sum(asked.values()) <= 5, asked  # the heartbeat
        station.link.client.lpop(station.rq_queues.queues["math"].key)
        dispatcher.deliver()
        assert len(station.queued()) == 2, "room is filled at once"


def test_no_payload_is_read_to_be_dropped(station: Station) -> None:
    """A dispatcher wants ids, groups and tasks; a rollout is a hundred kilobytes and more."""
    size = 100_000
    ids = station.roll_out(*range(32), texts=["x" * size])

    def sent(work: Callable[[], object]) -> int:
        before: Any = station.link.client.info("stats")
        work()
        after: Any = station.link.client.info("stats")
        return int(after["total_net_output_bytes"] - before["total_net_output_bytes"])

    with station.dispatcher() as dispatcher:
        new = sent(lambda: dispatcher.hold(dispatcher.rollouts.read_new_headers(64, block_s=0)))
        assert [entry.entry_id for entry in dispatcher.held["math"]] == ids
        assert new < 3 * size, "one entry may have to be read, to wait for it"
    station.age(*ids)
    with station.dispatcher() as other:
        assert sent(other.sweep) < size
        assert sorted(entry.entry_id for entry in other.held["math"]) == sorted(ids)
        assert [entry.group_id for entry in other.held["math"]] == [str(number) for number in range(32)]
        other.deliver_all()
    station.work(scorer := ScriptedScorer())
    assert sorted(scorer.seen, key=int) == [str(number) for number in range(32)]


def test_requests_of_the_reward_server_wait_for_a_judge_together_and_for_work_alone(link: RedisLink) -> None:
    judge = TaskConfig(scorer=JudgeConfig())
    run = api_run([])
    section = run.scorers.model_copy(update={"tasks": {"judge": judge, "math": TaskConfig()}})
    station = Station(link, Keys("api"), run.model_copy(update={"scorers": section}))
    for number in range(10):
        for task in ("judge", "math"):
            admit(link, station.keys, rollout_of(f"{task}-{number}", task, RIGHT, {"type": task}))
    with holding(station) as dispatcher:
        dispatcher.deliver()
    sizes = {name: [len(entries) for entries in jobs] for name, jobs in jobs_of(station).items()}
    assert sizes == {"light": [], "math": [1, 1], "code": [], "judge": [10], "slow": []}


@pytest.mark.parametrize("serves", ["", "light,code", "math", "code,math"])
def test_groups_that_nobody_can_take_are_said_aloud(
    station: Station, monkeypatch: pytest.MonkeyPatch, serves: str, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dispatching, "WARN_EVERY_S", 0.0)
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr("broker.monitoring.heartbeat.LOOK_S", 0.02)
    station.roll_out(*range(5))
    heart = Heartbeat(station.link, station.keys, "scorer", "w")
    heart.set_state("waiting", queues=serves)
    wait_until(lambda: station.rq_queues.serving().total() == len(serves.split(",")) * bool(serves))
    with holding(station) as dispatcher:
        dispatcher.deliver()
        assert len(dispatcher.held["math"]) == 3, "two jobs of one group are enough for the first worker"
        dispatcher._warn_of_unserved_queues()
        assert not caplog.records, "a worker may be starting"
        dispatcher._warn_of_unserved_queues()
    heart.stop()
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    why = "no_worker queue=test.math groups=5: start some with python -m scorers --run test --queues math"
    assert said == ([] if "math" in serves else [why])


def test_the_loop_sweeps_by_itself_and_ends_when_it_is_told(link: RedisLink, keys: Keys) -> None:
    station = Station(link, keys, make_run(broker={"lease_s": 0.5}))
    (entry,) = station.roll_out(0)
    with station.dispatcher() as dispatcher, running(dispatcher):
        wait_until(lambda: station.queued() == [[entry]])
        lost = station.rq_queues.carriers()[entry]
        lose_the_job(station, entry)
        wait_until(lambda: station.rq_queues.carriers()[entry] != lost)


def test_a_jobs_id_names_its_first_group_in_letters_of_rq(
    station: Station, subtests: pytest.Subtests
) -> None:
    for group, part in [
        ("17", "17"), ("eval-3-0", "eval-3-0"), ("?", "-"), ("é 17/{x}:*", "--17--x---"),
        ("9" * 500, "9" * 80),
    ]:  # fmt: skip
        with subtests.test(group=group):
            job_id = station.rq_queues.enqueue("math", ["1-0"], group)
            assert JOB_ID_PATTERN.fullmatch(job_id)
            assert job_id.startswith(f"test_{part}_")
            assert 0 <= station.rq_queues.age_s(job_id) < 10


def test_an_id_is_new_at_each_enqueue_and_rq_stores_json_and_no_pickle(station: Station) -> None:
    first = station.rq_queues.enqueue("math", ["1-0", "2-0"], "17")
    second = station.rq_queues.enqueue("math", ["1-0"], "17")
    assert first != second
    assert station.rq_queues.waiting() == {first, second}
    assert station.rq_queues.carriers() == {"1-0": second, "2-0": first}, "the last one carries the entry"
    stored: Any = station.link.client.hgetall(f"rq:job:{first}")
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


def test_a_job_without_json_is_refused_alone(station: Station, caplog: pytest.LogCaptureFixture) -> None:
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
