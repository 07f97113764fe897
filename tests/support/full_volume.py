"""A small volume of its own kind that a test fills to the last byte: a tmpfs that only some processes see."""

from __future__ import annotations

import contextlib
import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SIZE_MB = 24


class Volume:
    """A tmpfs that only processes started with `inside` see at `path`; it goes away with the process that holds it."""

    def __init__(self, path: Path, size_mb: int = SIZE_MB) -> None:
        path.mkdir(parents=True, exist_ok=True)
        mount = f'mount -t tmpfs -o size={size_mb}m tmpfs "$0" && echo mounted && exec sleep 600'
        self._holder = subprocess.Popen(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        if self._holder.stdout.readline() != "mounted\n":
            self._holder.wait(10)
            said = self._holder.stderr.read().strip()
            pytest.skip(f"no tmpfs can be mounted here, not even in a namespace: {said}")
        self.seen = Path(f"/proc/{self._holder.pid}/root") / path.relative_to("/")
        self.inside = ("nsenter", "--preserve-credentials", "-U", "-m", "-t", str(self._holder.pid))

    def fill(self) -> Path:
        """Not a byte is left. Returns the file that took them all."""
        ballast = self.seen / "ballast"
        with ballast.open("wb", buffering=0) as stream:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        stream.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
        return ballast

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


@contextlib.contextmanager
def mounted(path: Path, size_mb: int = SIZE_MB) -> Iterator[Volume]:
    """Give a volume at `path` for as long as this context lasts."""
    volume = Volume(path, size_mb)
    try:
        yield volume
    finally:
        volume.close()
