"""This module writes so that a power cut loses nothing: bytes and names are on the disk when a function returns."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path
from typing import BinaryIO, Final

ROOM: Final = 8192  # bytes of a file that has to find room in itself on a full disk
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})  # the errors of a disk, or a quota, without room


def write_all(stream: BinaryIO, data: bytes | memoryview) -> None:
    """Write all of `data` to an unbuffered file, which may take a part at a time when the disk is nearly full."""
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]


def sync(path: Path) -> None:
    """Sync a file's bytes, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder, and sync its name and the names of the folders above it.

    The folders above may be as new: the lock or the logs made the run's own folder a moment ago. The walk ends at
    another file system, and at a folder that this user may not list: nothing of a run is made above those.
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
    """Replace a small file's text on the disk; a reader sees the old text or the new text, whole."""
    aside = path.with_name(
        f".{path.name}.{secrets.token_hex(4)}"
    )  # a learner elsewhere may have the same pid
    aside.write_text(text, encoding="utf-8")
    sync(aside)
    aside.replace(path)
    sync(path.parent)


def is_full(error: OSError) -> bool:
    """Return whether there was no room for what was to be written."""
    return error.errno in FULL


def replace_in_place(path: Path, text: str) -> None:
    """Replace a small file's text, on a full disk too: then the text takes the room that the file already has.

    The file is filled up with blanks to ROOM bytes. A reader sees the old text or the new text, whole; on a
    full disk it may see a part. Nothing is synced.

    Raises:
        OSError: the file can't be written, or there is no room, and none in the file.
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
