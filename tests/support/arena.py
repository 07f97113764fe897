"""A run in Redis in which agents play: groups of episodes come in, generators answer, groups go out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from agents.worker import AgentWorker
from broker import codec
from broker.connection import RedisLink
from broker.joining import Joined, RunState
from broker.keys import EPISODES, GROUP, Keys
from broker.messages import NO_IDS, DeadLetter
from broker.monitoring.heartbeat import Heartbeat
from broker.protocol.run_owner import NewGroup
from broker.protocol.streams import entries_of
from config.run import Run
from tests.support.generator_floor import Floor
from tests.support.groups import a_prompt

SIZE = 2  # episodes of a group
TASK = "math"

Playing = tuple[AgentWorker, "asyncio.Task[RunState]"]


def run_of(environment: Mapping[str, Any], *, answers: tuple[str, ...] = ("right",), **sections: Any) -> Run:
    """Return a run whose policy says one of `answers`, drawn by the seed of each turn."""
    return Run.model_validate(
        {
            "name": "test",
            "model": {"path": "nowhere"},
            "data": {"train": {"type": "procedural"}},
            "sampling": {"group_size": SIZE, "max_tokens": 4096},
            "generators": {
                "engine": {"type": "fake", "answers": answers, "by": "seed"},
                "groups_in_flight": 4,
            },
            "scorers": {"tasks": {TASK: {"environment": dict(environment)}}},
            **sections,
        }
    )


class Arena(Floor):
    """A floor whose groups are episodes."""

    def __init__(self, link: RedisLink, keys: Keys, folder: Path, run: Run) -> None:
        super().__init__(link, keys, folder)
        self.run_config = run
        self.rows: dict[str, dict[str, Any]] = {}  # by group
        self.publish(0)

    def group(self, group_id: str) -> NewGroup:
        prompt = a_prompt(
            group_id,
            n=SIZE,
            seed=int(group_id),
            task=TASK,
            token_ids=NO_IDS,
            issued_at=time.time(),
            max_tokens=self.run_config.sampling.max_tokens,
            **self.rows.get(group_id, {}),
        )
        return NewGroup(group_id, codec.encode_prompt(prompt), EPISODES)

    def age_episodes(self) -> None:
        """Let every lease on a group have run out."""
        key = self.keys(EPISODES)
        for item in self.client.xpending_range(key, GROUP, "-", "+", 100):
            self.client.xclaim(
                key, GROUP, item["consumer"], 0, [item["message_id"]], idle=3_600_000, justid=True
            )

    def dead_letters(self) -> list[DeadLetter]:
        return [
            codec.decode_dead(entry.raw)
            for entry in entries_of("dead", self.client.xrange(self.keys("dead")))
        ]

    @asynccontextmanager
    async def agent(self, name: str = "a") -> AsyncIterator[Playing]:
        """Return a worker at play; stopped afterwards, unless it ended by itself."""
        stop = threading.Event()
        heartbeat = Heartbeat(self.link, self.keys, "agent", name)
        made = AgentWorker(Joined(self.run_config, self.link, self.keys), name, stop)
        task = asyncio.create_task(made.run(heartbeat))
        try:
            yield made, task
        finally:
            stop.set()
            with suppress(Exception, asyncio.CancelledError):
                await asyncio.wait_for(task, 20)
            heartbeat.stop()
