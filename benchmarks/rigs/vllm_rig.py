"""One vLLM engine on a random model of 50 million parameters, versions of its weights, and requests for it.

In: the engine's section. Out: tokens, sampled by our engine, by vLLM's own, or by a whole generator over a private
Redis, always on the one engine that was started. Used by the benchmarks of vLLM. The weights are written beforehand,
and no learner runs beside. In a temporary folder, which is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from benchmarks.rigs.groups import demo_run, question
from benchmarks.rigs.new_weights import updating
from benchmarks.rigs.random_model import large_model, save_folder, save_weights
from broker.checksums import weights_checksum
from broker.codec import encode_prompt
from broker.connection import RedisLink
from broker.joining import Joined
from broker.keys import ROLLOUTS, Keys
from broker.messages import Announcement, Prompt
from broker.monitoring.heartbeat import Heartbeat
from broker.private_redis import addresses
from broker.private_redis import server as embedded
from broker.protocol.run_owner import NewGroup, RunOwner
from config.generators import VllmEngineConfig
from config.run import Run
from generators.answers import answer, params_of
from generators.chat import open_chat
from generators.engine import Sample, SamplingParams
from generators.engines.vllm.engine import VllmEngine, as_vllm_params, tokens_of
from generators.worker import ROLE, Generator

if TYPE_CHECKING:
    from broker.messages import Completion

VERSIONS = 2  # files of weights, given to the engine in turn
PROMPT_TOKENS = 32
POLL_S = 0.05
ROUND_S = 300.0  # for a round to end


def processors() -> int:
    """Return how many processors this process may use: nothing runs beside the engine, and it takes all."""
    return len(os.sched_getaffinity(0))


class StartedEngine:
    """An engine that outlives its generators: it is started and closed by somebody else."""

    def __init__(self, engine: VllmEngine) -> None:
        self._engine = engine
        self.version = engine.version
        self.room = engine.room

    @property
    def counts(self) -> dict[str, int]:
        """What the engine has counted."""
        return self._engine.counts

    async def start(self) -> None:
        """Start nothing."""

    async def generate(
        self, token_ids: NDArray[np.int32], params: SamplingParams, n: int
    ) -> tuple[Sample, ...]:
        """Sample by the engine."""
        return await self._engine.generate(token_ids, params, n)

    async def load_weights(self, files: Sequence[Path], version: int) -> None:
        """Take note of a version; the engine has its weights."""
        del files
        self.version = version

    async def close(self) -> None:
        """Close nothing."""


class VllmRig:
    """The engine, the versions, and the requests. All of it belongs to one event loop."""

    def __init__(self, run: Run, engine: VllmEngine, files: Sequence[Path], link: RedisLink) -> None:
        self.run = run
        self.engine = engine
        self._chat = open_chat(run)
        self._files = files
        self._link = link
        self._keys = Keys(run.name)

    def groups_of(self, seconds: float, loop: asyncio.Runner) -> int:
        """Return how many groups take about so many seconds, by a few that warm the engine up."""
        few = max(1, self.engine.room // 2)
        loop.run(self.by_engine(self.requests(1, seed=1)))
        began = time.perf_counter()
        loop.run(self.by_engine(self.requests(few, seed=2)))
        return max(few, round(few * seconds / (time.perf_counter() - began)))

    def requests(self, count: int, *, seed: int) -> list[Prompt]:
        """Make groups of random prompts, with limits of length that are spread evenly, and nothing that ends before."""
        random = np.random.default_rng(seed)
        longest = self.run.sampling.max_tokens
        return [
            replace(
                question(str(ordinal), n=self.run.sampling.group_size),
                token_ids=random.integers(0, 8000, PROMPT_TOKENS, dtype=np.int32),
                max_tokens=longest // 2 + longest * (place % 8) // 14,
            )
            for place, ordinal in enumerate(range(count))
        ]

    async def by_engine(self, asked: Sequence[Prompt]) -> int:
        """Sample by our engine; returns the number of tokens."""
        return sum(completion.num_sampled for group in await self.sample(asked) for completion in group)

    async def sample(self, asked: Sequence[Prompt]) -> list[tuple[Completion, ...]]:
        """Sample groups side by side."""
        return await asyncio.gather(*(answer(one, self.engine, self._chat) for one in asked))

    async def bare(self, asked: Sequence[Prompt]) -> int:
        """Sample by vLLM's own interface, and count tokens; log-probabilities are asked for, and left as they come."""
        parts = self.engine._parts  # noqa: SLF001 - the very engine, without what is ours
        if parts is None:
            raise RuntimeError("the engine has not been started")

        async def one(number: int, request: Prompt) -> int:
            params = as_vllm_params(params_of(request, self._chat), request.n)
            asked_for = tokens_of(request.token_ids)
            tokens = 0
            request_id = f"bare-{number}-{secrets.token_hex(4)}"
            async for output in parts.engine.generate(asked_for, params, request_id):
                tokens = sum(len(completion.token_ids) for completion in output.outputs)
            return tokens

        return sum(await asyncio.gather(*(one(number, request) for number, request in enumerate(asked))))

    async def by_generator(self, asked: Sequence[Prompt]) -> tuple[float, int]:
        """Have a generator sample groups that it finds in Redis.

        Returns:
            Seconds from the moment that it may lease to the last group handed over, and the number of tokens.
        """
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._lay_down, asked)
        stop = threading.Event()
        heartbeat = Heartbeat(self._link, self._keys, ROLE, "measured")
        generator = Generator(
            Joined(self.run, self._link, self._keys), StartedEngine(self.engine), "measured", stop
        )
        started = loop.time()
        working = asyncio.create_task(generator.run(heartbeat))
        try:
            async with asyncio.timeout(ROUND_S):
                while generator.groups < len(asked):
                    if working.done():
                        working.result()
                        raise RuntimeError("the generator ended before it had sampled all")
                    await asyncio.sleep(POLL_S)
            seconds = loop.time() - started
        finally:
            stop.set()
            await working
            heartbeat.stop()
        if (there := int(self._link(lambda client: client.xlen(self._keys.stream(ROLLOUTS))))) != len(asked):
            raise RuntimeError(f"{there} of {len(asked)} groups were handed over")
        return seconds, generator.tokens

    def updating(self, every_s: float) -> AbstractAsyncContextManager[list[float]]:
        """Give the engine a version every `every_s` seconds, as `benchmarks.rigs.new_weights.updating` does."""
        return updating(self.engine, self._files, every_s)

    def _lay_down(self, asked: Sequence[Prompt]) -> None:
        """Empty Redis, announce the engine's version, and issue the groups."""
        self._link(lambda client: client.flushall())
        owner = RunOwner(self._link, self._keys)
        owner.claim(0)
        file = self._files[self.engine.version % VERSIONS]
        owner.announce(
            Announcement(
                version=self.engine.version,
                path=str(file.parent),
                checksum=weights_checksum([file]),
                size_bytes=file.stat().st_size,
                announced_at=0.0,
            )
        )
        groups = [NewGroup(request.group_id, encode_prompt(request)) for request in asked]
        issued = owner.issue(0, len(groups), len(groups), self.engine.version, groups)
        if issued.full or issued.position != len(groups):
            raise RuntimeError(f"{issued.position} of {len(groups)} groups were let in")


