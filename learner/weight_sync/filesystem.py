"""Publish new weights through the filesystem: written aside, renamed, announced with a checksum.

In: the policy after a step. Out: `weights/v000007/model.safetensors` and an entry of the stream `weights`. Runs in rank
0 (the other ranks gather). A crash in between leaves a folder that nobody was told of, which the next publish replaces.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from broker.checksums import file_checksum
from broker.messages import Announcement
from broker.protocol.run_owner import RunOwner
from config.run import Run

log = logging.getLogger(__name__)

FILE = "model.safetensors"  # of a version, in its folder
KEEP = 2  # versions on disk: the newest, and the one that a generator may be reading


class SavesWeights(Protocol):
    """What the publisher needs of the policy."""

    def save_weights(self, file: Path) -> None:
        """Write the weights to `file`."""
        ...


def published(run: Run) -> Path:
    """Folder of the versions: the run's own, or one in a folder that may be every run's (/dev/shm, say)."""
    elsewhere = run.learner.weights.directory
    return (elsewhere / run.name if elsewhere else run.folder / "weights").absolute()


class Publisher:
    """Writes and announces versions; removes those that nobody can need.

    Attributes:
        offer: is told of each version that was announced. It must not wait.
    """

    def __init__(self, run: Run, ownership: RunOwner) -> None:
        self._ownership = ownership
        self.offer: Callable[[Announcement], None] = lambda _: None
        self.folder = published(run)
        self.checksum = ""  # of the version published last
        self._last: Announcement | None = None

    def publish(self, policy: SavesWeights, version: int) -> None:
        """Make `version` the weights that every new token is sampled with, as soon as generators have read them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = self.folder / f"v{version:06d}.tmp"
        final = self.folder / f"v{version:06d}"
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(final, ignore_errors=True)
        aside.mkdir()
        file = aside / FILE
        policy.save_weights(file)
        self.checksum = file_checksum(file)
        size = file.stat().st_size
        aside.rename(final)
        self._last = Announcement(
            version=version,
            path=str(final),
            checksum=self.checksum,
            size_bytes=size,
            announced_at=time.time(),
        )
        self._announce(self._last)
        self._remove_old(version)

    def publish_again(self, policy: SavesWeights, version: int) -> None:
        """Announce `version` once more, for a Redis that may have forgotten it; written only if it is not there yet."""
        if self._last is None or self._last.version != version:
            self.publish(policy, version)
        else:
            self._announce(self._last)

    def _announce(self, announcement: Announcement) -> None:
        self._ownership.announce(announcement)
        self.offer(announcement)

    def _remove_old(self, version: int) -> None:
        """A generator reads the newest announcement only, and begins again with a newer one if its file is gone."""
        for folder in self.folder.glob("v*"):
            number = folder.name.removeprefix("v").removesuffix(".tmp")
            if number.isdigit() and int(number) <= version - KEEP:
                shutil.rmtree(folder, ignore_errors=True)
