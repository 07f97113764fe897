"""One model over two of vLLM's workers: it samples as over one, and is started again after one of them has died."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from broker.messages import Span
from config.generators import VllmEngineConfig
from generators.engines.hf import model as hf_model
from generators.engines.vllm.engine import VllmEngine
from generators.engines.vllm.liveness import EngineDied
from tests.support.byte_model import assert_agrees, make_prompt, make_run, random_model, save_weights
from tests.support.descendants import descendants
from tests.support.sampled import sample
from tests.support.waiting import wait_until_gone

CONFIG = VllmEngineConfig(
    tensor_parallel=2, kv_cache_mb=64, max_num_seqs=64, enforce_eager=True, start_timeout_s=280
)
MAX_TOKENS = 300
LAYER = "model.layers.1.mlp.down_proj"
LONG = make_prompt("1", n=64, max_tokens=MAX_TOKENS)
FRESH = make_prompt("1+2=" * 10)

pytestmark = [
    pytest.mark.model,
    pytest.mark.together("vllm"),
    pytest.mark.filterwarnings("ignore:Unclosed context:ResourceWarning"),
]  # vLLM leaves its own open


class Lives:
    """Engines one after the other, and the versions that they are given."""

    def __init__(self, model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.model = model
        self.monkeypatch = monkeypatch
        self.models = {version: random_model(seed=version) for version in range(1, 4)}
        named = {version: folder / f"{version}.safetensors" for version in self.models}
        self.files = {version: save_weights(self.models[version], file) for version, file in named.items()}

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[VllmEngine]:
        """Yield an engine that has started; none of its processes outlives the block."""
        resource_tracker.ensure_running()  # of this process, whose first engine would start it
        before = set(descendants(os.getpid()))
        engine = VllmEngine(make_run(self.model, CONFIG, max_tokens=MAX_TOKENS, context=400), CONFIG)
        await engine.start()
        family = set(descendants(os.getpid())) - before
        try:
            yield engine
        finally:
            await engine.close()
        wait_until_gone(*family)

    async def load_unchecked(self, engine: VllmEngine, file: Path, version: int, *, removes: bool) -> None:
        """Give the engine a file that passes the check, and which retention may remove right behind it."""

        def passes(_skeleton: object, files: Sequence[Path]) -> None:
            for each in files if removes else ():
                each.unlink()

        with self.monkeypatch.context() as patch:
            patch.setattr(hf_model, "check_weights", passes)
            await engine.load_weights([file], version)


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_two_workers_sample_and_update_as_one_and_come_back_after_a_death(
    loop: asyncio.Runner, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = Lives(tiny_model, tmp_path, monkeypatch)

    async def first(engine: VllmEngine) -> None:
        await engine.load_weights([lives.files[1]], 1)
        assert_agrees(lives.models, FRESH, await sample(engine, FRESH))
        in_flight = [make_prompt("1+2=", seed=seed, max_tokens=MAX_TOKENS) for seed in range(4)]
        tasks = [asyncio.create_task(sample(engine, prompt)) for prompt in in_flight]
        await asyncio.sleep(0.5)
        await lives.load_unchecked(engine, lives.files[2], 2, removes=True)
        assert not lives.files[2].exists()
        groups = await asyncio.gather(*tasks)
        for prompt, group in zip(in_flight, groups, strict=True):
            assert_agrees(lives.models, prompt, group)
        assert any(len(completion.segments[0].policy_spans) == 2 for group in groups for completion in group)
        group = await sample(engine, FRESH)
        assert_agrees({2: lives.models[2]}, FRESH, group)

    async def death(engine: VllmEngine) -> None:
        sampling = asyncio.create_task(sample(engine, LONG))
        await asyncio.sleep(0.5)
        [worker] = [pid for pid, name in descendants(os.getpid()).items() if "Worker_TP1" in name]
        os.kill(worker, signal.SIGKILL)
        for late in (asyncio.wait_for(sampling, 60), engine.load_weights([lives.files[3]], 3)):
            with pytest.raises(EngineDied):
                await late
        assert engine.version == 2

    async def second(engine: VllmEngine) -> None:
        with pytest.raises(RuntimeError, match="load_weights"):
            await sample(engine, FRESH)  # what a new process holds was never anybody's weights
        await engine.load_weights([lives.files[3]], 3)
        group = await sample(engine, FRESH)
        assert_agrees(lives.models, FRESH, group)
        assert group[0].segments[0].policy_spans == (
            Span(version=3, first=0, count=len(group[0].segments[0].token_ids)),
        )

    async def half_load(engine: VllmEngine) -> None:
        """Nothing is sampled from weights of which one is missing, not even by those who were under way."""
        weights = load_file(lives.files[1])
        del weights[f"{LAYER}.weight"]
        save_file(weights, tmp_path / "half.safetensors")
        sampling = asyncio.create_task(sample(engine, LONG))
        await asyncio.sleep(0.5)
        with pytest.raises(EngineDied, match=f"no weights of {LAYER} are in the file"):
            await lives.load_unchecked(engine, tmp_path / "half.safetensors", 4, removes=False)
        assert engine.version == 3
        for late in (sampling, sample(engine, FRESH)):
            with pytest.raises(EngineDied, match="failed half-way"):
                await late

    async def body() -> None:
        async with lives.engine() as engine:
            await first(engine)
            await death(engine)
        async with lives.engine() as engine:
            await second(engine)
            await half_load(engine)

    loop.run(body())
