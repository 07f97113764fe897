"""W: an interpreter that has loaded the harness, and is forked for each run instead of being started for it.

In, over a socket of the supervisor's (`sandbox.local.kept`): what a run may use, with its descriptors. Out: one of the
run's first process, and how it ended. W runs nothing but this file and the harness, reads no payload, and holds no
nonce: those come on the run's standard input, which W hands on and closes. So a run finds what a fresh interpreter
would have, and nothing that one before it has done.

W has no filter, since it makes what a run stands behind: within bubblewrap's namespaces, others, whose first process I
is the program's init; with Landlock, a second rule set over W's own. Then the run gives up all rights, takes limits and
the filter, closes W's socket, leaves all frames of W, and only then goes on as the harness does (`start`): with as much
room for recursion as a fresh interpreter has.
"""

# ruff: noqa: SIM105 -- contextlib is no module that a fresh interpreter has

from __future__ import annotations

import gc
import os
import resource  # noqa: F401 - as the first `wait4` would
import sys
from _signal import SIG_DFL, SIGCHLD, SIGINT, SIGKILL, default_int_handler, signal  # type: ignore[import-not-found]
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET, socket

from sandbox.harness.pipe import READY, STATUS, UP, json_text, json_value

if False:
    from typing import Any

MESSAGE_BYTES = 1 << 16
DESCRIPTORS = 5  # standard input, output and error, where a run says what becomes of it, its rule set
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_SET_CHILD_SUBREAPER = 36
_SECCOMP_MODE_FILTER = 2
_LANDLOCK_RESTRICT_SELF = 446
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 2, 4, 0x4000, 0x40000


class WallsRefused(Exception):
    """The kernel refused a part of the walls; the message says which."""


