"""New weights that come to an engine while it samples, at even intervals.

In: an engine and files of its weights. Out: how long each update took. Used by the benchmarks of vLLM and by
`make prove-gpu`, to compare rounds with updates with rounds without. An update that fails is raised.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from generators.engine import Engine


@contextlib.asynccontextmanager
async def updating(engine: Engine, files: Sequence[Path], every_s: float) -> AsyncIterator[list[float]]:
    """Give an engine a version every `every_s` seconds, first after half of that; yields the seconds of each so far.

    The files take turns. The last update comes to its end behind the block, and none is left to the next round.
    """
    is_over, took = asyncio.Event(), list[float]()

    async def update() -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + every_s / 2
        while not await _comes(is_over, due - loop.time()):
            began = loop.time()
            version = engine.version + 1
            await engine.load_weights([files[version % len(files)]], version)
            took.append(loop.time() - began)
            due += every_s

    task = asyncio.create_task(update())
    try:
        yield took
    finally:
        is_over.set()
        await task


async def _comes(event: asyncio.Event, within_s: float) -> bool:
    """Wait for an event, and return whether it came."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), within_s)
    return event.is_set()
