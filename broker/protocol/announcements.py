"""Read the stream `weights` for generators: the newest announcements, and a wait for the next.

In: entries that the learner adds (`broker.protocol.run_owner`). Out: announcements, the newest first. A generator's
follower waits here, in a thread. Each call reads the end of the stream and trusts no position: a
restored Redis may have gone back. An undecodable entry is reported once and skipped.
"""

from __future__ import annotations

import logging
from typing import Any

from broker.codec import decode_announcement
from broker.connection import RedisLink
from broker.errors import BadMessage
from broker.keys import Keys
from broker.messages import Announcement

log = logging.getLogger(__name__)

NEWEST = 16  # entries read at the end of the stream
BEFORE_ALL = b"0-0"


class Announcements:
    """Read the stream for one generator. Not thread-safe: one call at a time."""

    def __init__(self, link: RedisLink, keys: Keys) -> None:
        self._link = link
        self._key = keys.weights
        self._last_id = BEFORE_ALL  # of the stream's last entry at the last read
        self._newest: list[Announcement] = []
        self._reported = b""  # id of the undecodable entry that was logged

    def wait(self, block_s: float) -> list[Announcement]:
        """Wait for an entry newer than the last call's, and read the end of the stream.

        Args:
            block_s: longest wait, seconds; 0: no wait. Shorter than the connection's socket timeout.
        Returns:
            The decodable announcements among the last entries, the newest first; empty where there are none (yet).
        """
        if block_s > 0:
            block_ms = max(1, int(block_s * 1000))
            self._link(lambda client: client.xread({self._key: self._last_id}, count=1, block=block_ms))
        last_id = self._id_of_last()
        if last_id != self._last_id:
            self._read()
        return self._newest

    def _id_of_last(self) -> bytes:
        last: Any = self._link(lambda client: client.xrevrange(self._key, count=1))
        return bytes(last[0][0]) if last else BEFORE_ALL

    def _read(self) -> None:
        entries: Any = self._link(lambda client: client.xrevrange(self._key, count=NEWEST))
        announced: list[Announcement] = []
        junk = None
        for entry_id, fields in entries:
            try:
                announced.append(decode_announcement(fields))
            except BadMessage as error:
                if not announced:
                    junk = junk or (entry_id, error)
        if junk is not None and junk[0] != self._reported:
            self._reported = junk[0]
            log.warning("weights_junk entry=%s error=%s; passed over", junk[0].decode(), junk[1])
        self._newest = announced
        self._last_id = bytes(entries[0][0]) if entries else BEFORE_ALL
