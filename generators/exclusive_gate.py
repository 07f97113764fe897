"""Decide which groups are sampled concurrently, and which group is sampled alone.

In: groups about to be sampled, in order. Out: their turn. An engine that dies takes all its groups with it. A group
that was in progress in nearly as many deaths as allowed is suspected, and gets its last attempt alone: so only the
group at fault uses up its attempts. Belongs to one generator's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ExclusiveGate:
    """Admit groups concurrently, or one alone; first come, first served."""

    def __init__(self) -> None:
        self._gate = asyncio.Lock()
        self._empty = asyncio.Event()
        self._empty.set()
        self._inside = 0
        self._is_shut = False

    def shut(self) -> None:
        """Admit no more groups: the engine has failed, and this generator will end and cancel its groups."""
        self._is_shut = True

    @asynccontextmanager
    async def enter(self, *, alone: bool) -> AsyncIterator[None]:
        """Wait for the group's turn, which lasts until the end of the block.

        Args:
            alone: wait until no group is inside, and exclude all others meanwhile.
        """
        async with self._gate:
            if alone:
                await self._empty.wait()
            if self._is_shut:
                await asyncio.get_running_loop().create_future()  # until it is cancelled
            if alone:
                yield  # with the gate locked, so that no other group enters
                return
            self._inside += 1
            self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()
