"""Follow the announcements: give the engine the newest weights, as soon as it can take them.

In: the newest announcement in the stream `weights` (read from the end, never from a remembered id: Redis may go back).
Out: an engine whose `version` rises. A generator that joins late loads the newest and nothing else. A file that is gone
by the time it is read has been replaced by a newer version, so the announcement is read again. An entry that is no
announcement is said once and passed over for the one before it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

from broker.checksums import file_checksum
from broker.codec import decode_announcement
from broker.connection import Link
from broker.errors import BadMessage, RunFailed
from broker.keys import Keys
from broker.messages import Announcement
from generators.engine import Engine

log = logging.getLogger(__name__)

POLL_S = 0.05
NEWEST = 16                  # entries at the end of the stream that are looked through for an announcement
PATIENCE_S = 120.0           # for a file that is announced and can't be read: another machine's folder, most likely


class WeightFollower:
    """One task of a generator."""

    def __init__(self, link: Link, keys: Keys, engine: Engine) -> None:
        self._link = link
        self._key = keys("weights")
        self._engine = engine
        self._loaded = asyncio.Condition()
        self._last_junk = b""       # id of the entry that was complained of

    async def follow(self) -> None:
        """Load each new version until cancelled.

        Raises:
            RunFailed: the newest weights could not be read for a long time.
        """
        failing_since: float | None = None
        while True:
            try:
                newest = await asyncio.to_thread(self._newest)
                if newest is not None and newest.version > self._engine.version:
                    await self._load(newest)
                failing_since = None
            except (FileNotFoundError, BadMessage) as error:
                if failing_since is None:
                    failing_since = time.monotonic()
                    log.warning("weights_unreadable held=%d error=%s; trying again", self._engine.version, error)
                if time.monotonic() - failing_since > PATIENCE_S:
                    raise RunFailed(f"the newest weights can't be read: {error}. The generator and the learner must "
                                    "share learner.weights.directory") from error
            await asyncio.sleep(POLL_S)

    async def at_least(self, version: int) -> None:
        """Return when the engine holds `version` or a newer one."""
        async with self._loaded:
            await self._loaded.wait_for(lambda: self._engine.version >= version)

    async def _load(self, newest: Announcement) -> None:
        file = Path(newest.path) / "model.safetensors"
        started = time.monotonic()
        found = await asyncio.to_thread(file_checksum, file)
        if found != newest.checksum:
            raise BadMessage(f"{file}: sha256 {found[:12]}, announced {newest.checksum[:12]}")
        await self._engine.load_weights(file, newest.version)
        async with self._loaded:
            self._loaded.notify_all()
        log.debug("followed version=%d size_mb=%.1f took_s=%.2f", newest.version, newest.size_bytes / 1e6,
                  time.monotonic() - started)       # at INFO the engine says what it loaded

    def _newest(self) -> Announcement | None:
        """The newest entry that can be read as an announcement; None where there is none (yet)."""
        entries: Any = self._link(lambda client: client.xrevrange(self._key, count=NEWEST))
        announcement, junk = None, None
        for entry_id, fields in entries:
            try:
                announcement = decode_announcement(fields)
                break
            except BadMessage as error:
                junk = junk or (entry_id, error)
        if junk is not None and junk[0] != self._last_junk:
            self._last_junk = junk[0]
            log.warning("weights_junk entry=%s error=%s; passed over", junk[0].decode(), junk[1])
        return announcement
