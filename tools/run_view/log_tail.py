"""Read the lines that a process appends to its log, as they come.

Processes write their logs themselves, not through a pipe of `millrace up`. So their last lines are kept even when `up`
is killed, and a slow terminal never blocks a role.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

MOST_BYTES = 1 << 20  # read at once; faster output is shown a little later


class LogTail:
    """Read the lines appended to `path` from now on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = path.stat().st_size if path.exists() else 0
        self._rest = b""

    def new_lines(self) -> list[str]:
        """Return the complete lines since the last call; of lines overwritten with carriage returns, the last state."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._position)
                data = stream.read(MOST_BYTES)
        except FileNotFoundError:
            return []
        self._position += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [_last_state(line) for line in lines]


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last `count` lines of a log; none where there is no log."""
    try:
        with path.open("rb") as stream:
            return [_last_state(line) for line in deque(stream, maxlen=count)]
    except FileNotFoundError:
        return []


def _last_state(line: bytes) -> str:
    return line.rstrip(b"\r\n").rpartition(b"\r")[2].decode(errors="replace")
