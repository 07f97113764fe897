"""The publisher: each new version is put where generators find it, and then announced with its checksum.

In: a handle on the weights after a step. Out: an entry of the stream `weights`. Runs in rank 0. A crash in between
leaves a version that no generator was told of; the next incarnation of the learner puts it there again.
"""

from __future__ import annotations

import time

from broker.messages import Announcement
from broker.protocol.run_owner import RunOwner
from learner.weight_sync.transport import WeightHandle, WeightTransport


class Publisher:
    """Puts versions by a transport, and announces them.

    Attributes:
        checksum: of the version that was published last; "" before the first.
    """

    def __init__(self, run_owner: RunOwner, transport: WeightTransport) -> None:
        self._run_owner = run_owner
        self._transport = transport
        self._last: Announcement | None = None
        self.checksum = ""

    def publish(self, weights: WeightHandle, version: int) -> None:
        """Make `version` the weights that every new token is sampled with, as soon as generators have loaded them."""
        placed = self._transport.put(weights, version)
        self.checksum = placed.checksum
        self._last = Announcement(
            version=version,
            path=placed.path,
            checksum=placed.checksum,
            size_bytes=placed.size_bytes,
            announced_at=time.time(),
        )
        self._announce(self._last)

    def publish_again(self, weights: WeightHandle, version: int) -> None:
        """Announce `version` once more, for a Redis that may have forgotten it; put only if it is not there yet."""
        if self._last is None or self._last.version != version:
            self.publish(weights, version)
        else:
            self._announce(self._last)

    def _announce(self, announcement: Announcement) -> None:
        self._run_owner.announce(announcement)
        self._transport.announced(announcement)
