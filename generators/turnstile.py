"""The turnstile decides which groups are sampled side by side, and which group is sampled alone.

In: groups that are about to be sampled, in order. Out: their turn. An engine that dies takes all its groups with it.
A group that was under way in nearly as many deaths as it may be is suspected, and has its last attempt alone: then only
the guilty group uses its attempts up. Belongs to one generator's event loop.
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
        """Let no group in any more: the engine has failed, and this generator will end and cancel its groups."""
        self._is_shut = True

    @asynccontextmanager
    async def enter(self, *, alone: bool) -> AsyncIterator[None]:
        """Wait for the group's turn, which lasts until the end of the block.

        Args:
            alone: wait until no group is inside, and keep all others out meanwhile.
        """
        async with self._gate:
            if alone:
                await self._empty.wait()
            if self._is_shut:
                await asyncio.get_running_loop().create_future()  # until it is cancelled
            if alone:
                yield  # with the gate held, so that no other group comes in
                return
            self._inside += 1
            self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()
