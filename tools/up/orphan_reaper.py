"""The orphan reaper ends the processes of a run whose `millrace up` was killed with -9.

Each role is a process group, and the kernel ends the role itself with its parent. What a role has started in turn, a
library's helpers above all, would live on. So `up` tells one small process the groups that it starts, through a
pipe. The pipe ends when `up` does, however that ends, and then the reaper kills every group that is still on its list.
The module imports the standard library alone, and runs as a file, so that the reaper is there at once and small.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import IO


class OrphanReaper:
    """The reaper's process, and the pipe on which `up` tells it the process groups."""

    def __init__(self) -> None:
        # No other process inherits the writer: it must close with this process.
        reader, self._writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", __file__],
                stdin=reader,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(reader)

    def watch(self, group: int) -> None:
        """Has a process group killed when this process dies."""
        self._send(f"+{group}\n")

    def release(self, group: int) -> None:
        """Takes a group that has ended off the list: its number may come to belong to other processes."""
        self._send(f"-{group}\n")

    def close(self) -> None:
        """Ends the reaper, which kills the groups that are still on its list."""
        os.close(self._writer)
        self._process.wait(timeout=10)

    def _send(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the reaper was killed: what the kernel does remains
            os.write(self._writer, line.encode())


def reap(orders: IO[str]) -> None:
    """Follows `orders` to their end, then kills the groups that are still on the list."""
    groups: set[int] = set()
    for order in orders:
        (groups.add if order[0] == "+" else groups.discard)(int(order[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    reap(sys.stdin)