class Runs:
    """The runs of one W."""

    def __init__(self, channel: int, call: Any, give_up_rights: Any) -> None:
        """Take the socket's number, what calls the C library, and what drops all capabilities for good."""
        self._socket = socket(fileno=channel)
        self._call, self._give_up_rights = call, give_up_rights

    def serve(self) -> None:
        """Fork for each run, one at a time, until the supervisor closes its end. Returns in each run's T alone."""
        self._do("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans of a run are ended before the next
        self._do("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0)  # nobody of its user may look into it
        gc.freeze()  # a run looks at none of this, and copies no page of it
        free = _lowest_free()
        self._socket.send(READY)
        while True:
            said, ancillary, _, _ = self._socket.recvmsg(MESSAGE_BYTES, CMSG_SPACE(DESCRIPTORS * 4))
            if not said:
                os._exit(0)
            order = json_value(said.decode("ascii"), is_row=True)
            fds = [
                int.from_bytes(data[at : at + 4], sys.byteorder)
                for _, _, data in ancillary
                for at in range(0, len(data), 4)
            ]
            report = self._one(order, fds)
            if report is None:
                return
            if _lowest_free() != free:
                report["unclean"] = True  # the supervisor ends us
            self._socket.send(json_text(report).encode("ascii"))

    def _one(self, order: dict[str, Any], fds: list[int]) -> dict[str, Any] | None:
        """Have one run made, wait for its end, and say how it ended; None in the run's T."""
        pid = self._forked(order, fds)
        if pid == 0:
            return None
        first = os.pidfd_open(pid)
        for descriptor in fds:
            os.close(descriptor)
        self._socket.sendmsg(
            [json_text({"run": order["run"]}).encode("ascii")],
            [(SOL_SOCKET, SCM_RIGHTS, first.to_bytes(4, sys.byteorder))],
        )
        os.close(first)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        try:
            os.killpg(pid, SIGKILL)  # not yet waited for: the number is still its own
        except OSError:
            pass
        report: dict[str, Any] = {"run": order["run"], "status": None, "cpu_s": 0.0, "peak_kb": 0}
        while True:
            try:
                ended, status, usage = os.wait4(-1, 0)
            except ChildProcessError:
                return report
            if ended == pid:
                report["status"] = status
            report["cpu_s"] += usage.ru_utime + usage.ru_stime
            report["peak_kb"] = max(report["peak_kb"], usage.ru_maxrss)

    def _forked(self, order: dict[str, Any], fds: list[int]) -> int:
        """Return the run's first process; 0 in its T, behind the walls."""
        flags = order["namespaces"]
        pid: int = self._call("syscall", order["clone"], flags | SIGCHLD, 0, 0, 0, 0) if flags else os.fork()
        if pid == 0:
            first = self._init if flags else self._leader
            self._guarded(fds[3], lambda: first(order, fds))
            return 0
        if pid < 0:
            raise WallsRefused("new namespaces")
        return pid

    def _guarded(self, told: int, work: Any) -> None:
        """Do what makes a run, and end this process unless that is done."""
        is_done = False
        try:
            work()
            is_done = True
        except BaseException as error:  # noqa: BLE001 - this process must not go on as W
            os.write(told, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace")[:1000])
        finally:
            if not is_done:
                os._exit(1)

    def _init(self, order: dict[str, Any], fds: list[int]) -> None:
        """Be I, the first of new namespaces: make what is the program's own, and wait for its end. Returns in T."""
        signal(SIGINT, SIG_DFL)  # without a handler no signal of the program reaches its init
        self._socket.close()
        os.setsid()
        self._do("prctl", _PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        self._do("mount", b"none\0", b"/\0", 0, _MS_REC | _MS_PRIVATE, 0)
        for place, size in order["mounts"]:
            options = f"size={size},mode=0700\0".encode("ascii")
            self._do(
                "mount",
                b"tmpfs\0",
                place.encode("ascii") + b"\0",
                b"tmpfs\0",
                _MS_NOSUID | _MS_NODEV,
                options,
            )
        self._give_up_rights()
        pid = os.fork()
        if pid == 0:
            self._program(order, fds)
            return
        for descriptor in (*fds[:3], *fds[4:]):
            os.close(descriptor)
        while True:
            ended, status = os.waitpid(-1, 0)
            if ended == pid:
                break
        os.write(fds[3], STATUS + f"{status}\n".encode("ascii"))
        os._exit(0)

    def _leader(self, order: dict[str, Any], fds: list[int]) -> None:
        """Be T where there is no I: lead a group, which one signal ends."""
        os.setsid()
        self._do("prctl", _PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        self._program(order, fds)

    def _program(self, order: dict[str, Any], fds: list[int]) -> None:
        """Be T: go behind the walls, and close what is W's."""
        signal(SIGINT, default_int_handler)  # Python's own, which I has not
        for target in range(3):
            os.dup2(fds[target], target)
        os.chdir(order["folder"])
        os.environ["HOME"] = order["folder"]
        if "PWD" in os.environ:
            os.environ["PWD"] = order["folder"]
        self._do("prctl", _PR_SET_DUMPABLE, 1, 0, 0, 0)  # a run is its user's own
        self._give_up_rights()
        for number, soft, hard in order["limits"]:
            self._do("setrlimit", number, _words(soft, hard))
        if len(fds) > 4:
            self._do("syscall", _LANDLOCK_RESTRICT_SELF, fds[4], 0)
        self._enter_filter(bytes.fromhex(order["filter"]))
        os.write(fds[3], UP)
        self._socket.detach()
        os.closerange(3, 4096)

    def _enter_filter(self, bpf: bytes) -> None:
        first = id(bpf) + bytes.__basicsize__ - 1  # where a bytes object has its bytes
        program = _words(len(bpf) // 8, first)  # `struct sock_fprog`, of a little-endian machine
        self._do("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0)

    def _do(self, name: str, *arguments: Any) -> None:
        """Call a function of the C library that answers 0. Raises WallsRefused."""
        if self._call(name, *arguments) != 0:
            raise WallsRefused(f"{name}{tuple(one for one in arguments if not isinstance(one, bytes))}")


def _words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, sys.byteorder) for number in numbers)


def _lowest_free() -> int:
    """Return the number that the next descriptor gets: a higher one than before means that one was left open."""
    descriptor = os.dup(1)
    os.close(descriptor)
    return descriptor


def serve(channel: int, call: Any, give_up_rights: Any) -> None:
    """Be W, with what `Runs` takes. Returns in each run's T alone."""
    Runs(channel, call, give_up_rights).serve()
