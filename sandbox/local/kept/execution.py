"""One run that is a fork of what is kept ready: as any execution, but for its beginning and for who waits for its end.

In: a `RunOrder` that names what is kept, and the process. Out: a `Report`, or `KeptFailed` where the process did not do
its part: then the same order is run the ordinary way, which says nothing of the program. Run by
`sandbox.local.supervisor_process`.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from sandbox.harness.pipe import STATUS, UP
from sandbox.local.execution import Execution
from sandbox.local.kept.process import BESIDE, Kept
from sandbox.local.launch import Identity
from sandbox.local.orders import RunOrder
from sandbox.walls.seccomp import Walls

PROCESS_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP: no newer than what Landlock has to have (`can_be_kept`)


class KeptExecution(Execution):
    """One run, from the fork that is asked for to the last process's end."""

    def __init__(
        self, kept: Kept, order: RunOrder, *, base: Path, identity: Identity, gone_fds: tuple[int, ...]
    ) -> None:
        """Take what is kept ready, and the rest as any execution."""
        super().__init__(order, base=base, identity=identity, gone_fds=gone_fds, spared_tasks=kept.tasks)
        self._kept = kept

    def _fork(self) -> float:
        fds, folder = self._made.kept_run(self._kept.folder)
        is_inner = self._order.walls is Walls.BUBBLEWRAP  # where its namespaces' tasks count alone
        tasks = BESIDE + self._limits.processes if is_inner else self._made.tasks()
        asked = time.monotonic()
        self._first = self._kept.start(self._order, fds, folder=folder, tasks=tasks)
        return asked

    def _begin(self, resources: ExitStack) -> None:
        self._main_fd = self._first.pidfd
        resources.callback(os.close, self._main_fd)
        if self._order.walls is Walls.BUBBLEWRAP:
            self._tree.add_session(self._first.pid)
        else:
            self._tree.add_main(self._first.pid)

    def _greet(self) -> None:
        """Start the clock when the walls stand."""
        if self._started is None and bytes(self._made.machinery.data).startswith(UP):
            self._started = time.monotonic()

    def _look(self) -> None:
        """Look once the program has begun: until then the fork is ours, and may not be looked into."""
        if self._started is not None:
            super()._look()

    def _end(self) -> int:
        """Kill what was started, and have its end told: then nothing of the run is left. Raises KeptFailed."""
        if self._order.walls is not Walls.BUBBLEWRAP:  # where its end ends all others
            with suppress(ProcessLookupError):  # it does not lead its group yet, or nobody is left
                signal.pidfd_send_signal(self._main_fd, signal.SIGKILL, None, PROCESS_GROUP)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._main_fd, signal.SIGKILL)
        report = self._kept.ended(self._first)
        self._cpu_s += report["cpu_s"]
        self._peak_bytes = max(self._peak_bytes, report["peak_kb"] * 1024)
        self._made.machinery.read()
        said = bytes(self._made.machinery.data)
        if self._cause is None and not said.startswith(UP):
            raise self._kept.failed(
                f"the walls of a run do not stand: {said.decode(errors='replace').strip()}"
            )
        if self._order.walls is not Walls.BUBBLEWRAP:
            return int(report["status"])
        told = said.removeprefix(UP)
        return int(told.removeprefix(STATUS)) if told.startswith(STATUS) else signal.SIGKILL

    def _verdict(self, code: int) -> tuple[int, str]:
        return (code, "") if self._cause is not None else self._killed(code)
