"""Start processes that never outlive the process that started them.

In: a command. Out: a `Popen` in its own process group, which the kernel ends when its parent ends, whatever the reason.
`millrace up`, the private Redis, the learner's ranks and the scorers' workers start this way. Nothing here retries: the
caller decides what to restart.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

PR_SET_PDEATHSIG = 1  # linux/prctl.h
POLL_S = 0.02
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_LIBC = ctypes.CDLL(None, use_errno=True)  # loaded before any fork: a child must not take the loader's lock


class Process(Protocol):
    """A child of this process: `subprocess.Popen`, or `broker.fork_server.client.ForkedProcess`."""

    pid: int
    returncode: int | None  # None: not waited for
    stderr: IO[bytes] | None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Returns the exit code, negative for a signal."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM."""
        ...

    def kill(self) -> None:
        """Send SIGKILL."""
        ...


def die_with_parent(parent_pid: int, death_signal: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send `death_signal` to this process when its parent ends.

    Args:
        parent_pid: the parent's id before the fork. If the parent ended before this request, no signal would ever come,
            so a different parent now means that it is too late, and the process exits.
        death_signal: the signal it gets.
    Raises:
        OSError: the kernel refused.

    The "parent" is the *thread* that forked: a child started from a thread is killed when that thread ends.
    """
    if _LIBC.prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), death_signal)


def spawn(
    args: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    pass_fds: Sequence[int] = (),
    executable: Path | None = None,
    death_signal: signal.Signals = signal.SIGKILL,
) -> subprocess.Popen[bytes]:
    """Start `args` in a process group of its own; the child gets `death_signal` when this process ends.

    Its own group keeps the terminal's Ctrl-C from the child: the parent decides when and how the child ends.

    Args:
        executable: the program, where its name differs from args[0].
    Raises:
        RuntimeError: not called from the main thread; the child would be killed when the calling thread ends.
        OSError: the program can't be started.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "spawn() belongs in the main thread: a child is killed when the thread that forked it ends"
        )
    parent_pid = os.getpid()
    return subprocess.Popen(
        [str(word) for word in args],
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
        executable=executable,
        process_group=0,
        preexec_fn=lambda: die_with_parent(parent_pid, death_signal),  # noqa: PLW1509 - see _LIBC
    )


def has_ended(process: Process) -> bool:
    """Return whether `process` has ended. Unlike `poll` it leaves the zombie, which keeps the group's number in use."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait(process: Process, timeout_s: float) -> bool:
    """Wait for `process` to end, as `has_ended` sees it; False after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not has_ended(process):
        if time.monotonic() >= deadline:
            return False
        wait_for_any([process], deadline - time.monotonic())
    return True


def wait_for_any(running: Iterable[Process], timeout_s: float, *, news: Iterable[int] = ()) -> None:
    """Wait until one of the processes has ended, or a descriptor of `news` can be read, at most `timeout_s`.

    Where the kernel has no descriptors of processes, such as an old gVisor, it returns after POLL_S.
    """
    ends = select.poll()
    for descriptor in news:
        ends.register(descriptor, select.POLLIN)
    with contextlib.ExitStack() as stack:
        for process in running:
            if process.returncode is not None:
                return
            try:
                descriptor = os.pidfd_open(process.pid)
            except (OSError, AttributeError):  # of this kernel, or of a Python built for an older one
                timeout_s = min(timeout_s, POLL_S)
                continue
            stack.callback(os.close, descriptor)
            ends.register(descriptor, select.POLLIN)
        ends.poll(max(0.0, timeout_s) * 1000)


def stop(process: Process, grace_s: float) -> int:
    """Stop `process` and the rest of its group.

    SIGTERM goes to the process alone, which knows the order in which to stop its children; after `grace_s` seconds, or
    when it has ended, SIGKILL goes to the whole group.

    Returns:
        Its exit code, negative for a signal.
    """
    if process.returncode is None:
        if not has_ended(process) and grace_s > 0:
            process.terminate()
            wait(process, grace_s)
        with contextlib.suppress(ProcessLookupError):  # the group is empty
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def how_it_ended(code: int) -> str:
    """Describe an exit code, negative for a signal, in words."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name of its own
        return f"was killed by signal {-code}"


def stop_on_signals(before_exit: Callable[[], None] | None = None) -> threading.Event:
    """Return the event that the first SIGTERM or SIGINT sets; the entry point then finishes its unit of work.

    The second signal ends the process at once with 128 plus its number (143, 130), after `before_exit`, which must be
    quick. A thread listens for signals, so that this works while the main thread is inside a long library call. A fork
    starts with the default handlers. Call it from the main thread, once.
    """
    event = threading.Event()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for number in STOP_SIGNALS:
        signal.signal(
            number, lambda _number, _frame: None
        )  # the interpreter still writes to the wake-up descriptor
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_restore_signals)

    def listen() -> None:
        while True:
            number = os.read(reader, 1)[0]
            if number not in STOP_SIGNALS:
                continue
            if event.is_set():
                if before_exit is not None:
                    before_exit()
                os._exit(128 + number)
            event.set()

    threading.Thread(target=listen, name="stop-signals", daemon=True).start()
    return event


def _restore_signals() -> None:
    """Restore the handlers in a forked child: its signals must not count as its parent's."""
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)
        for number in STOP_SIGNALS:
            signal.signal(
                number, signal.SIG_DFL if number is not signal.SIGINT else signal.default_int_handler
            )