@contextlib.contextmanager
def vllm_rig(
    config: VllmEngineConfig, *, max_tokens: int, group_size: int, **model: Any
) -> Iterator[tuple[VllmRig, asyncio.Runner]]:
    """Start an engine and a private Redis, with version 0 loaded; both end with the block."""
    with tempfile.TemporaryDirectory() as name, asyncio.Runner() as loop:
        folder = Path(name)
        save_folder(large_model(0, dtype=model.get("dtype", "float32")), folder / "model")
        files = []
        for version in range(VERSIONS):
            (folder / f"v{version}").mkdir()
            files.append(
                save_weights(
                    large_model(version, dtype=model.get("dtype", "float32")),
                    folder / f"v{version}" / "model.safetensors",
                )
            )
        run = demo_run(
            folder,
            model={"path": str(folder / "model"), **model},
            sampling={"max_tokens": max_tokens, "group_size": group_size},
            data={"max_prompt_tokens": PROMPT_TOKENS},
            generators={"engine": config.model_dump(), "groups_in_flight": None},
            learner={"groups_per_step": 64},
        )
        engine = VllmEngine(run, config)
        redis = embedded.start(run)
        link = RedisLink(redis.url, outage_s=run.broker.outage_s)
        try:
            loop.run(engine.start())
            loop.run(engine.load_weights([files[0]], 0))
            yield VllmRig(run, engine, files, link), loop
        finally:
            loop.run(engine.close())
            link.close()
            redis.stop()
            addresses.discard(run.folder)
