"""Watch the disks of a run: report a full one, and end a run that can't continue.

In: the folders that the roles write to. Out: a line in the terminal, since the roles' own logs have no space either;
then `DiskFull`. Run by `millrace up` and `chaos`, in their main thread, at every tick.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

from broker.errors import RunFailed
from config.run import Run
from learner.weight_sync.version_folder import published

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
WAIT_S = 10.0  # somebody may free space; roles waiting for Redis then continue
LEAST_BYTES = 64 << 10  # with less space neither a log's block nor a line of Redis' file can be written
ADVICE = "Make room there, and give the same command again: the run goes on"
WORDS = ("No space left on device", "Disk quota exceeded")  # in the system's messages, in any role's log


class DiskFull(RunFailed):
    """A disk that the run writes to is full."""


def folders_of(run: Run) -> tuple[Path, ...]:
    """Return the folders that a run's roles write to, or their nearest existing ancestors."""
    places = (run.folder.absolute(), published(run))
    return tuple(
        dict.fromkeys(next(each for each in (place, *place.parents) if each.is_dir()) for place in places)
    )


def without_room(folders: Sequence[Path]) -> str:
    """Return which of these folders is on a full disk, in words; "" for none."""
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError:  # removed meanwhile: its writers report it
            continue
        blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
        if blocks * found.f_frsize < LEAST_BYTES or (found.f_files and not found.f_ffree):
            return (
                f"{folder}: {WORDS[0]} ({blocks * found.f_frsize} bytes and {found.f_ffree} names are free)"
            )
    return ""


def check_room(run: Run) -> None:
    """Refuse to start on a full disk. Raises DiskFull."""
    if full := without_room(folders_of(run)):
        raise DiskFull(f"{full}. {ADVICE}")


class DiskWatch:
    """Watch the disks of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._looked = 0.0
        self._full_since: float | None = None

    def tick(self) -> None:
        """Report that a disk is full, and that it has space again. Raises DiskFull where it stays full."""
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY_S:
            return
        self._looked = now
        full = without_room(folders_of(self._run))
        if not full:
            if self._full_since is not None:
                log.warning("disk_has_room_again folder=%s", self._run.folder)
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
            log.error("disk_full folder=%s. The run ends in %.0f s unless there is room", full, WAIT_S)
        elif now - self._full_since > WAIT_S:
            raise DiskFull(f"{full}. {ADVICE}")
