"""The last one out: ends the processes of a run whose `millrace up` was killed with -9.

Each role is a process group, and the kernel ends the role itself with its parent. What a role has started in turn, a
library's helpers above all, knows nothing of that. So `up` tells one small process the groups that it starts, through a
pipe; the pipe ends when `up` does, however that ends, and then the guard kills every group that is still on its list.
Imports the standard library alone, and runs as a file, so that it is there at once and small.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import IO


class Guard:
    """The guard as `up` sees it."""

    def __init__(self) -> None:
        reader, self._writer = os.pipe()  # not inherited by any other child: it must end with this process
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
        """Kill this process group if this process dies."""
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """The group has ended; its number may come to belong to somebody else."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """End the guard; it kills what it still watches."""
        os.close(self._writer)
        self._process.wait(timeout=10)

    def _tell(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # somebody killed the guard: the kernel's part remains
            os.write(self._writer, line.encode())


def stand_guard(orders: IO[str]) -> None:
    """Follow `orders` to their end, then kill what is still watched."""
    groups: set[int] = set()
    for order in orders:
        (groups.add if order[0] == "+" else groups.discard)(int(order[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    stand_guard(sys.stdin)
