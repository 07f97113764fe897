"""A run whose heartbeats and streams are laid out by hand, for the tests of what watches it."""

from __future__ import annotations

import time
from typing import Any

from broker.connection import RedisLink
from broker.keys import PROMPTS, ROLLOUTS, Keys
from broker.protocol.leases import Consumer
from config.loading import to_yaml
from config.run import Run
from tests.broker.conftest import Board


class Laid:
    """A run of which every number is known."""

    def __init__(self, link: RedisLink, keys: Keys) -> None:
        self.board = Board(link, keys)
        self.client: Any = link.client
        self.keys = keys
        sections = {"generators": {"groups_in_flight": 4}, "data": {"train": {"type": "procedural"}}}
        learner = {"steps": 60, "groups_per_step": 4, "max_lag": 1}
        run = Run.model_validate({"name": "test", "model": {"path": "m"}, "learner": learner, **sections})
        said: Any = {"status": "running", "reason": "", "version": 5, "steps": 60, "config": to_yaml(run)}
        self.client.hset(keys("run"), mapping=said)
        self.board.issue(0, 1, 2, 3, 4, 5)
        generator = Consumer(link, keys, PROMPTS, "g-1", lease_s=60)
        for entry in generator.lease(3, block_s=0)[:2]:
            self.board.move(entry, ROLLOUTS)
        counts: Any = {"math groups math": 8, "math completions math": 64, "math failed:ChildDied math": 2}
        self.client.hset(keys("scorers"), mapping=counts)
        self.client.rpush("rq:queue:test.math", "job")
        self.beat(0)

    def beat(self, seconds: float) -> None:
        """Heartbeats after so many seconds in which the scorers work nine tenths, and the others little."""
        ages = {"age_prompts_s": 4, "age_sampling_s": 8, "age_scored_s": 4}
        for role, name, state, busy, rest in (
            ("learner", "box-1", "12 s: 3 of 4 groups", 0.1, {"steps": 4, "wait_groups_s": 0.9, **ages}),
            ("generator", "box-2", "sampling", 0.5, {"tokens": 800, "wait_prompts_s": 0.5}),
            ("scorer", "box-3", "scoring group 1", 0.9, {"wait_rollouts_s": 0.1}),
        ):
            sums = {
                "up_s": 100 + seconds,
                "busy_s": busy * (100 + seconds),
                "groups": 80 + 2 * seconds,
                **{what: number * (10 + seconds) for what, number in rest.items()},
            }
            facts = {
                "pid": name[-1],
                "host": "box",
                "state": state,
                "since": f"{time.time() - 5:.3f}",
                "version": "5",
            }
            queues = "math" if role == "scorer" else ""
            self.client.hset(self.keys.alive(role, name), mapping={**facts, "queues": queues, **sums})
        waiting = {"pid": "4", "host": "box", "state": "waiting"}
        self.client.hset(self.keys.alive("dispatcher", "box-4"), mapping=waiting)

    def play(self) -> None:
        """Lay an agent out beside the others, and turns that the generator has sampled for it."""
        self.client.hset(self.keys.alive("generator", "box-2"), "turns", 90)
        said: Any = {
            "pid": "5",
            "host": "box",
            "state": "playing",
            "since": f"{time.time() - 5:.3f}",
            "version": "",
            "room": 16,
            "up_s": 100,
            "busy_s": 25,
            "wait_episodes_s": 75,
            "groups": 4,
            "turns": 90,
            "tool_calls": 60,
            "tool_errors": 2,
            "tokens_sampled": 500,
            "tokens_observed": 700,
            "breaks": 0,
            "environment_s": 12.5,
            "queue_s": 4.5,
            "sampling_s": 40,
            "overridden": 1,
            "auxiliary": 5,
            "replayed": 3,
            "replayed_s": 1.5,
            "ends": "message=28 turns=2",
        }
        self.client.hset(self.keys.alive("agent", "box-5"), mapping=said)
