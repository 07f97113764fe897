"""An application of aiohttp's on a port of its own, in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web


@contextmanager
def served_app(app: web.Application, port: int = 0) -> Iterator[int]:
    """Serve, on any port without one. Yields the port."""
    loop, runner = asyncio.new_event_loop(), web.AppRunner(app, shutdown_timeout=0.1)

    async def start() -> int:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return int(runner.addresses[0][1])

    found = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield found
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
