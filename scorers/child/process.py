"""A killable child is one long-lived process that does what may hang, eat memory or crash.

In: a request, a JSON object. Out: the reply of the `target` function, a JSON object. Run by a scorer's process, from
its one working thread (the kernel ties the child's life to the thread that forks it). A child is forked at the first
request, so it inherits every library that the parent has imported. It serves requests until one exceeds a limit; then
it is killed and the next request forks another. It dies with its parent and shares nothing with it but one socket.

What the request brought about (deadline, memory, a crash inside a C library) raises `LimitExceeded`; a child that
was killed from outside raises `ChildKilled`, and one that ended by itself `ChildEnded`, both of them a `Retryable`; an
exception of the target is a bug and surfaces. The deadline is one of the wall clock. A child that had little processor
time until then was kept from its work by a machine with more to do, which raises `ChildDied`, a `Retryable`, too.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, NoReturn

from broker.errors import Retryable
from broker.processes import die_with_parent
from sandbox.harness.pipe import framed, read_frame

log = logging.getLogger(__name__)

Request = dict[str, Any]
Reply = dict[str, Any]
Clock = Callable[[], AbstractContextManager[object]]

MEMORY_BYTES: Final = 4 << 30  # address space beyond what the parent had mapped at the fork
RECURSION_FRAMES: Final = 1000  # for the target, however deep the parent's stack was at the fork
STARVED_SHARE: Final = 0.25  # of the deadline as processor time: a child with less was not let run
MEASURABLE_S: Final = (
    0.5  # the least deadline of which that is asked: the kernel counts in hundredths of a second
)
ENDED_S: Final = 0.2  # for a child that has closed its link to be found dead
LOOK_S: Final = 0.05  # between two looks at a child that may have to give way
LAST: Final = 19  # the lowest priority there is
EXIT_MEMORY: Final = 77  # the child's exit status when an allocation failed
CRASH_SIGNALS: Final = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL}
)


class LimitExceeded(Exception):
    """The request itself used up its time or memory, or crashed the child. The message says which, with the number."""


class ChildDied(Retryable):
    """The child was killed from outside, could not be started, or was hardly let run."""


class ChildKilled(ChildDied):
    """A signal ended or stopped the child while it worked: from outside, unless the same request has it again."""


class ChildEnded(ChildDied):
    """The child ended itself while it worked, or closed its link, or wrote to it what is no reply."""


class KillableChild:
    """A process that answers requests one at a time. Not thread-safe; start and use it from one thread."""

    def __init__(
        self,
        target: Callable[[Request], Reply],
        *,
        memory_bytes: int = MEMORY_BYTES,
        give_way_s: float | None = None,
        before_others: Callable[[], None] | None = None,
    ) -> None:
        """Remember what to run; the process itself starts with the first request.

        Args:
            target: called in the child with each request; must return what JSON can hold.
            memory_bytes: address space that the child may map on top of what it inherits.
            give_way_s: seconds of processor time of one request after which the child yields to every other process;
                None: never.
            before_others: called in this process before it forks another child than the first, outside all deadlines:
                what makes every child quicker, and costs more than one request may be worth.
        """
        self._target = target
        self._memory_bytes = memory_bytes
        self._give_way_s = give_way_s
        self._before_others = before_others
        self._has_forked = False
        self._pid: int | None = None
        self._link: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Return the process id of the living child; None before the first request and after a kill."""
        return self._pid

    def ask(self, request: Request, timeout_s: float, *, measured: Clock = nullcontext) -> Reply:
        """Have the child answer one request.

        Args:
            request: what the target is called with; JSON types only.
            timeout_s: seconds to the reply, the fork included; then the child is killed.
            measured: makes the context in which the request runs, and `before_others` does not.
        Raises:
            LimitExceeded: no reply within `timeout_s`, out of memory, or a crash; this child is gone.
            ChildDied: killed from outside, ended by itself, or without a quarter of `timeout_s` in processor time when
                that was over, unless it had to give way; try again.
            RuntimeError: the target raised, with its traceback: a bug in it.
        """
        if self._link is None and self._has_forked and self._before_others is not None:
            self._before_others()
        with measured():
            return self._reply(request, timeout_s)

    def _reply(self, request: Request, timeout_s: float) -> Reply:
        deadline = time.monotonic() + timeout_s
        link = self._link or self._fork()
        has_yielded = False
        before_s = self._cpu_s()
        try:
            _send(link, request, deadline)
            has_yielded = self._give_way_s is not None and self._give_way(
                link, deadline, before_s + self._give_way_s
            )
            envelope = _receive(link, deadline)
        except TimeoutError:
            had_s = self._cpu_s() - before_s
            is_stopped = self._state() == "T"
            self.close()
            if not has_yielded and timeout_s >= MEASURABLE_S and had_s < STARVED_SHARE * timeout_s:
                died = ChildKilled if is_stopped else ChildDied
                raise died(
                    f"the scoring child had {had_s:.2f} s of processor time within its deadline of "
                    f"{timeout_s:g} s: this machine has more to do than it can"
                ) from None
            raise LimitExceeded(f"deadline of {timeout_s:g} s") from None
        except (EOFError, ConnectionError) as error:
            raise self._autopsy() from error
        except ValueError as error:
            self.close()
            raise ChildEnded("the scoring child wrote to its link what is no reply") from error
        except (
            BaseException
        ):  # interrupted, it leaves a reply behind, which must never answer another request
            self.close()
            raise
        if envelope["spent"] or has_yielded:  # its old place is not to be had again
            self.close()
        if "bug" in envelope:
            raise RuntimeError(f"the scoring child's target failed:\n{envelope['bug']}")
        reply: Reply = envelope["reply"]
        return reply

    def ask_with_fresh_child_retry(
        self, request: Request, deadline_s: float, *, measured: Clock = nullcontext
    ) -> Reply:
        """Have this child answer a request within half of the deadline, else a fresh child within the other half.

        What a long-lived child keeps of earlier requests may slow it down. A request that exceeds a limit in the fresh
        child too, alone there, has brought that about by itself.

        Args:
            request: what the target is called with; JSON types only.
            deadline_s: seconds for both attempts.
            measured: as for `ask`, around each attempt.
        Raises:
            LimitExceeded: the second attempt's; both children are gone.
            ChildDied, RuntimeError: as `ask`, at either attempt.
        """
        with contextlib.suppress(LimitExceeded):  # which kills the child: the next request forks another
            return self.ask(request, timeout_s=deadline_s / 2, measured=measured)
        return self.ask(request, timeout_s=deadline_s / 2, measured=measured)

    def close(self) -> None:
        """Kill the child, if there is one, and wait for its end: no zombie stays."""
        self._reap()

    def _fork(self) -> socket.socket:
        parent = os.getpid()
        pair: tuple[socket.socket, ...] = ()
        try:
            pair = ours, theirs = socket.socketpair()
            pid = os.fork()
        except OSError as error:
            for end in pair:
                end.close()
            raise ChildDied(f"can't start a scoring child: {error}") from error
        if pid == 0:
            try:
                _isolate(theirs.fileno(), parent, self._memory_bytes)
                _serve(theirs, self._target, self._memory_bytes)
            finally:
                os._exit(1)  # nothing of the parent's stack may ever run here
        theirs.close()
        self._pid, self._link, self._has_forked = pid, ours, True
        log.debug("child_forked pid=%d", pid)
        return ours

    def _reap(self) -> int:
        """Kill the child and wait for it. Returns its wait status, of its earlier end if it had ended already."""
        pid, link = self._pid, self._link
        self._pid = self._link = None
        if link is not None:
            link.close()
        if pid is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return os.waitpid(pid, 0)[1]

    def _give_way(self, link: socket.socket, deadline: float, until_s: float) -> bool:
        """Wait for the reply, or until the child has used `until_s` of processor time: then it is last in the queue."""
        while time.monotonic() < deadline and not select.select([link], [], [], LOOK_S)[0]:
            if self._pid is not None and self._cpu_s() > until_s:
                with contextlib.suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, self._pid, LAST)
                return True
        return False

    def _stat(self) -> list[str]:
        """Return what the kernel says of the child, from its state on; nothing where it is gone."""
        try:
            stat = Path(f"/proc/{self._pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return []
        return stat.rpartition(")")[2].split()

    def _state(self) -> str:
        """Return the letter of the child's state; Z also where it is gone."""
        return next(iter(self._stat()), "Z")

    def _cpu_s(self) -> float:
        """Return the child's processor time so far, in seconds; 0 where it is gone."""
        user, system = self._stat()[11:13] or (0, 0)
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _autopsy(self) -> Exception:
        """Find out why the child's end of the socket is closed: by the request itself, or from outside."""
        pid, until = self._pid, time.monotonic() + ENDED_S
        while (is_alive := self._state() != "Z") and time.monotonic() < until:
            time.sleep(0.001)
        status = self._reap()
        if is_alive:
            return ChildEnded(f"the scoring child {pid} closed its link while it worked")
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == EXIT_MEMORY:
            return LimitExceeded(f"memory limit of {self._memory_bytes >> 20} MiB")
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in CRASH_SIGNALS:
            return LimitExceeded(f"crash by {signal.Signals(os.WTERMSIG(status)).name}")
        died = ChildKilled if os.WIFSIGNALED(status) else ChildEnded
        return died(f"the scoring child {pid} ended with {os.waitstatus_to_exitcode(status)} while it worked")


def _isolate(link_fd: int, parent: int, memory_bytes: int) -> None:
    """Cut the fresh child loose from its parent: signals, descriptors, memory. Runs in the child."""
    gc.freeze()  # the parent's garbage may hold descriptors: collecting it here would close ours by number
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group: the parent decides
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    die_with_parent(parent)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in {0, 1, 2} - {link_fd}:
        os.dup2(null, fd)
    for fd in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if fd > 2 and fd != link_fd:
            with contextlib.suppress(OSError):  # the listing's own descriptor is closed by now
                os.close(fd)
    logging.disable(logging.CRITICAL)  # its handlers' files are closed; errors travel in replies
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    address_space = _mapped_bytes() + memory_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or address_space < hard:
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    sys.setrecursionlimit(
        _stack_depth() + RECURSION_FRAMES
    )  # or a verdict would depend on the parent's stack


def _serve(link: socket.socket, target: Callable[[Request], Reply], memory_bytes: int) -> NoReturn:
    """Answer requests until the parent goes. Runs in the child."""
    spent_bytes = _mapped_bytes() + memory_bytes // 2
    while True:
        try:
            request = _receive(link, None)
        except (EOFError, ConnectionError):
            os._exit(0)
        envelope: dict[str, Any]
        try:
            try:
                envelope = {"reply": target(request)}
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001 - whatever it is, the parent raises it
                envelope = {"bug": traceback.format_exc(limit=-20)}
            # Caches grow: a child that has half its room left is replaced, so that no answer pays for those before it.
            envelope["spent"] = _mapped_bytes() > spent_bytes
            _send(link, envelope, None)
        except MemoryError:
            os._exit(EXIT_MEMORY)


def _send(link: socket.socket, message: dict[str, Any], deadline: float | None) -> None:
    """Write one JSON object as a frame. `deadline` is a monotonic time; TimeoutError after it."""
    data = framed(json.dumps(message).encode("ascii"))
    link.settimeout(_remaining(deadline))
    link.sendall(data)


def _receive(link: socket.socket, deadline: float | None) -> dict[str, Any]:
    """Read one JSON object. EOFError where the other side is gone, TimeoutError after `deadline`."""

    def read(size: int) -> bytes:
        link.settimeout(_remaining(deadline))
        return link.recv(size)

    message: dict[str, Any] = json.loads(read_frame(read))
    return message


def _remaining(deadline: float | None) -> float | None:
    """Return the seconds left until `deadline`; None: no limit. Raises TimeoutError where none are left."""
    if deadline is None:
        return None
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def _mapped_bytes() -> int:
    """Return the bytes of this process's address space, which RLIMIT_AS counts."""
    return int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()


def _stack_depth() -> int:
    return sum(1 for _ in traceback.walk_stack(None))
