"""Write durably: bytes and names are on disk when a function returns, so that a power cut loses nothing."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path
from typing import BinaryIO, Final

ROOM: Final = 8192  # minimum size of a file that must be rewritable in place on a full disk
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})  # the errors of a full disk or quota


def write_all(stream: BinaryIO, data: bytes | memoryview) -> None:
    """Write all of `data` to an unbuffered file, which may take it in parts when the disk is nearly full."""
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]


def sync(path: Path) -> None:
    """Sync a file's bytes, or a folder's names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder, and sync its name and the names of the folders above it.

    The parents may be as new: the lock or the logs have just made the run's own folder. The walk stops at another file
    system, and at a folder that this user may not list: nothing of a run is made above those.
    """
    if path.is_dir():
        return
    path.mkdir(parents=True, exist_ok=True)
    device = path.stat().st_dev
    for parent in path.resolve().parents:
        if parent.stat().st_dev != device or not os.access(parent, os.R_OK):
            return
        sync(parent)


def replace_text(path: Path, text: str) -> None:
    """Replace a small file's text on disk; a reader sees the old text or the new one, complete."""
    aside = path.with_name(
        f".{path.name}.{secrets.token_hex(4)}"
    )  # a learner elsewhere may have the same pid
    aside.write_text(text, encoding="utf-8")
    sync(aside)
    aside.replace(path)
    sync(path.parent)


def is_full(error: OSError) -> bool:
    """Return whether the error is a lack of space."""
    return error.errno in FULL


def replace_in_place(path: Path, text: str) -> None:
    """Replace a small file's text, on a full disk too: the text then reuses the file's own space.

    The file is padded with blanks to ROOM bytes. A reader sees the old text or the new one, complete; on a full disk it
    may see a part. Nothing is synced.

    Raises:
        OSError: the file can't be written, or the disk is full and the file too short.
    """
    data = text.encode().ljust(ROOM)
    aside = path.with_suffix(".tmp")
    try:
        aside.write_bytes(data)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        if not is_full(error) or not path.exists() or path.stat().st_size < len(data):
            raise
        with path.open("r+b", buffering=0) as stream:
            write_all(stream, data)
            stream.truncate(len(data))
