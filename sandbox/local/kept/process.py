"""What is kept ready: a process behind the walls that has loaded the harness, and is forked for each run of it.

In: orders that name such a process (`RunOrder.kept`). Out: a run of it for each, as `sandbox.local.kept.execution`
watches them. Held by a supervisor, one at a time (`sandbox.local.supervisor_process`). What runs inside is
`sandbox.harness.kept`, which says what of the walls is made anew for each run. The process never runs a program, and
none can reach it. Where it does not start, dies, or does not answer as it should, `KeptFailed` is raised, and the
program is started the ordinary way. After RUNS runs a new one takes its place.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import select
import signal
import socket
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sandbox.harness.pipe import READY
from sandbox.local import processes
from sandbox.local.folders import remove_folder
from sandbox.local.launch import Identity, Launch, become, limits_of
from sandbox.local.orders import RunOrder
from sandbox.walls import bubblewrap, landlock
from sandbox.walls.seccomp import ARCHITECTURES, Walls, build_filter
from sandbox.walls.syscalls import NUMBERS

RUNS: Final = 1000  # of one process
START_S: Final = 10.0  # for it to load, and for a fork of it to begin
END_S: Final = (
    10.0  # for a run's end to be told, after its first process's; for all to be gone that was killed
)
MESSAGE_BYTES: Final = 1 << 16
# Of every kind but the user's, in which the process has the right to make them.
NAMESPACES: Final = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x20000000 | 0x40000000
BESIDE: Final = 3  # tasks in bubblewrap's namespaces beside the program's: its own one, W and I


class KeptFailed(Exception):
    """What is kept ready can't be had, or is not to be trusted any more; the message says why."""


@dataclass(frozen=True, slots=True)
class Started:
    """A run that has begun."""

    pidfd: int  # of its first process, which the caller closes
    pid: int
    number: int


