"""Kill the processes of a run whose `millrace up` was killed with -9.

Each role is a process group, and the kernel ends the role itself with its parent. But processes that a role has
started, such as a library's helpers, would survive. So `up` sends the groups that it starts to one small process,
through a pipe. The pipe closes when `up` ends, however that happens, and then the reaper kills every group still on its
list. It only imports the standard library, and runs as a file, so that it starts fast and stays small.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import IO


class OrphanReaper:
    """The reaper's process, and the pipe with which `up` sends it the process groups."""

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
        """Have a process group killed when this process dies."""
        self._send(f"+{group}\n")

    def release(self, group: int) -> None:
        """Remove an ended group from the list: its id may be reused."""
        self._send(f"-{group}\n")

    def close(self) -> None:
        """End the reaper, which kills the groups still on its list."""
        os.close(self._writer)
        self._process.wait(timeout=10)

    def _send(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the reaper was killed: the kernel's part still works
            os.write(self._writer, line.encode())


def reap(orders: IO[str]) -> None:
    """Read `orders` to the end, then kill the groups still on the list."""
    groups: set[int] = set()
    for order in orders:
        (groups.add if order[0] == "+" else groups.discard)(int(order[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    reap(sys.stdin)
