"""A snapshot of a run that was laid out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import redis

from broker.connection import RedisLink
from broker.keys import PROMPTS, ROLLOUTS, WORK_STREAMS, Keys
from broker.monitoring.counters import ScorerStats
from broker.monitoring.snapshot import Process, Snapshot, StreamState, snapshot
from broker.protocol.leases import Consumer
from config.loading import to_yaml
from config.run import Run
from tests.broker.conftest import Board

EMPTY = Snapshot(status="", reason="", version=-1, steps=0)


def depths_of(**depths: int) -> dict[str, StreamState]:
    return {stream: StreamState(depth=depth) for stream, depth in depths.items()}


def process(role: str, **more: Any) -> Process:
    said: dict[str, Any] = {"id": "1", "pid": 1, "host": "", "state": "", "version": "", "since": 0.0} | more
    return Process(role=role, **said)


def test_a_run_that_is_not_there_is_empty(link: RedisLink) -> None:
    found = snapshot(link.client, "nobody")
    assert found == replace(EMPTY, streams=dict.fromkeys(WORK_STREAMS, StreamState()))
    assert (found.bound, found.run) == (0, None)


def test_a_snapshot_counts_what_is_in_the_keys(link: RedisLink, keys: Keys) -> None:
    client: Any = link.client
    said = {"status": "running", "steps": 80, "wanted": "pause", "advice": "a larger max_lag"}
    client.hset(keys("run"), mapping=said | {"version": 0, "config": "name: test"})
    client.hset(keys("cursor"), "issued", 9)
    depths = {"prompts": 4, "rollouts": 3, "scored": 2, "dead": 1}
    for stream, depth in depths.items():
        for _ in range(depth):
            client.xadd(keys(stream), {"v": "1"})
    client.zadd(keys("slots"), {"0": 4, "1": 3})
    client.rpush("rq:queue:test.math", "job")
    client.rpush("rq:queue:test.code", "job", "job")
    client.rpush("rq:queue:test-2.light", "job")
    counted = {"groups": 3, "completions": 24, "seconds": 1.5, "failed:ChildDied": 2}
    scorers: dict[str, float] = {f"math {name} math": value for name, value in counted.items()}
    client.hset(keys("scorers"), mapping=scorers | {"light groups my own": 1})
    client.hset(keys.alive("scorer", "s"), mapping={"pid": "14", "queues": "math,light"})
    learner = {"pid": "12", "host": "here", "state": "training", "version": "3", "since": "1.5"}
    sums = {"up_s": "4.0", "busy_s": "1.0", "steps": "2", "tokens_of": "0"}
    client.hset(keys.alive("learner", "host:1"), mapping=learner | sums)
    client.hset(Keys("test-2").alive("learner", "other"), mapping={"pid": "13"})  # another run's
    client.xadd(Keys("test-2")("prompts"), {"v": "1"})
    found = snapshot(client, "test")
    assert {stream: found.depth(stream) for stream in depths} == depths
    assert found.depth("episodes") == 0
    expected: dict[str, Any] = said
    of_math: dict[str, Any] = {"groups": 3, "completions": 24, "seconds": 1.5, "failures": {"ChildDied": 2}}
    at_work = {"id": "host:1", "pid": 12, "host": "here", "state": "training", "version": "3", "since": 1.5}
    assert replace(found, streams={}) == Snapshot(
        **expected,
        reason="",
        version=0,
        slots=2,
        issued=9,
        floor=3,
        queued_jobs={"math": 1, "code": 2},
        scorers=(
            ScorerStats(queue="light", scorer="my own", groups=1, failures={}),
            ScorerStats(queue="math", scorer="math", **of_math),
        ),
        processes=(
            process("learner", **at_work, sums={"up_s": 4.0, "busy_s": 1.0, "steps": 2.0}),
            process("scorer", id="s", pid=14, queues=("math", "light")),
        ),
    )


BOTH = (process("generator"), process("scorer"))
SERVING = (process("generator"), process("scorer", queues=("math", "light")))


@pytest.mark.parametrize(
    ("prompts", "rollouts", "scored", "said"),
    [
        (0, 0, 0, "nothing is in flight"),
        (14, 4, 2, "the learner waits for the generators (14 of 20 groups are to be sampled)"),
        (2, 14, 4, "the learner waits for the scorers (14 of 20 groups are to be scored)"),
        (4, 2, 14, "the generators wait for the learner (14 of 20 groups are to train)"),
    ],
)
def test_one_look_says_where_groups_pile_up(prompts: int, rollouts: int, scored: int, said: str) -> None:
    streams = depths_of(prompts=prompts, rollouts=rollouts, scored=scored)
    assert replace(EMPTY, streams=streams, processes=BOTH).pile == said


@pytest.mark.parametrize(
    ("prompts", "rollouts", "jobs", "alive", "said"),
    [
        (0, 0, {}, (), ""),
        (1, 2, {"math": 1}, SERVING, ""),
        (1, 0, {}, BOTH[1:], "1 groups wait for a generator to sample them, and none is alive"),
        (1, 2, {}, BOTH[:1], "2 groups wait for a scorer to score them, and none is alive"),
        (0, 2, {"code": 2}, SERVING, "2 jobs wait in queue code, and no scorer that is alive serves it"),
        (0, 2, {"code": 2}, BOTH, ""),  # it has not said yet what it serves
    ],
)
def test_work_that_nobody_is_there_for_is_named(
    prompts: int, rollouts: int, jobs: dict[str, int], alive: tuple[Process, ...], said: str
) -> None:
    streams = depths_of(prompts=prompts, rollouts=rollouts)
    found = replace(EMPTY, streams=streams, queued_jobs=jobs, processes=alive)
    assert found.nobody == said


def test_streams_say_how_much_is_taken_and_what_is_the_oldest(board: Board) -> None:
    def seen(stream: str) -> StreamState:
        return snapshot(board.client, "test").streams[stream]

    board.issue(0, 1, 2)
    generator = Consumer(board.link, board.keys, PROMPTS, "g", lease_s=30)
    first, _ = generator.lease(2, block_s=0)
    prompts = seen(PROMPTS)
    assert (prompts.depth, prompts.leased, prompts.waiting, prompts.oldest_group) == (3, 2, 1, "0")
    assert 0 <= prompts.oldest_s < 30
    generator.hand_back()
    assert seen(PROMPTS).waiting == 3, "what was handed back is taken by nobody"
    generator.take_over(2)
    board.move(first, ROLLOUTS)
    assert (seen(PROMPTS).oldest_group, seen(ROLLOUTS).oldest_group) == ("1", "0")
    assert seen(ROLLOUTS).leased == 0, "no dispatcher has come yet"


def test_a_key_that_is_no_stream_is_an_error_and_no_empty_stream(link: RedisLink, keys: Keys) -> None:
    link.client.set(keys(ROLLOUTS), "by hand")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        snapshot(link.client, "test")


@pytest.mark.parametrize(
    ("version", "learner", "bound"),
    [(-1, {}, 20), (3, {}, 20), (8, {}, 8), (10, {}, 0), (3, {"groups_in_flight": 6}, 6)],
)
def test_the_bound_of_the_budget_follows_the_configuration_and_the_steps_that_are_left(
    link: RedisLink, keys: Keys, version: int, learner: dict[str, int], bound: int
) -> None:
    run: dict[str, Any] = {"name": "test", "model": {"path": "m"}, "data": {"train": {"type": "procedural"}}}
    run["learner"] = {"steps": 10, "groups_per_step": 4, "max_lag": 4} | learner
    config = to_yaml(Run.model_validate(run))
    link.client.hset(keys("run"), mapping={"steps": 10, "version": version, "config": config})
    assert snapshot(link.client, "test").bound == bound