class Kept:
    """One process that is kept ready."""

    def __init__(self, order: RunOrder, *, base: Path, identity: Identity) -> None:
        """Start it for orders like this one, and wait until it is ready. Raises KeptFailed, OSError."""
        self._key = _key(order)
        self._walls = order.walls
        self._runs = 0
        self._is_ended = False  # by us
        self._own = ExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="kept-", dir=base))  # for scratch folders, behind Landlock
        self._own.callback(remove_folder, self.folder)
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said, saying = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._own.callback(self._connection.close)
        self._own.callback(os.close, self._said)
        try:
            self.folder.chmod(0o711)
            launch = self._launch(order, identity, theirs.fileno(), saying)
            self.pid = os.fork()
            if self.pid == 0:
                become(launch)
            self._pidfd = os.pidfd_open(self.pid)
            self._own.callback(os.close, self._pidfd)
        except OSError:
            processes.reap_children(END_S)  # no other child is left between two runs
            self._own.close()
            raise
        finally:
            theirs.close()
            os.close(saying)
        if self._receive(START_S)[0] != READY:
            raise self.failed("it did not say that it is ready")

    def _launch(self, order: RunOrder, identity: Identity, channel: int, saying: int) -> Launch:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._own.callback(os.close, nothing)
        argv, ruleset = [*order.kept, str(channel)], None
        if order.walls is Walls.BUBBLEWRAP:
            bwrap = bubblewrap.find_bwrap()
            if bwrap is None:
                raise FileNotFoundError("bwrap is gone")
            argv = [*bubblewrap.kept_command_line(bwrap, order), str(channel)]
        else:
            writable = [str(self.folder), *bubblewrap.DEVICES]
            ruleset = landlock.make_ruleset([here for here, _ in order.readable], writable)
            self._own.callback(os.close, ruleset)
        limits = limits_of(order, None)
        kept = (resource.RLIMIT_STACK, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)
        return Launch(
            argv=argv,
            env={**order.env, "HOME": "/"},
            folder="/",
            stdin_fd=nothing,
            stdout_fd=nothing,
            stderr_fd=saying,
            error_fd=saying,
            inherited=(channel,),
            identity=identity,
            limits={number: limits[number] for number in kept},
            ruleset=ruleset,
            own_signals=False,
            has_filter=False,
        )

    @property
    def is_alive(self) -> bool:
        """Return whether it can have a run. Once it can't, its number may be another process's."""
        if self._is_ended:
            return False
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)  # readable once it has ended, whoever has waited for it
        return not poll.poll(0)

    @property
    def tasks(self) -> int:
        """Count its tasks between two runs: with bubblewrap also that one's two."""
        return 3 if self._walls is Walls.BUBBLEWRAP else 1

    def fits(self, order: RunOrder) -> bool:
        """Return whether it can have this order run, too."""
        return self.is_alive and self._runs < RUNS and self._key == _key(order)

    def start(self, order: RunOrder, fds: list[int], *, folder: str, tasks: int | None) -> Started:
        """Have it fork for a run.

        Args:
            fds: standard input, output and error, where the run says what becomes of it, and a rule set with Landlock.
            folder: the run's working folder.
            tasks: RLIMIT_NPROC, as for `limits_of`.
        Raises:
            KeptFailed: no run has begun, or nobody knows which.
        """
        self._runs += 1
        is_inner = self._walls is Walls.BUBBLEWRAP
        message = {
            "run": self._runs,
            "namespaces": NAMESPACES if is_inner else 0,
            "clone": NUMBERS["clone"][list(ARCHITECTURES).index(platform.machine())],
            "mounts": bubblewrap.writable_places(order) if is_inner else (),
            "folder": folder,
            "limits": [(number, *map(_unsigned, pair)) for number, pair in limits_of(order, tasks).items()],
            "filter": build_filter(self._walls).hex(),
        }
        try:
            socket.send_fds(self._connection, [json.dumps(message).encode("ascii")], fds)
        except OSError as error:
            raise self.failed(str(error)) from error
        said, received = self._receive(START_S)
        if self._read(said).get("run") != self._runs or len(received) != 1:
            for descriptor in received:
                os.close(descriptor)
            raise self.failed("it did not answer for the run that it was asked for")
        return Started(received[0], _pid_of(received[0]), self._runs)

    def ended(self, started: Started) -> Mapping[str, Any]:
        """Return its word on a run whose first process has ended. Raises KeptFailed."""
        report = self._read(self._receive(END_S)[0])
        if report.get("run") != started.number or not isinstance(report.get("status"), int):
            raise self.failed("it did not answer for the run that has ended")
        if report.get("unclean"):
            self.end()
        return report

    def _receive(self, within_s: float) -> tuple[bytes, list[int]]:
        """Return its next message. Raises KeptFailed."""
        self._connection.settimeout(within_s)
        try:
            said, fds, _, _ = socket.recv_fds(self._connection, MESSAGE_BYTES, 1)
        except OSError as error:
            raise self.failed(f"no answer: {error}") from error
        if not said:
            raise self.failed("it has ended")
        return said, fds

    def _read(self, said: bytes) -> dict[str, Any]:
        try:
            found = json.loads(said)
        except (ValueError, RecursionError) as error:
            raise self.failed(f"no message of ours: {said[:80]!r}") from error
        return found if isinstance(found, dict) else {}

    def failed(self, why: str) -> KeptFailed:
        """End it, and return the error that says why."""
        said = b""
        with suppress(OSError):
            said = os.read(self._said, 4096)
        self.end()
        words = said.decode(errors="replace").strip().splitlines()
        return KeptFailed(f"{why}: {words[-1]}" if words else why)

    def end(self) -> None:
        """End it with all that it has started. Raises TimeoutError where some of that does not end."""
        if self._is_ended:
            return
        self._is_ended = True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        try:
            processes.reap_children(END_S)  # what it leaves behind is ours
        finally:
            self._own.close()


def can_be_kept(order: RunOrder) -> bool:
    """Return whether walls like these can be made by a process that stands behind others of their kind."""
    if order.writable or order.has_loopback:
        return False
    if order.walls is Walls.BUBBLEWRAP:  # a run's own file systems would cover what is shown below them
        places = tuple(f"{place}/" for place, _ in bubblewrap.writable_places(order))
        return not any(inside.startswith(places) for _, inside in order.readable)
    # It has its programs' user, and so their signals have to be kept from it.
    return order.walls is Walls.LANDLOCK and landlock.abi_version() >= landlock.SCOPED_SIGNALS


def _key(order: RunOrder) -> tuple[object, ...]:
    """Return what has to be the same for two orders to be forks of one process."""
    return (order.walls, order.kept, tuple(sorted(order.env.items())), order.readable, order.stack_bytes)


def _unsigned(value: int) -> int:
    return value & ((1 << 64) - 1)  # RLIM_INFINITY is -1


def _pid_of(pidfd: int) -> int:
    """Return the pid, as it is here, of a process of another namespace. Raises OSError."""
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as table:  # noqa: PTH123 -- once a run
        return next(int(line.split()[1]) for line in table if line.startswith("Pid:"))
