"""What a worker does with a file of weights, by vLLM's own count, and that nobody waits for ever for an engine that has died or hangs."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from generators.engines.vllm import liveness
from generators.engines.vllm.environment import START_METHOD, THREADS
from generators.engines.vllm.liveness import EngineDied, Keeper, Lifeline
from tests.support.in_loop import in_loop

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]

EMBEDDING, NORM = torch.full((4, 2), 1.0), torch.full((2,), 2.0)
FILE = {"embed.weight": EMBEDDING, "norm.weight": NORM}


class Head(nn.Module):
    """An output layer with a weight of its own, as a packed one has even where it is tied."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 2))
        self.quant_method = SimpleNamespace(process_weights_after_loading=lambda _module: None)


class SmallModel(nn.Module):
    """A model of vLLM's kind: each parameter is filled by its loader."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(4, 2)
        self.norm = nn.LayerNorm(2, bias=False)
        self.lm_head = Head()

    def load_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        parameters: dict[str, Any] = dict(self.named_parameters())
        for name, tensor in weights:
            parameters[name].weight_loader(parameters[name], tensor)


def receive(weights: dict[str, Tensor], folder: Path, *, is_tied: bool, load_format: str) -> SmallModel:
    """Have a worker load a file. vLLM is imported here: whoever only collects this test need not wait for it."""
    from vllm.model_executor.model_loader.reload.layerwise import record_metadata_for_reloading

    from generators.engines.vllm.worker import FileEngine, FileUpdate

    file = folder / "model.safetensors"
    save_file(weights, file)
    model = SmallModel()
    record_metadata_for_reloading(model)
    config = SimpleNamespace(tie_word_embeddings=is_tied)
    config.get_text_config = lambda: config
    engine: Any = object.__new__(FileEngine)
    engine.model = model
    engine.model_config = SimpleNamespace(hf_config=config, dtype=torch.float32)
    engine.vllm_config = SimpleNamespace(load_config=SimpleNamespace(load_format=load_format))
    engine.receive_weights(FileUpdate(paths=[str(file)]))
    return model


@pytest.mark.parametrize(
    ("weights", "is_tied", "load_format", "left_out"),
    [
        (FILE, True, "dummy", ""),
        ({"norm.weight": NORM}, True, "dummy", "embed"),
        ({"embed.weight": EMBEDDING}, True, "safetensors", ""),  # the norm is the model's own
        (FILE, False, "dummy", "lm_head"),  # and with it random logits
        (FILE | {"lm_head.weight": torch.zeros(4, 2)}, False, "dummy", ""),
    ],
)
def test_a_layer_that_the_file_has_nothing_for_is_named(
    *,
    weights: dict[str, Tensor],
    is_tied: bool,
    load_format: str,
    left_out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("generators.engines.vllm.worker.ParallelLMHead", Head)
    said = f"no weights of {left_out} are in the file"
    with pytest.raises(RuntimeError, match=said) if left_out else nullcontext():
        model = receive(weights, tmp_path, is_tied=is_tied, load_format=load_format)
        assert torch.equal(model.embed.weight, EMBEDDING)


def test_tied_and_computed_tensors_are_no_warning_at_each_update(tmp_path: Path) -> None:
    from generators.engines.vllm.worker import RELOAD_LOG

    RELOAD_LOG.setLevel(logging.NOTSET)  # as vLLM's engine core leaves it, after it has imported the module
    receive(FILE | {"lm_head.weight": torch.zeros(4, 2)}, tmp_path, is_tied=False, load_format="dummy")
    assert not RELOAD_LOG.isEnabledFor(logging.WARNING)


@pytest.mark.parametrize(
    ("on_cpu", "workers", "threads", "start"),
    [(True, 1, "1", "fork"), (False, 1, "1", "spawn"), (True, 2, "1", "spawn"), (True, 1, "2", "spawn")],
)
def test_an_engine_core_is_forked_where_no_gpu_and_no_pool_of_threads_would_have_to_survive(
    *, on_cpu: bool, workers: int, threads: str, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from generators.engines.vllm import worker

    monkeypatch.setenv(THREADS, threads)
    monkeypatch.setenv(START_METHOD, "spawn")
    monkeypatch.setattr(worker, "current_platform", SimpleNamespace(is_cpu=lambda: on_cpu))
    with worker.forked_if_safe(worker.CoreProcessExecutor if workers == 1 else worker.WorkerProcessExecutor):
        assert os.environ[START_METHOD] == start
    assert os.environ[START_METHOD] == "spawn"


class EngineGone(Exception):
    pass


async def never() -> None:
    await asyncio.Event().wait()


async def gone() -> None:
    raise EngineGone("exit code 9")


async def answer() -> int:
    return 42


@in_loop
async def test_what_comes_in_time_is_handed_on_and_the_librarys_death_cuts_the_line() -> None:
    async def refused() -> None:
        raise ValueError("too long")

    line = Lifeline(EngineGone)
    assert await line.get(answer(), what="an answer", limit_s=5) == 42
    with pytest.raises(ValueError, match="too long"):
        await line.get(refused(), what="sampling")
    assert not line.is_cut
    line = Lifeline(EngineGone)
    with pytest.raises(EngineDied, match="loading failed: exit code 9"):
        await line.get(gone(), what="loading")
    assert line.is_cut


@in_loop
async def test_a_limit_that_passes_cuts_the_line_for_everybody() -> None:
    line = Lifeline(EngineGone)
    other = asyncio.create_task(line.get(never(), what="sampling"))
    with pytest.raises(EngineDied, match=r"a ping took more than 0\.05 s"):
        await line.get(never(), what="a ping", limit_s=0.05)
    with pytest.raises(EngineDied, match="a ping took"):
        await asyncio.wait_for(other, 5)
    with pytest.raises(EngineDied, match="a ping took"):  # and for those who come later
        await asyncio.wait_for(line.get(never(), what="sampling"), 5)


@in_loop
async def test_who_stops_waiting_stops_the_work() -> None:
    line, stopped = Lifeline(EngineGone), asyncio.Event()

    async def work() -> None:
        try:
            await never()
        finally:
            stopped.set()

    waiting = asyncio.create_task(line.get(work(), what="sampling"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait_for(stopped.wait(), 5)


def test_the_keeper_stays_until_the_engine_is_shut_down_and_a_launch_that_fails_is_heard_of() -> None:
    shut_down = threading.Event()
    keeper = Keeper(lambda: "engine", lambda engine: shut_down.set() if engine == "engine" else None)
    keeper.start()
    assert keeper.engine.result(timeout=5) == "engine"
    assert (keeper.is_alive(), shut_down.is_set()) == (True, False)
    keeper.end()
    assert (keeper.is_alive(), shut_down.is_set()) == (False, True)

    def launch() -> str:
        raise RuntimeError("no memory")

    keeper = Keeper(launch, lambda _: None)
    keeper.start()
    with pytest.raises(RuntimeError, match="no memory"):
        keeper.engine.result(timeout=5)


def test_nobody_waits_for_a_hang(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(liveness, "END_S", 0.05)
    released = threading.Event()

    def hang(_engine: str) -> None:
        released.wait(5)

    keeper = Keeper(lambda: "engine", hang)
    keeper.start()
    keeper.engine.result(timeout=5)
    keeper.end()
    assert keeper.is_alive()
    assert keeper.daemon  # the interpreter does not wait for it either
    assert "engine_hangs" in caplog.text
    released.set()
    keeper.join(5)
