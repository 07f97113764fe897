"""The transport through the filesystem: a folder that learner and generators share.

In: a handle on the weights after a step. Out: a version's folder, whose path is announced. Beside it the relay serves
generators that do not see the folder. Runs in rank 0 (the other ranks gather). A crash in between leaves a folder that
no generator was told of, which the next version of that number replaces.
"""

from __future__ import annotations

from broker.messages import Announcement
from config.run import Run
from learner.weight_sync.relay import Relay
from learner.weight_sync.transport import Placed, WeightHandle
from learner.weight_sync.version_folder import folder_of, published, remove_old, write_version


class FilesystemTransport:
    """A `WeightTransport` whose versions are folders.

    Args:
        relay: serves generators that do not see the folder; None: nothing does.
    """

    def __init__(self, run: Run, relay: Relay | None = None) -> None:
        self.folder = published(run)
        self._relay = relay

    def start(self) -> None:
        """Begin to look for generators that ask for weights."""
        if self._relay is not None:
            self._relay.start()

    def put(self, weights: WeightHandle, version: int) -> Placed:
        """Write the version's folder."""
        saved = write_version(self.folder, weights, version)
        path = str(folder_of(self.folder, version))
        return Placed(path=path, checksum=saved.checksum, size_bytes=saved.size_bytes)

    def announced(self, announcement: Announcement) -> None:
        """Offer the version to those who ask, and remove the folders that no generator can need."""
        if self._relay is not None:
            self._relay.offer(announcement)
        remove_old(self.folder, announcement.version)

    def close(self) -> None:
        """End what gives weights out."""
        if self._relay is not None:
            self._relay.stop()
