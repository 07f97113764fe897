"""The calls of one process wait here until they may begin, first come, first served.

In: calls of an endpoint, tasks of its loop. Out: each call begins when `scorers.served_model.concurrency_limits` lets
it. However many calls wait, one exchange at a time asks for all of them together, and gives back calls that have ended.
A call that may not begin for `PATIENCE_S` raises `NoCallFree`, a `Retryable`. While Redis is away, calls wait for Redis
as long as every other part does.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from broker.errors import Retryable
from scorers.served_model.concurrency_limits import Ask, Grant

log = logging.getLogger(__name__)

Exchange = Callable[[Ask], Awaitable[Grant]]

BATCH: Final = 256  # calls that one exchange asks for at most
POLL_S: Final = 0.02  # until the next exchange, where other processes have all calls
AFTER_ERROR_S: Final = 0.5
PATIENCE_S = 300.0
SAY_EVERY_S = 10.0


class NoCallFree(Retryable):
    """None of this process' calls could begin for a long time; the message says what they waited for."""


class Admission:
    """The admission lets the calls of one endpoint and one loop begin, while its `run` is running."""

    def __init__(self, exchange: Exchange, whose: str) -> None:
        """Ask nothing yet.

        Args:
            exchange: gives back calls that have ended, and takes others.
            whose: names what the calls wait for, for messages.
        """
        self._exchange = exchange
        self._whose = whose
        self._who = secrets.token_hex(6)
        self._names = (f"{self._who}-{number}" for number in itertools.count())
        self._held: set[str] = set()  # under way
        self._waiting: dict[str, asyncio.Future[None]] = {}  # in the order that they came
        self._ended: list[str] = []
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        # Monotonic: since when no waiting call has begun, and when that was last logged.
        self._since = self._said = 0.0

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Wait until one call may begin; the call ends with the block.

        Raises:
            NoCallFree: nothing began for `PATIENCE_S`.
            BrokerUnavailable: or another error of the limits.
        """
        name = next(self._names)
        if not self._waiting:
            self._since = self._said = time.monotonic()
        future = self._waiting[name] = asyncio.get_running_loop().create_future()
        self._news.set()
        try:
            await future
            yield
        finally:  # also for a call that was given up while it waited: it may just have been let begin
            self._waiting.pop(name, None)
            self._held.discard(name)
            self._ended.append(name)
            self._news.set()

    async def run(self) -> None:
        """Let calls begin, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            if not self._waiting and not self._ended:
                continue
            try:
                grant = await self._ask()
            except Exception as error:  # noqa: BLE001 - the calls that wait have to end with any error
                self._refuse(error)
                self._look_again_in(AFTER_ERROR_S)
                continue
            if self._waiting:
                self._be_patient()
                self._look_again_in(0.0 if len(grant.begun) == BATCH else grant.wait_s or POLL_S)

    async def give_back(self) -> None:
        """Give back the calls that have ended, once nothing runs any more."""
        if self._ended:
            await self._ask()

    async def _ask(self) -> Grant:
        """Make one exchange with the limits, and let the calls begin that it allows."""
        ended, self._ended = self._ended, []
        try:
            wanted = list(itertools.islice(self._waiting, BATCH))
            grant = await self._exchange(Ask(self._who, len(self._held), ended, wanted))
        except BaseException:
            self._ended = ended + self._ended
            raise
        for name in grant.begun:
            if (future := self._waiting.pop(name, None)) is not None and not future.done():
                self._held.add(name)
                future.set_result(None)
        if grant.begun:
            self._since = self._said = time.monotonic()
        return grant

    def _refuse(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)

    def _be_patient(self) -> None:
        """Log that calls wait, and end their wait when it has lasted too long."""
        now = time.monotonic()
        if now - self._since > PATIENCE_S:
            self._refuse(
                NoCallFree(
                    f"{len(self._waiting)} calls waited {now - self._since:.0f} s for {self._whose}, "
                    "and none was free"
                )
            )
        elif now - self._said > SAY_EVERY_S:
            log.warning(
                "waiting %.0f s: %d calls, for %s", now - self._since, len(self._waiting), self._whose
            )
            self._said = now

    def _look_again_in(self, seconds: float) -> None:
        """Ask again after `seconds`, or as soon as there is news."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._news.set)
