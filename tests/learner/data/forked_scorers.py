"""Programs of the scorers for the learner's data, forked from one process that has imported them.

In: what `learner.data.scorers_process.start` is given. Out: the process that it would start, in a group of its own, with
what of a `Popen` the learner uses. Only the imports are shared: they take a second of a processor each time.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Any, Self

PROGRAMS = ("scorers.gold.row_check",)
THEIRS = tuple(f"scorers.{kind}.scorer" for kind in ("math", "choice", "logic"))  # imported when a row comes
PID = 64  # bytes, at most, of what comes back of a start
REQUEST = 1 << 20


class Forked:
    """A process whose standard input is `stdin`, and which ends with `wait`."""

    def __init__(self, pid: int, stdin: IO[bytes], ended: IO[bytes]) -> None:
        self.pid, self.stdin = pid, stdin
        self.returncode: int | None = None
        self._ended = ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdin.close()
        self.wait()
        self._ended.close()

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = int(self._ended.read())
        return self.returncode

    def poll(self) -> int | None:
        """Return None, for nobody asks of one that has ended: `wait` comes first."""
        return self.returncode


class ScorersForge:
    """Starts programs by forks of one process, which begins with the first of them and ends with `close`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ours: socket.socket | None = None

    def start(self, words: Sequence[str], answers: IO[bytes]) -> Any:
        """Be `scorers_process.start`, for one of PROGRAMS."""
        assert [*words] in [["-m", program] for program in PROGRAMS]
        if self._ours is None:
            self._ours, theirs = socket.socketpair()
            with theirs:
                forge = [sys.executable, "-m", __name__, str(theirs.fileno())]
                self._process = subprocess.Popen(forge, pass_fds=[theirs.fileno()])
        with ExitStack() as passed:
            reading, writing = os.pipe()
            passed.callback(os.close, reading)
            ended, says = os.pipe()
            passed.callback(os.close, says)
            request = {"program": words[1], "folder": os.getcwd(), "variables": dict(os.environ)}  # noqa: PTH109
            given = [reading, answers.fileno(), says]
            socket.send_fds(self._ours, [json.dumps(request).encode()], given)
            pid = int(self._ours.recv(PID))
        return Forked(pid, os.fdopen(writing, "wb"), os.fdopen(ended, "rb"))

    def close(self) -> None:
        if self._ours is not None and self._process is not None:
            self._ours.close()
            self._process.wait()


def _watch(request: Any, given: Sequence[int], ours: socket.socket) -> None:
    """Fork the program, say which process it is, and how it has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    stdin, stdout, ended = given
    if (pid := os.fork()) == 0:
        os.setpgid(0, 0)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        for descriptor in given:
            os.close(descriptor)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["variables"])
        sys.path.insert(0, request["folder"])  # as `python -m` has it
        os._exit(importlib.import_module(request["program"]).main())
    os.close(stdin)
    ours.sendall(str(pid).encode())
    _, status = os.waitpid(pid, 0)
    os.write(ended, str(os.waitstatus_to_exitcode(status)).encode())


def main() -> None:
    for module in (*PROGRAMS, *THEIRS):
        importlib.import_module(module)
    gc.freeze()  # a fork that looked at it would copy it
    ours = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, given, _, _ = socket.recv_fds(ours, REQUEST, 3)
        if not request:
            return
        if os.fork() == 0:
            _watch(json.loads(request), given, ours)
            os._exit(0)
        for descriptor in given:
            os.close(descriptor)


if __name__ == "__main__":
    main()
