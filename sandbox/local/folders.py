"""Folders that a program has written, whatever it made of them: measured while it runs, removed when it has ended.

Used by `sandbox.local.execution` and those who keep scratch folders. A program may nest folders deeper than a
path can say or a recursion can go, and close them against everybody: nothing here recurses without a bound, removal
goes by descriptors, and links are not followed.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_DEPTH: Final = 64  # of folders in folders; the bytes below can't be counted, and count as too many
TOO_MANY_BYTES: Final = 1 << 62
BLOCK_BYTES: Final = 4096  # at least, of each file: names cost too
OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def folder_bytes(folder: Path, enough: int) -> int:
    """Return the bytes of disk that a folder takes while it is written; count no further than beyond `enough`.

    `TOO_MANY_BYTES` where a folder in it is nested too deeply, or closed so that nobody can say what it holds.
    """
    try:
        top = os.open(folder, OPEN_FOLDER)
    except OSError:
        return 0
    try:
        return _count(top, enough, MOST_DEPTH)
    finally:
        os.close(top)


def _count(folder: int, enough: int, depth: int) -> int:
    """Count bytes by descriptors: a folder that becomes a link meanwhile leads nowhere."""
    if depth < 0:
        return TOO_MANY_BYTES
    total = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError, NotADirectoryError):  # no longer there, or no longer a folder
                status = entry.stat(follow_symlinks=False)
                total += max(BLOCK_BYTES, status.st_blocks * 512)
                if stat.S_ISDIR(status.st_mode):
                    total += _count_inner(entry.name, folder, enough - total, depth - 1)
            if total > enough:
                break
    return total


def _count_inner(name: str, folder: int, enough: int, depth: int) -> int:
    try:
        inner = os.open(name, OPEN_FOLDER, dir_fd=folder)
    except PermissionError:
        return TOO_MANY_BYTES
    try:
        return _count(inner, enough, depth)
    finally:
        os.close(inner)


class NestedTooDeeply(Exception):
    """A folder has folders in it that are nested deeper than MOST_DEPTH."""


def give_folder(folder: Path, uid: int, gid: int) -> None:
    """Make a folder and all in it a user's, once no process writes to it any more. Links are not followed.

    Raises:
        NestedTooDeeply: not all of it was given.
        OSError: something in it can't be given.
    """
    top = os.open(folder, OPEN_FOLDER)
    try:
        os.fchown(top, uid, gid)
        _give(top, uid, gid, MOST_DEPTH)
    finally:
        os.close(top)


def _give(folder: int, uid: int, gid: int, depth: int) -> None:
    if depth < 0:
        raise NestedTooDeeply(f"folders in folders, deeper than {MOST_DEPTH}")
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        os.chown(entry.name, uid, gid, dir_fd=folder, follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            inner = os.open(entry.name, OPEN_FOLDER, dir_fd=folder)
            try:
                _give(inner, uid, gid, depth - 1)
            finally:
                os.close(inner)


def remove_folder(folder: Path) -> None:
    """Remove a folder that no process writes to any more; one that is gone is fine.

    Each folder inside is moved up beside the others before it is emptied, so no path grows.

    Raises:
        OSError: something in it can't be removed.
    """
    with suppress(FileNotFoundError):
        folder.chmod(0o700)
        top = os.open(folder, OPEN_FOLDER)
        try:
            waiting = _empty(top, top)
            while waiting:
                name = waiting.pop()
                inner = os.open(name, OPEN_FOLDER, dir_fd=top)
                try:
                    waiting += _empty(inner, top)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        folder.rmdir()


def _empty(inner: int, top: int) -> list[str]:
    """Remove the files of `inner` and move its folders into `top`. Returns the new names of those."""
    moved = []
    with os.scandir(inner) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.name, 0o700, dir_fd=inner)  # to be moved and read, whichever user made it
            moved.append(f"{os.urandom(16).hex()}")
            os.rename(entry.name, moved[-1], src_dir_fd=inner, dst_dir_fd=top)
        else:
            os.unlink(entry.name, dir_fd=inner)
    return moved
