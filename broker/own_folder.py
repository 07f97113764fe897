"""A folder for temporary files belongs to one process, and the next process removes it if this one is killed.

In: a prefix. Out: a folder, beside the system's other temporary files or elsewhere, with a lock that lives as long as
the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

LOCK = "lock"  # a file in the folder, locked while its process lives


class OwnFolder:
    """A folder of this process. Making it removes the folders of the same prefix whose processes were killed.

    Args:
        prefix: of the folder's name.
        parent: where it lies; unset: among the system's temporary files.
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        sweep(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        aside = self.path / f"{LOCK}.new"
        self._lock: BinaryIO = aside.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        aside.rename(self.path / LOCK)  # locked before anybody can find it

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def sweep(parent: Path, prefix: str) -> None:
    """Remove the folders of a prefix whose process no longer holds the lock."""
    for lock in parent.glob(f"{prefix}*/{LOCK}"):
        with contextlib.suppress(OSError), lock.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent)
