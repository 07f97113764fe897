"""Who is sampled beside whom.

In: groups that are about to be sampled, in order. Out: their turn. Groups are sampled side by side, and what kills the
engine kills them all. So one that is suspected, for it was under way in nearly as many deaths as it may be, has its
last attempt alone: then only the guilty group uses its attempts up. Belongs to one generator's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turnstile:
    """Lets groups in side by side, or one alone; first come, first served."""

    def __init__(self) -> None:
        self._gate = asyncio.Lock()
        self._empty = asyncio.Event()
        self._empty.set()
        self._inside = 0
        self._is_shut = False

    def shut(self) -> None:
        """Let nobody in any more: the engine has failed, and this generator is about to end and to cancel who waits."""
        self._is_shut = True

    @asynccontextmanager
    async def enter(self, *, alone: bool) -> AsyncIterator[None]:
        """Wait for one's turn, and have it until the end of the block."""
        async with self._gate:
            if alone:
                await self._empty.wait()
            if self._is_shut:
                await asyncio.get_running_loop().create_future()  # until it is cancelled
            if alone:
                yield  # with the gate shut behind it
                return
            self._inside += 1
            self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()
