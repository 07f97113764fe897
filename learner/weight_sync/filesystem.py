"""Transport weights in a folder that learner and generators share.

In: a handle on the weights after a step. Out: a version's folder, whose path is announced. The relay serves generators
that can't read the folder. Runs in rank 0 (the other ranks gather). A crash in between leaves an unannounced folder,
which the next version of that number replaces.
"""

from __future__ import annotations

from broker.messages import Announcement
from config.run import Run
from learner.weight_sync.relay import Relay
from learner.weight_sync.transport import Placed, WeightHandle
from learner.weight_sync.version_folder import folder_of, published, remove_old, write_version


class FilesystemTransport:
    """A `WeightTransport` that stores versions as folders.

    Args:
        relay: serves generators that can't read the folder; None: no relay.
    """

    def __init__(self, run: Run, relay: Relay | None = None) -> None:
        self.folder = published(run)
        self._relay = relay

    def start(self) -> None:
        """Start looking for generators that request weights."""
        if self._relay is not None:
            self._relay.start()

    def put(self, weights: WeightHandle, version: int) -> Placed:
        """Write the version's folder."""
        saved = write_version(self.folder, weights, version)
        path = str(folder_of(self.folder, version))
        return Placed(path=path, checksum=saved.checksum, size_bytes=saved.size_bytes)

    def announced(self, announcement: Announcement) -> None:
        """Offer the version to the relay's generators, and remove the folders that no generator can need."""
        if self._relay is not None:
            self._relay.offer(announcement)
        remove_old(self.folder, announcement.version)

    def close(self) -> None:
        """Stop the relay."""
        if self._relay is not None:
            self._relay.stop()
