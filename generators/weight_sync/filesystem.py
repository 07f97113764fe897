"""Receive weights from a folder that learner and generator share.

In: an announcement whose path is a version's folder. Out: the files in that folder, after checking their checksum. A
missing file has been replaced by a newer version. If this machine can't read the learner's folder at all, another
receiver provides the weights. Used by the follower, in a thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from broker.checksums import weights_checksum
from broker.errors import BadMessage
from broker.messages import Announcement
from broker.weight_files import weight_files
from generators.weight_sync.receiver import NotHere, Received, TooLarge, WeightReceiver

SHARED_S = 5.0  # for a file to appear in a visible folder: a network file system may be behind


class FilesystemReceiver:
    """A `WeightReceiver` that reads the learner's folder.

    Args:
        elsewhere: the receiver for a machine that can't read the folder; None: none.
    """

    def __init__(self, elsewhere: WeightReceiver | None = None) -> None:
        self._elsewhere = elsewhere
        self._from_elsewhere: Received | None = None
        self._is_apart = False  # weights have come from `elsewhere` before
        self._missing_since: float | None = None

    @property
    def is_slow(self) -> bool:
        """Return whether weights have come from elsewhere before."""
        return self._is_apart

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        """Check the files' checksum, for which they are read once, and return them."""
        newest = announced[0]
        folder = Path(newest.path)
        try:
            files = weight_files(folder)
            _check(files, newest)
        except (OSError, BadMessage) as error:
            if self._elsewhere is None or not self._is_elsewhere(folder):
                raise
            try:
                self._from_elsewhere = self._elsewhere.receive(announced, held=held)
            except NotHere as missing:
                raise NotHere(f"{error}; {missing}", is_arriving=missing.is_arriving) from error
            except TooLarge as missing:
                raise TooLarge(f"{error}; {missing}") from error
            return self._from_elsewhere
        self._missing_since = None
        return Received(version=newest.version, files=files)

    def loaded(self, received: Received) -> None:
        """Pass the call on where the weights came from elsewhere; the learner's folder needs none."""
        if self._elsewhere is not None and received is self._from_elsewhere:
            self._elsewhere.loaded(received)
            self._is_apart = True
        self._missing_since = None

    def close(self) -> None:
        """Close the other receiver."""
        if self._elsewhere is not None:
            self._elsewhere.close()

    def _is_elsewhere(self, folder: Path) -> bool:
        """Return whether this machine can't see the learner's folder; a replaced file leaves its folder behind."""
        now = time.monotonic()
        if self._missing_since is None:
            self._missing_since = now
        is_seen = folder.parent.is_dir()
        return self._is_apart or not is_seen or now - self._missing_since > SHARED_S


def _check(files: Sequence[Path], newest: Announcement) -> None:
    found = weights_checksum(files, like=newest.checksum)
    if found != newest.checksum:
        raise BadMessage(f"{files[0]}: checksum {found[:12]}, announced {newest.checksum[:12]}")
