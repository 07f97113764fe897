"""A snapshot of a run that was laid out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.connection import Link
from broker.keys import Keys
from broker.stats import Process, Snapshot, snapshot
from broker.tally import ScorerStats

EMPTY = Snapshot(status="", reason="", version=-1, steps=0, prompts=0, rollouts=0, scored=0, dead=0, slots=0,
                 queued_jobs={}, scorers=(), processes=())


def process(role: str) -> Process:
    return Process(role=role, id="1", pid=1, host="here", state="", version="", since=0.0)


BOTH = (process("generator"), process("scorer"))


def test_a_run_that_is_not_there_is_empty(link: Link) -> None:
    assert snapshot(link.client, "nobody") == EMPTY


def test_a_snapshot_counts_what_is_in_the_keys(link: Link, keys: Keys) -> None:
    client = link.client
    client.hset(keys("run"), mapping={"status": "running", "version": 0, "steps": 80, "config": "name: test"})
    for stream, depth in (("prompts", 4), ("rollouts", 3), ("scored", 2), ("dead", 1)):
        for _ in range(depth):
            client.xadd(keys(stream), {"v": "1"})
    client.zadd(keys("slots"), {"0": 0, "1": 0})
    client.rpush("rq:queue:test.math", "job")
    client.rpush("rq:queue:test.code", "job", "job")
    client.rpush("rq:queue:test-2.light", "job")
    client.hset(keys("scorers"), mapping={"math groups math": 3, "math completions math": 24, "math seconds math": 1.5,
                                          "math failed:ChildDied math": 2, "light groups my own": 1})
    client.hset(keys.alive("scorer", "s"), mapping={"pid": "14", "queues": "math,light"})
    client.hset(keys.alive("learner", "host:1"), mapping={"pid": "12", "host": "here", "state": "training",
                                                          "version": "3", "since": "1.5"})
    client.hset(Keys("test-2").alive("learner", "other"), mapping={"pid": "13"})        # another run's
    client.xadd(Keys("test-2")("prompts"), {"v": "1"})
    assert snapshot(client, "test") == Snapshot(
        status="running", reason="", version=0, steps=80, prompts=4, rollouts=3, scored=2, dead=1, slots=2,
        queued_jobs={"math": 1, "code": 2},
        scorers=(ScorerStats(queue="light", scorer="my own", groups=1, failures={}),
                 ScorerStats(queue="math", scorer="math", groups=3, completions=24, seconds=1.5,
                             failures={"ChildDied": 2})),
        processes=(Process(role="learner", id="host:1", pid=12, host="here", state="training", version="3", since=1.5),
                   Process(role="scorer", id="s", pid=14, host="", state="", version="", since=0.0,
                           queues=("math", "light"))))


@pytest.mark.parametrize(("prompts", "rollouts", "scored", "alive", "said"), [
    (0, 0, 0, BOTH, "nothing is in flight"),
    (14, 4, 2, BOTH, "the learner waits for the generators (14 of 20 groups are to be sampled)"),
    (2, 14, 4, BOTH, "the learner waits for the scorers (14 of 20 groups are to be scored)"),
    (4, 2, 14, BOTH, "the generators wait for the learner (14 of 20 groups are to train)"),
    (1, 0, 9, (process("scorer"),), "1 groups wait for a generator to sample them, and none is alive"),
    (1, 2, 9, (process("generator"),), "2 groups wait for a scorer to score them, and none is alive"),
])
def test_the_bottleneck_is_where_groups_pile_up(
        prompts: int, rollouts: int, scored: int, alive: tuple[Process, ...], said: str) -> None:
    assert replace(EMPTY, prompts=prompts, rollouts=rollouts, scored=scored, processes=alive).bottleneck == said
