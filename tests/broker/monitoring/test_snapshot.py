"""A snapshot of a run that was laid out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from broker.connection import RedisLink
from broker.keys import PROMPTS, ROLLOUTS, WORK_STREAMS, Keys
from broker.monitoring.counters import ScorerStats
from broker.monitoring.snapshot import Process, Snapshot, StreamState, snapshot
from broker.protocol.consumer import Consumer
from config.loading import to_yaml
from config.run import Run
from tests.broker.conftest import Board

EMPTY = Snapshot(
    status="",
    reason="",
    version=-1,
    steps=0,
    prompts=0,
    rollouts=0,
    scored=0,
    dead=0,
    slots=0,
    queued_jobs={},
    scorers=(),
    processes=(),
)


def process(role: str) -> Process:
    return Process(role=role, id="1", pid=1, host="here", state="", version="", since=0.0)


BOTH = (process("generator"), process("scorer"))


def test_a_run_that_is_not_there_is_empty(link: RedisLink) -> None:
    found = snapshot(link.client, "nobody")
    assert found == replace(EMPTY, streams=dict.fromkeys(WORK_STREAMS, StreamState()))
    assert found.bound == 0
    assert found.run is None


def test_a_snapshot_counts_what_is_in_the_keys(link: RedisLink, keys: Keys) -> None:
    client = link.client
    client.hset(
        keys("run"),
        mapping={
            "status": "running",
            "version": 0,
            "steps": 80,
            "config": "name: test",
            "wanted": "pause",
            "advice": "a larger max_lag",
        },
    )
    client.hset(keys("cursor"), "issued", 9)
    for stream, depth in (("prompts", 4), ("rollouts", 3), ("scored", 2), ("dead", 1)):
        for _ in range(depth):
            client.xadd(keys(stream), {"v": "1"})
    client.zadd(keys("slots"), {"0": 4, "1": 3})
    client.rpush("rq:queue:test.math", "job")
    client.rpush("rq:queue:test.code", "job", "job")
    client.rpush("rq:queue:test-2.light", "job")
    client.hset(
        keys("scorers"),
        mapping={
            "math groups math": 3,
            "math completions math": 24,
            "math seconds math": 1.5,
            "math failed:ChildDied math": 2,
            "light groups my own": 1,
        },
    )
    client.hset(keys.alive("scorer", "s"), mapping={"pid": "14", "queues": "math,light"})
    client.hset(
        keys.alive("learner", "host:1"),
        mapping={
            "pid": "12",
            "host": "here",
            "state": "training",
            "version": "3",
            "since": "1.5",
            "up_s": "4.0",
            "busy_s": "1.0",
            "steps": "2",
            "tokens_of": "0",
        },
    )
    client.hset(Keys("test-2").alive("learner", "other"), mapping={"pid": "13"})  # another run's
    client.xadd(Keys("test-2")("prompts"), {"v": "1"})
    assert replace(snapshot(client, "test"), streams={}) == Snapshot(
        status="running",
        reason="",
        version=0,
        steps=80,
        prompts=4,
        rollouts=3,
        scored=2,
        dead=1,
        slots=2,
        wanted="pause",
        advice="a larger max_lag",
        issued=9,
        floor=3,
        queued_jobs={"math": 1, "code": 2},
        scorers=(
            ScorerStats(queue="light", scorer="my own", groups=1, failures={}),
            ScorerStats(
                queue="math", scorer="math", groups=3, completions=24, seconds=1.5, failures={"ChildDied": 2}
            ),
        ),
        processes=(
            Process(
                role="learner",
                id="host:1",
                pid=12,
                host="here",
                state="training",
                version="3",
                since=1.5,
                sums={"up_s": 4.0, "busy_s": 1.0, "steps": 2.0},
            ),
            Process(
                role="scorer",
                id="s",
                pid=14,
                host="",
                state="",
                version="",
                since=0.0,
                queues=("math", "light"),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("prompts", "rollouts", "scored", "alive", "said"),
    [
        (0, 0, 0, BOTH, "nothing is in flight"),
        (14, 4, 2, BOTH, "the learner waits for the generators (14 of 20 groups are to be sampled)"),
        (2, 14, 4, BOTH, "the learner waits for the scorers (14 of 20 groups are to be scored)"),
        (4, 2, 14, BOTH, "the generators wait for the learner (14 of 20 groups are to train)"),
    ],
)
def test_one_look_says_where_groups_pile_up(
    prompts: int, rollouts: int, scored: int, alive: tuple[Process, ...], said: str
) -> None:
    assert replace(EMPTY, prompts=prompts, rollouts=rollouts, scored=scored, processes=alive).pile == said


SERVING = (process("generator"), replace(process("scorer"), queues=("math", "light")))


@pytest.mark.parametrize(
    ("prompts", "rollouts", "jobs", "alive", "said"),
    [
        (0, 0, {}, (), ""),
        (1, 2, {"math": 1}, SERVING, ""),
        (1, 0, {}, (process("scorer"),), "1 groups wait for a generator to sample them, and none is alive"),
        (1, 2, {}, (process("generator"),), "2 groups wait for a scorer to score them, and none is alive"),
        (0, 2, {"code": 2}, SERVING, "2 jobs wait in queue code, and no scorer that is alive serves it"),
        (0, 2, {"code": 2}, BOTH, ""),  # it has not said yet what it serves
    ],
)
def test_work_that_nobody_is_there_for_is_named(
    prompts: int, rollouts: int, jobs: dict[str, int], alive: tuple[Process, ...], said: str
) -> None:
    assert (
        replace(EMPTY, prompts=prompts, rollouts=rollouts, queued_jobs=jobs, processes=alive).nobody == said
    )


def test_streams_say_how_much_is_taken_and_what_is_the_oldest(board: Board) -> None:
    board.issue(0, 1, 2)
    generator = Consumer(board.link, board.keys, PROMPTS, "g", lease_s=30)
    first, _ = generator.lease(2, block_s=0)
    found = snapshot(board.client, "test")
    prompts = found.streams[PROMPTS]
    assert (prompts.depth, prompts.leased, prompts.waiting, prompts.oldest_group) == (3, 2, 1, "0")
    assert 0 <= prompts.oldest_s < 30
    generator.hand_back()
    assert snapshot(board.client, "test").streams[PROMPTS].waiting == 3, (
        "what was handed back is taken by nobody"
    )
    generator.take_over(2)
    board.move(first, ROLLOUTS)
    found = snapshot(board.client, "test")
    assert (found.streams[PROMPTS].oldest_group, found.streams[ROLLOUTS].oldest_group) == ("1", "0")
    assert found.streams[ROLLOUTS].leased == 0, "no dispatcher has come yet"


def test_a_key_that_is_no_stream_is_an_error_and_no_empty_stream(link: RedisLink, keys: Keys) -> None:
    link.client.set(keys(ROLLOUTS), "by hand")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        snapshot(link.client, "test")


@pytest.mark.parametrize(
    ("version", "learner", "bound"),
    [
        (-1, {}, 20),
        (3, {}, 20),
        (8, {}, 8),  # two steps are left
        (10, {}, 0),
        (3, {"groups_in_flight": 6}, 6),
    ],
)
def test_the_bound_of_the_budget_follows_the_configuration(
    link: RedisLink, keys: Keys, version: int, learner: dict[str, int], bound: int
) -> None:
    run = Run.model_validate(
        {
            "name": "test",
            "model": {"path": "m"},
            "data": {"train": {"type": "procedural"}},
            "learner": {"steps": 10, "groups_per_step": 4, "max_lag": 4} | learner,
        }
    )
    link.client.hset(keys("run"), mapping={"steps": 10, "version": version, "config": to_yaml(run)})
    assert snapshot(link.client, "test").bound == bound
