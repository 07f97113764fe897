"""Make a folder for temporary files of one process; if it is killed, the next process removes the folder.

In: a prefix. Out: a folder, among the system's temporary files or elsewhere, with a lock held for as long as the
process lives.
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
    """A temporary folder of this process. Making one removes the folders of the same prefix whose processes died.

    Args:
        prefix: of the folder's name.
        parent: the folder to make it in; unset: the system's temporary folder.
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        sweep(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        aside = self.path / f"{LOCK}.new"
        self._lock: BinaryIO = aside.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        aside.rename(self.path / LOCK)  # locked before another process can see it

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def sweep(parent: Path, prefix: str) -> None:
    """Remove the folders with this prefix whose process no longer holds the lock."""
    for lock in parent.glob(f"{prefix}*/{LOCK}"):
        with contextlib.suppress(OSError), lock.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent)
