"""Transport weights through the relay alone: every generator asks it, also one on the learner's machine.

In: a handle on the weights after a step. Out: the version on the learner's own disk, from which the relay reads. The
announced path is no folder on any machine. Runs in rank 0.
"""

from __future__ import annotations

from msgspec.structs import replace

from broker.messages import Announcement
from config.run import Run
from learner.weight_sync.relay import Relay
from learner.weight_sync.transport import Placed, WeightHandle
from learner.weight_sync.version_folder import folder_of, published, remove_old, write_version


class RelayTransport:
    """A `WeightTransport` through an exchange: Redis, or a folder."""

    def __init__(self, run: Run, relay: Relay) -> None:
        self._run = run
        self._relay = relay
        self._folder = published(run)

    def start(self) -> None:
        """Start looking for generators that ask."""
        self._relay.start()

    def put(self, weights: WeightHandle, version: int) -> Placed:
        """Write the version to the learner's own disk."""
        saved = write_version(self._folder, weights, version)
        path = f"redis:/{self._run.name}/{folder_of(self._folder, version).name}"
        return Placed(path=path, checksum=saved.checksum, size_bytes=saved.size_bytes)

    def announced(self, announcement: Announcement) -> None:
        """Offer the version to the generators that ask."""
        here = replace(announcement, path=str(folder_of(self._folder, announcement.version)))
        self._relay.offer(here)
        remove_old(self._folder, announcement.version)

    def close(self) -> None:
        """Empty the exchange and end."""
        self._relay.stop()
