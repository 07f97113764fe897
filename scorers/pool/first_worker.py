"""The first worker of a pool starts alone; the others follow when it is ready, has ended, or has had its time.

Each worker needs seconds of processor time for its libraries and its self-test. Where processors are scarce, workers
that start together are all ready late. With one worker ahead of the others, the first group is scored sooner. Used by
`scorers.pool.supervisor` and `scorers.pool.worker`.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Sequence
from typing import Final

from broker import processes
from broker.fork_server.client import ForkServer

ALONE_S: Final = 20.0  # that the first worker may take; a worker whose sandbox is away waits for longer
READY: Final = "SCORER_READY"  # names a descriptor that the first worker closes when ready, or by its end


class FirstWorker:
    """The pool starts its first worker with this object, and asks when the others may follow."""

    def __init__(self, fork_server: ForkServer) -> None:
        self._fork_server = fork_server
        self._pipe: int | None = None
        self._started = 0.0  # monotonic seconds

    def spawn(self, command: Sequence[str]) -> processes.Process:
        """Start the first worker; after its first start no other worker waits for it. Raises OSError.

        Its standard error is a pipe.
        """
        if self._pipe is not None:
            return self._fork_server.spawn(command, env=os.environ, stderr=subprocess.PIPE)
        self._started = time.monotonic()
        self._pipe, held = os.pipe()
        try:
            return self._fork_server.spawn(
                command, env=os.environ, stderr=subprocess.PIPE, held={READY: held}
            )
        finally:
            os.close(held)

    def may_be_followed(self) -> bool:
        """Say whether the other workers may start."""
        if self._pipe is None:
            return False
        return bool(select.select([self._pipe], [], [], 0)[0]) or time.monotonic() - self._started >= ALONE_S

    def close(self) -> None:
        """Stop waiting for the first worker."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


def report_ready() -> None:
    """Tell the pool that this worker serves from now on, if the pool waits for it."""
    if (held := os.environ.pop(READY, None)) is not None:
        os.close(int(held))
