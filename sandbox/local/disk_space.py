"""This module tells whether a full disk spoiled a run, which is no fault of the program.

In: a folder, or what a compiler said. Out: `NoRoom`, or whether the compiler said so. Used where programs write to a
disk (`sandbox.local.sandbox`) and where only a server's words are known (`sandbox.remote.fusion`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from sandbox.limits import Limits
from sandbox.program import NoRoom

MOST_BYTES: Final = Limits().scratch_bytes  # that are asked for: compilers may write much, and seldom do
# Words of the linker, the assembler and the compiler themselves. What a program has a compiler say begins with its
# file, line and column, and then `error: ` or `warning: `.
NO_ROOM: Final = re.compile(
    rb"^(?:[^\s:]+: (?:final link failed|cannot open output file [^\n]*)"
    rb"|(?:\S+|\{standard input\}): [Ff]atal error: (?:error|can't) [^\n]*"
    rb"|Cannot create temporary file in [^\n]*): '?No space left on device'?\s*$",
    re.MULTILINE,
)


def compiler_without_disk_space(stderr: bytes) -> bool:
    """Return whether a compiler failed for want of disk."""
    return NO_ROOM.search(stderr) is not None


def require_disk_space(folder: Path, allowed_bytes: int) -> None:
    """Raise NoRoom where less space is free than a run may write."""
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if free < (needed := min(allowed_bytes, MOST_BYTES)):
        raise NoRoom(
            f"{free >> 10} KiB are left on the disk of {folder}, where a program may write {needed >> 20} "
            "MiB: make room, or set TMPDIR to a folder with some"
        )
