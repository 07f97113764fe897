"""Nobody waits for ever for an engine that has died or hangs, and its keeper stays as long as it does."""

from __future__ import annotations

import asyncio
import threading

import pytest

from generators.engines.vllm import liveness
from generators.engines.vllm.liveness import EngineDied, Keeper, Lifeline
from tests.support.in_loop import in_loop

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]


class EngineGone(Exception):
    pass


async def never() -> None:
    await asyncio.Event().wait()


async def gone() -> None:
    raise EngineGone("exit code 9")


async def answer() -> int:
    return 42


@in_loop
async def test_what_comes_in_time_is_handed_on() -> None:
    line = Lifeline(EngineGone)
    assert await line.get(answer(), what="an answer", limit_s=5) == 42
    assert not line.is_cut


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
async def test_the_librarys_own_word_for_death_cuts_the_line() -> None:
    line = Lifeline(EngineGone)
    with pytest.raises(EngineDied, match="loading failed: exit code 9"):
        await line.get(gone(), what="loading")
    assert line.is_cut


@in_loop
async def test_any_other_error_is_the_callers_own() -> None:
    async def refused() -> None:
        raise ValueError("too long")

    line = Lifeline(EngineGone)
    with pytest.raises(ValueError, match="too long"):
        await line.get(refused(), what="sampling")
    assert not line.is_cut


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


def test_the_keeper_stays_until_the_engine_is_shut_down() -> None:
    shut_down = threading.Event()
    keeper = Keeper(lambda: "engine", lambda engine: shut_down.set() if engine == "engine" else None)
    keeper.start()
    assert keeper.engine.result(timeout=5) == "engine"
    assert keeper.is_alive()
    assert not shut_down.is_set()
    keeper.end()
    assert shut_down.is_set()
    assert not keeper.is_alive()


def test_nobody_waits_for_a_hanging_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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


def test_a_launch_that_fails_is_heard_of() -> None:
    def launch() -> str:
        raise RuntimeError("no memory")

    keeper = Keeper(launch, lambda _: None)
    keeper.start()
    with pytest.raises(RuntimeError, match="no memory"):
        keeper.engine.result(timeout=5)
