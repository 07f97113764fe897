"""Follow the announcements: give the engine the newest weights, as soon as it can take them.

In: the newest announcement in the stream `weights` (read from the end, never from a remembered id: Redis may go back).
Out: an engine whose `version` rises. A generator that joins late loads the newest and nothing else. A file that is gone
by the time it is read has been replaced by a newer version, so the announcement is read again. Where the whole folder
is not to be seen, on another machine, the weights are asked for through Redis (`generators.weight_sync.redis_fetch`).
An entry that is no announcement is said once and passed over for the one before it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from broker.checksums import file_checksum
from broker.codec import decode_announcement
from broker.connection import RedisLink
from broker.errors import BadMessage, RunFailed
from broker.keys import Keys
from broker.messages import Announcement
from generators.engine import Engine
from generators.weight_sync.redis_fetch import NotHere, RelayedWeights, TooLarge

log = logging.getLogger(__name__)

POLL_S = 0.05
NEWEST = 16  # entries at the end of the stream that are looked through for an announcement
ASK_S = 0.25  # between two questions for what is to come through Redis
SHARED_S = 5.0  # for a file to be seen in a folder that is: a network's may be behind
SAY_EVERY_S = 10.0
PATIENCE_S = 120.0  # for a file that is announced and can't be read
RELAY_PATIENCE_S = (
    600.0  # where it may come through Redis: a learner that has just started reads its journal first
)


class WeightFollower:
    """One task of a generator.

    Args:
        relayed: what comes through Redis; None: nothing does.
    Attributes:
        waits_for: why the newest weights are not loaded yet, for people; "" where nothing is in the way.
    """

    def __init__(
        self, link: RedisLink, keys: Keys, engine: Engine, relayed: RelayedWeights | None = None
    ) -> None:
        self._link = link
        self._key = keys("weights")
        self._engine = engine
        self._relayed = relayed
        self.waits_for = ""
        self._failing_since: float | None = None
        self._say_at = 0.0
        self._has_been_given = False  # weights through Redis
        self._loaded = asyncio.Condition()
        self._last_junk = b""  # id of the entry that was complained of

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
            await asyncio.sleep(ASK_S if self.waits_for else POLL_S)

    def _give_up_in_time(self, error: Exception) -> None:
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            self._say_at = now + (
                SAY_EVERY_S if self._has_been_given else 0.0
            )  # each version is waited for then
        if str(error) != self.waits_for and now >= self._say_at:
            log.warning("weights_unreadable held=%d error=%s; trying again", self._engine.version, error)
            self._say_at = now + SAY_EVERY_S
        self.waits_for = str(error)
        if now - self._failing_since > (RELAY_PATIENCE_S if isinstance(error, NotHere) else PATIENCE_S):
            raise RunFailed(
                f"the newest weights can't be read: {error}. The generator and the learner must share "
                "learner.weights.directory, or the weights must fit through Redis"
            ) from error

    @property
    def state(self) -> str:
        """What a generator without weights says of itself."""
        return f"waiting for the first weights{f': {self.waits_for}' if self.waits_for else ''}"

    async def at_least(self, version: int) -> None:
        """Return when the engine holds `version` or a newer one."""
        async with self._loaded:
            await self._loaded.wait_for(lambda: self._engine.version >= version)

    async def _load(self, announced: Sequence[Announcement]) -> None:
        """The newest, or what comes through Redis in its place."""
        newest, started = announced[0], time.monotonic()
        version, file = newest.version, Path(newest.path) / "model.safetensors"
        try:
            await asyncio.to_thread(_check, file, newest)
            await self._engine.load_weights(file, version)
        except (OSError, BadMessage) as error:
            if self._relayed is None or not self._is_elsewhere(file):
                raise
            version, file = await asyncio.to_thread(self._fetch, self._relayed, announced, error)
            await self._engine.load_weights(file, version)
            await asyncio.to_thread(self._relayed.loaded, version, file)
            self._has_been_given = True
        async with self._loaded:
            self._loaded.notify_all()
        log.debug(
            "followed version=%d size_mb=%.1f took_s=%.2f",
            version,
            newest.size_bytes / 1e6,
            time.monotonic() - started,
        )  # at INFO the engine says what it loaded

    def _is_elsewhere(self, file: Path) -> bool:
        """Whether this machine does not see the learner's folder; a file alone may be gone since a newer one is out."""
        is_seen = file.parent.parent.is_dir()
        now = time.monotonic()
        return self._has_been_given or not is_seen or now - (self._failing_since or now) > SHARED_S

    def _fetch(
        self, relayed: RelayedWeights, announced: Sequence[Announcement], error: Exception
    ) -> tuple[int, Path]:
        try:
            return relayed.fetch(
                announced[0],
                {one.version: one.checksum for one in reversed(announced)},
                held=self._engine.version,
            )
        except (NotHere, TooLarge) as missing:
            raise type(missing)(f"{error}; {missing}") from error

    def _announced(self) -> list[Announcement]:
        """The last entries that can be read as announcements, the newest first; empty where there are none (yet)."""
        entries: Any = self._link(lambda client: client.xrevrange(self._key, count=NEWEST))
        announced: list[Announcement] = []
        junk = None
        for entry_id, fields in entries:
            try:
                announced.append(decode_announcement(fields))
            except BadMessage as error:
                if not announced:
                    junk = junk or (entry_id, error)
        if junk is not None and junk[0] != self._last_junk:
            self._last_junk = junk[0]
            log.warning("weights_junk entry=%s error=%s; passed over", junk[0].decode(), junk[1])
        return announced


def _check(file: Path, newest: Announcement) -> None:
    found = file_checksum(file)
    if found != newest.checksum:
        raise BadMessage(f"{file}: sha256 {found[:12]}, announced {newest.checksum[:12]}")
