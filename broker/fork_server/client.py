"""Start a command `PYTHON -m MODULE ...` as a fork of a process that has imported its libraries.

In: the modules to import, then commands. Out: processes like those of `broker.processes.spawn`: in a group of their
own, children of this process, ended by the kernel when it ends. A command starts from nothing, as `spawn` would start
it, where the fork server is late, has died or refuses. Used by `millrace up` for the learner and the engine `hf`, and
by the scorers' pool. A restart after a kill is a fork, too.

The server forks twice. The first fork ends, and its child is adopted by this process, which asks the kernel for that
as long as a request lasts. So this process can wait for the role as for any child.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import broker
from broker import processes
from broker.fork_server.server import LONGEST, READY, ForkRequest

log = logging.getLogger(__name__)

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
IMPORT_S = 300.0  # longest wait for the imports, which come from a disk that may be slow
ANSWER_S = 10.0  # longest wait for a fork
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
SHOWN = 2048  # bytes of a command that ps shows

_LIBC = ctypes.CDLL(None, use_errno=True)


class ForkedProcess:
    """A forked child, with what this program uses of `subprocess.Popen`."""

    def __init__(self, pid: int, stderr: IO[bytes] | None) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stderr = stderr

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit code, negative for a signal. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if timeout is not None and not processes.wait(self, timeout):
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def terminate(self) -> None:
        """Send SIGTERM, unless the process was waited for."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless the process was waited for."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


class ForkServer:
    """A process that imports modules once, and is forked for each command. From the main thread only.

    Args:
        imports: modules, in this order, each with a function to call behind a colon if it has something to build. What
            fails is left to the command, which reports it. Empty: every command starts from nothing.
        is_complete: False: `complete` follows, and nothing is spawned before.
    """

    def __init__(self, imports: Sequence[str], *, is_complete: bool = True) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _start(theirs.fileno(), imports) if imports and _can_fork() else None
        self._first = imports
        self._is_ready = False
        self._began = time.monotonic()
        if is_complete:
            self.complete(imports)

    def complete(self, imports: Sequence[str]) -> None:
        """Tell the server all modules, those that it has begun with included; none: it ends, as nothing is to fork."""
        if not imports:
            self.close()
        elif self._process is not None:
            rest = [name for name in imports if name not in self._first]
            with contextlib.suppress(OSError):  # it has ended, which `may_spawn` finds
                self._socket.send(json.dumps(rest).encode())

    @property
    def may_spawn(self) -> bool:
        """Whether `spawn` returns at once: all is imported, or the server was given up."""
        if self._process is None or self._is_ready:
            return True
        answer = self._receive(0.0)
        if answer == READY:
            self._is_ready = True
        elif answer is not None:
            self._give_up(answer.decode(errors="replace") or processes.how_it_ended(self._process.wait()))
        elif time.monotonic() - self._began > IMPORT_S:
            self._give_up(f"its imports take longer than {IMPORT_S:.0f} s")
        return self._process is None or self._is_ready

    def fileno(self) -> int:
        """Return the descriptor that can be read when `may_spawn` has changed."""
        return self._socket.fileno()

    def spawn(
        self,
        args: Sequence[str],
        *,
        env: Mapping[str, str],
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | int | None = None,
        held: Mapping[str, int] | None = None,
    ) -> processes.Process:
        """Start a command as a fork, or from nothing where the server was given up. Raises OSError.

        Args:
            args: `PYTHON -m MODULE ...`.
            env: its whole environment.
            stdout: None: this process's own.
            stderr: `subprocess.PIPE`: readable as the returned `stderr`. None: this process's own.
            held: descriptors that the child keeps, by the variable in which it gets each one's number.
        """
        held = held or {}
        if self._process is not None and self._is_ready:
            with contextlib.ExitStack() as stack:
                reader = None
                if stderr == subprocess.PIPE:
                    end, writer = os.pipe()
                    reader = os.fdopen(end, "rb")
                    stderr = stack.enter_context(os.fdopen(writer, "wb"))
                streams = [_number(stdout, 1), _number(stderr, 2)]
                request = ForkRequest(args=list(args), env=dict(env), held=list(held), owner=os.getpid())
                if (pid := self._ask(request, [*streams, *held.values()])) is not None:
                    return ForkedProcess(pid, reader)
            if reader is not None:
                reader.close()
                stderr = subprocess.PIPE
        return processes.spawn(
            args,
            env={**env, **{name: str(number) for name, number in held.items()}},
            stdout=stdout,
            stderr=stderr,
            pass_fds=list(held.values()),
        )

    def close(self) -> None:
        """End the server. What it forked goes on."""
        self._socket.close()
        if self._process is not None:
            processes.stop(self._process, 0)
            self._process = None

    def _ask(self, request: ForkRequest, descriptors: Sequence[int]) -> int | None:
        """Return the new process's id; None: the server was given up."""
        # In a file, as an environment may be longer than a message; in memory, as it may hold secrets.
        with os.fdopen(os.memfd_create("request"), "wb") as file:
            file.write(json.dumps(request).encode())
            file.flush()
            _adopt(True)
            try:
                socket.send_fds(self._socket, [b"fork"], [file.fileno(), *descriptors])
                answer = self._receive(ANSWER_S) or self._receive(0.0)  # one that came at the last moment
            except OSError as error:
                answer = str(error).encode()
            finally:
                _adopt(False)
        if answer is not None and answer.isdigit():
            return int(answer)
        self._give_up((answer or b"it does not answer").decode(errors="replace"))
        return None

    def _receive(self, seconds: float) -> bytes | None:
        """Return the next answer, empty if the server has ended; None after `seconds`."""
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(LONGEST)
        except (TimeoutError, BlockingIOError):
            return None
        except ConnectionResetError:  # it has ended without reading all
            return b""
        except OSError as error:
            return str(error).encode()

    def _give_up(self, reason: str) -> None:
        log.warning("fork_server ended reason=%s: processes start without it", reason)
        self.close()


def _can_fork() -> bool:
    """Return whether Python makes files in memory, and the user wants no more threads of BLAS than a fork may have."""
    return hasattr(os, "memfd_create") and os.environ.get(BLAS_THREADS, "1") in {"", "1"}


def _start(channel: int, imports: Sequence[str]) -> processes.Process:
    # The server's code is this process's, wherever that lies. BLAS keeps a pool of threads, and only a process of one
    # thread is safe to fork.
    places = [str(Path(broker.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {
        "PYTHONPATH": os.pathsep.join(places),
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        BLAS_THREADS: "1",
    }
    return processes.spawn(
        [sys.executable, "-m", "broker.fork_server.server", str(channel), " " * SHOWN, *imports],
        env={**os.environ, **settings},
        pass_fds=[channel],
    )


def _adopt(is_on: bool) -> None:
    """Let the kernel make orphans below this process its children, or stop that."""
    if _LIBC.prctl(PR_SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _number(stream: IO[bytes] | int | None, own: int) -> int:
    if stream is None:
        return own
    return stream if isinstance(stream, int) else stream.fileno()
