"""Follow the announcements, and give the engine the newest weights as soon as it can take them.

In: the newest announcements (`broker.protocol.announcements`). Out: an engine whose `version` rises. A generator that
joins late loads only the newest weights. The receiver brings the weights to this machine
(`generators.weight_sync.receiver`). Unreadable weights are tried again, with a newer announcement if there is one;
after a long time without success the generator ends.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from broker.errors import BadMessage, RunFailed
from broker.messages import Announcement
from broker.protocol.announcements import Announcements
from generators.engine import NO_VERSION, Engine
from generators.weight_sync.receiver import NotHere, TooLarge, WeightReceiver

log = logging.getLogger(__name__)

BLOCK_S = 0.5  # for a new announcement; a Redis that went back is noticed after this time
ASK_S = 0.25  # between two attempts to receive weights that have not arrived
WARN_EVERY_S = 10.0
PATIENCE_S = 120.0  # for announced weights that can't be read
RELAY_PATIENCE_S = 600.0  # for weights through Redis: a newly started learner first reads its journal


class WeightFollower:
    """Follow the announced weights, as one task of a generator.

    Args:
        clock: seconds, monotonic.
    Attributes:
        waits_for: why the newest weights are not loaded yet, for people; "" for no obstacle.
    """

    def __init__(
        self,
        announcements: Announcements,
        engine: Engine,
        receiver: WeightReceiver,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._announcements = announcements
        self._engine = engine
        self._receiver = receiver
        self._clock = clock
        self.waits_for = ""
        self._failing_since: float | None = None
        self._warn_at = 0.0
        self._loaded = asyncio.Condition()

    async def follow(self) -> None:
        """Load each new version until cancelled.

        Raises:
            RunFailed: the newest weights could not be read for a long time.
        """
        while True:
            try:
                announced = await asyncio.to_thread(self._announced)
                if announced and announced[0].version > self._engine.version:
                    await self._load(announced)
                self._failing_since, self.waits_for = None, ""
            except (OSError, BadMessage, TooLarge, NotHere) as error:
                self._give_up_in_time(error)
                await asyncio.sleep(ASK_S)

    def _announced(self) -> list[Announcement]:
        """Wait for a new announcement, unless the last one is not loaded yet."""
        return self._announcements.wait(0.0 if self.waits_for else BLOCK_S)

    def _give_up_in_time(self, error: Exception) -> None:
        now = self._clock()
        if self._failing_since is None:
            self._failing_since = now
            self._warn_at = now + (WARN_EVERY_S if self._receiver.is_slow else 0.0)
        elif isinstance(error, NotHere) and error.is_arriving:
            self._failing_since = now  # large weights through a small exchange take their time
        if str(error) != self.waits_for and now >= self._warn_at:
            log.warning("weights_unreadable held=%d error=%s; trying again", self._engine.version, error)
            self._warn_at = now + WARN_EVERY_S
        self.waits_for = str(error)
        if now - self._failing_since > (RELAY_PATIENCE_S if isinstance(error, NotHere) else PATIENCE_S):
            raise RunFailed(
                f"the newest weights can't be read: {error}. The generator and the learner must share "
                "learner.weights.directory, or the weights must come through Redis"
            ) from error

    @property
    def state(self) -> str:
        """The state of a generator without the weights that groups need, for its heartbeat."""
        has_none = self._engine.version == NO_VERSION
        what = "waiting for the first weights" if has_none else "waiting for the newest weights"
        return f"{what}{f': {self.waits_for}' if self.waits_for else ''}"

    async def at_least(self, version: int) -> None:
        """Return when the engine holds `version` or a newer one."""
        async with self._loaded:
            await self._loaded.wait_for(lambda: self._engine.version >= version)

    async def _load(self, announced: Sequence[Announcement]) -> None:
        """Receive the newest weights, load them into the engine, and wake the groups waiting for their version."""
        started = time.monotonic()
        received = await asyncio.to_thread(self._receiver.receive, announced, held=self._engine.version)
        await self._engine.load_weights(received.files, received.version)
        await asyncio.to_thread(self._receiver.loaded, received)
        async with self._loaded:
            self._loaded.notify_all()
        log.debug(
            "followed version=%d size_mb=%.1f took_s=%.2f",
            received.version,
            announced[0].size_bytes / 1e6,
            time.monotonic() - started,
        )  # at INFO the engine reports the load
