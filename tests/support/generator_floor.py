"""A run in Redis on which generators work: prompts come in, weights are announced, groups go out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broker import codec
from broker.connection import RedisLink
from broker.joining import Joined, RunState
from broker.keys import GROUP, PROMPTS, ROLLOUTS, Keys
from broker.messages import SampledGroup
from broker.monitoring.heartbeat import Heartbeat
from broker.protocol.run_owner import NewGroup
from config.generators import ScriptedEngineConfig
from config.run import Run
from generators.engine import Sample, SamplingParams
from generators.engines.scripted import ScriptedEngine
from generators.worker import Generator
from tests.broker.conftest import Board
from tests.support.groups import a_prompt
from tests.support.published_weights import Publisher

Act = Callable[[str], Awaitable[None]]  # by a group's id

Running = tuple[Generator, "asyncio.Task[RunState]"]


class FloorEngine(ScriptedEngine):
    """The fake engine, which does `act` before it answers and remembers whom it sampled."""

    def __init__(self, act: Act | None = None) -> None:
        super().__init__(make_run(), ScriptedEngineConfig())
        self.act = act
        self.began: list[str] = []
        self.is_closed = False

    async def generate(
        self, token_ids: NDArray[np.int32], params: SamplingParams, n: int
    ) -> tuple[Sample, ...]:
        group_id = str(params.seed)  # of a floor's group
        self.began.append(group_id)
        if self.act is not None:
            await self.act(group_id)
        return await super().generate(token_ids, params, n)

    async def close(self) -> None:
        self.is_closed = True


def make_run(**sections: Any) -> Run:
    plain = {"name": "test", "model": {"path": "nowhere"}, "data": {"train": {"type": "procedural"}}}
    generators = {"engine": {"type": "fake"}, "groups_in_flight": 4}
    return Run.model_validate(plain | {"generators": generators} | sections)


class Floor(Board):
    """Where generators work: prompts come in, weights are announced, rollouts go out."""

    def __init__(self, link: RedisLink, keys: Keys, folder: Path) -> None:
        super().__init__(link, keys)
        self.folder = folder
        self.run_config = make_run()
        self.publisher = Publisher(link, keys, folder)
        self.learner = self.publisher.owner
        self.say("running")

    def group(self, group_id: str) -> NewGroup:
        return NewGroup(group_id, codec.encode_prompt(a_prompt(group_id, seed=int(group_id))))

    def say(self, status: str, reason: str = "") -> None:
        self.link.client.hset(self.keys("run"), mapping={"status": status, "reason": reason})

    def publish(self, version: int) -> None:
        self.publisher.publish(version)

    def age(self) -> None:
        """Let every lease have run out."""
        for item in self.pending():
            whose = (self.keys(PROMPTS), GROUP, item["consumer"], 0, [item["message_id"]])
            self.link.client.xclaim(*whose, idle=3_600_000, justid=True)

    def pending(self) -> list[Any]:
        """Leases on prompts, as XPENDING tells of them."""
        return list(self.link.client.xpending_range(self.keys(PROMPTS), GROUP, "-", "+", 100))

    def sampling(self, name: str) -> dict[str, float]:
        """Groups that a generator says to be sampling, with the Unix seconds since when."""
        began = self.hash(f"alive:generator:{name}").get("began", "").split()
        return {group_id: float(at) for group_id, at in (word.split("@") for word in began)}

    def rollout(self, group_id: str) -> SampledGroup:
        entry = self.entry(group_id)
        assert entry.stream == ROLLOUTS
        return codec.decode_rollout(entry.raw)

    @asynccontextmanager
    async def generator(self, engine: ScriptedEngine, name: str = "g") -> AsyncIterator[Running]:
        """Return a generator at work; stopped afterwards, unless it ended by itself."""
        stop = threading.Event()
        heartbeat = Heartbeat(self.link, self.keys, "generator", name)
        made = Generator(Joined(self.run_config, self.link, self.keys), engine, name, stop)
        task = asyncio.create_task(made.run(heartbeat))
        try:
            yield made, task
        finally:
            stop.set()
            with suppress(Exception, asyncio.CancelledError):
                await asyncio.wait_for(task, 20)
            heartbeat.stop()
