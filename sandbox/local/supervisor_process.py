"""A supervisor is the process between a scorer and the programs that it runs.

Started as `python -m sandbox.local.supervisor_process BASE PID` by `sandbox.local.supervisors`, and
used for many runs. In: orders, on the socket that is its standard input. Out: a report for each.

It exists for two reasons. Forks should come from a small process with one thread. And a process must be left to clean
up when the scorer is killed with -9: then the socket closes, and the supervisor ends the run, removes the folder of all
prepared programs and ends. SIGTERM before that says that the scorer lives on and needs the folder. When the supervisor
itself is killed, the kernel ends the program (PR_SET_PDEATHSIG, and with bubblewrap's inner process all in its
namespace), and the scorer sees a broken connection.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Final

from sandbox.local.execution import Execution, ScorerGone
from sandbox.local.folders import remove_folder
from sandbox.local.kept.execution import KeptExecution
from sandbox.local.kept.process import Kept, KeptFailed
from sandbox.local.launch import Identity
from sandbox.local.orders import Report, RunOrder, receive_order, send_report
from sandbox.program import NoRoom
from sandbox.walls.landlock import libc

PR_SET_CHILD_SUBREAPER = 36
FAILURES: Final = 3  # of what is kept ready, after which no more is tried
log = logging.getLogger("sandbox")


class Runs:
    """Runs, one at a time, by a fork of what is kept ready where an order names that."""

    def __init__(self, base: Path, identity: Identity, gone_fds: tuple[int, ...]) -> None:
        """Start nothing; the arguments are those of `Execution`."""
        self._base, self._identity, self._gone_fds = base, identity, gone_fds
        self._kept: Kept | None = None
        self._failures = 0  # one after the other

    def run(self, order: RunOrder) -> Report:
        """Run an order. Raises OSError, ScorerGone."""
        if order.kept and self._failures < FAILURES:
            try:
                report = self._by_fork(order)
            except KeptFailed as error:
                self._failures += 1
                if self._failures == FAILURES:
                    log.warning("no interpreter can be kept ready, each program starts one: %s", error)
            else:
                self._failures = 0
                return report
        spared, tasks = frozenset[int](), 0
        if self._kept is not None and self._kept.is_alive:
            spared, tasks = frozenset({self._kept.pid}), self._kept.tasks
        elif self._kept is not None:
            self._kept.end()
        return Execution(
            order,
            base=self._base,
            identity=self._identity,
            gone_fds=self._gone_fds,
            spared=spared,
            spared_tasks=tasks,
        ).run()

    def end(self) -> None:
        """End what is kept ready."""
        if self._kept is not None:
            self._kept.end()

    def _by_fork(self, order: RunOrder) -> Report:
        if self._kept is None or not self._kept.fits(order):
            self.end()
            self._kept = Kept(order, base=self._base, identity=self._identity)
        try:
            return KeptExecution(
                self._kept, order, base=self._base, identity=self._identity, gone_fds=self._gone_fds
            ).run()
        except OSError:  # whatever it has started, nobody watches over it any more
            self._kept.end()
            raise


def main(argv: list[str]) -> int:
    """Carry out orders until the scorer is gone or closes the socket. Returns the exit status."""
    base, scorer = Path(argv[0]), int(argv[1])
    connection = socket.socket(fileno=os.dup(0))
    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans of a run become ours, to be waited for
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the scorer decides
    identity = Identity.choose()
    dismissals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: dismissals.append(number))
    runs: Runs | None = None
    try:
        runs = Runs(base, identity, (connection.fileno(), os.pidfd_open(scorer)))
        while True:
            order = receive_order(connection)
            try:
                report = runs.run(order)
            except OSError as error:  # no more processes, descriptors or disk: not the program's
                report = Report(
                    outcome=None,
                    broken=f"the sandbox could not be set up: {error}",
                    no_room=error.errno in NoRoom.ERRORS,
                )
            send_report(connection, report)
    except (EOFError, ConnectionError, ProcessLookupError, ScorerGone):
        try:
            if runs is not None:
                runs.end()
        finally:
            if not dismissals:  # the scorer was killed, or forgot to close: nobody needs what it prepared
                remove_folder(base)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
