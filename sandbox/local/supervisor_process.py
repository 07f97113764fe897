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

import os
import signal
import socket
import sys
from pathlib import Path

from sandbox.local.execution import Execution, ScorerGone
from sandbox.local.folders import remove_folder
from sandbox.local.launch import Identity
from sandbox.local.orders import Report, receive_order, send_report
from sandbox.program import NoRoom
from sandbox.walls.landlock import libc

PR_SET_CHILD_SUBREAPER = 36


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
    try:
        scorer_fd = os.pidfd_open(scorer)
        while True:
            order = receive_order(connection)
            try:
                report = Execution(
                    order, base=base, identity=identity, gone_fds=(connection.fileno(), scorer_fd)
                ).run()
            except OSError as error:  # no more processes, descriptors or disk: not the program's
                report = Report(
                    outcome=None,
                    broken=f"the sandbox could not be set up: {error}",
                    no_room=error.errno in NoRoom.ERRORS,
                )
            send_report(connection, report)
    except (EOFError, ConnectionError, ProcessLookupError, ScorerGone):
        if not dismissals:  # the scorer was killed, or forgot to close: nobody needs what it prepared
            remove_folder(base)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
