"""This module turns the child of a fork into the program: standard files, limits, another user, the walls.

In: a `Launch`, prepared by `sandbox.local.execution` before the fork. Out: nothing, it ends in an exec. Runs in
the supervisor's fork, which is small and has one thread. What fails is written to `error_fd`, which an exec closes.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from sandbox.local.orders import RunOrder
from sandbox.walls import landlock
from sandbox.walls.seccomp import Walls, build_filter

PR_SET_PDEATHSIG = 1
OPEN_FILES = 256
FIRST_UID = 0x70000000  # above every range that systemd and the container tools hand out
NOBODY = 65534


@dataclass(frozen=True, slots=True)
class Identity:
    """The user that programs run as; None: our own, since we are no root."""

    uid: int | None
    gid: int | None

    @property
    def number(self) -> int:
        """Return the number of the user."""
        return os.getuid() if self.uid is None else self.uid

    @property
    def is_alone(self) -> bool:
        """Return whether no other process has this user."""
        return self.uid is not None and self.uid >= FIRST_UID

    @classmethod
    def choose(cls, pid: int | None = None) -> Identity:
        """Choose, as root, a user that no other process has: a supervisor has one run at a time, so its pid makes one.

        In a user namespace that does not map it, `nobody`.
        """
        if os.getuid() != 0:
            return cls(None, None)
        with open("/proc/self/uid_map") as table:  # noqa: PTH123
            ranges = [tuple(map(int, line.split())) for line in table]
        mapped = any(
            first <= FIRST_UID and first + count > FIRST_UID + (1 << 22) for first, _, count in ranges
        )
        return cls(FIRST_UID + (pid or os.getpid()), FIRST_UID) if mapped else cls(NOBODY, NOBODY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All that the child of the fork needs to become the program."""

    argv: list[str]
    env: Mapping[str, str]
    folder: str  # working folder; bubblewrap has its own
    stdin_fd: int
    stdout_fd: int
    stderr_fd: int
    error_fd: int
    inherited: tuple[int, ...]  # descriptors that bwrap is to have
    identity: Identity
    limits: Mapping[int, tuple[int, int]]  # by the kernel's number, soft and hard
    ruleset: int | None  # Landlock's
    own_signals: bool  # whether the filter has to keep signals inside
    has_filter: bool = True  # whether Landlock's walls have it here: what is kept gives it to its forks


def become(launch: Launch) -> None:
    """Become the program. It never returns."""
    try:
        os.setsid()
        for source, target in ((launch.stdin_fd, 0), (launch.stdout_fd, 1), (launch.stderr_fd, 2)):
            os.dup2(source, target)
        for descriptor in launch.inherited:
            os.set_inheritable(descriptor, True)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # Python's own dispositions
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o077)
        os.chdir(launch.folder)
        for limit, pair in launch.limits.items():
            resource.setrlimit(limit, pair)
        leave_root(launch.identity)
        landlock.libc.prctl(
            PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0
        )  # after the change of user, which clears it
        if launch.ruleset is not None:
            own_pid = os.getpid() if launch.own_signals else None
            landlock.enter(
                launch.ruleset, build_filter(Walls.LANDLOCK, own_pid) if launch.has_filter else None
            )
        os.execve(launch.argv[0], launch.argv, dict(launch.env))  # noqa: S606 -- that is the point
    except BaseException as error:  # noqa: BLE001 -- whatever it is, this process must not go on as a supervisor
        with suppress(OSError):
            os.write(launch.error_fd, f"{launch.argv[0]}: {error}".encode()[:4096])
    finally:
        os._exit(1)


def limits_of(order: RunOrder, tasks: int | None) -> dict[int, tuple[int, int]]:
    """Return the limits that the kernel itself enforces on each process.

    Args:
        order: of the run.
        tasks: RLIMIT_NPROC; None: set from outside, once bwrap has its namespace.
    """
    limits = order.limits
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    stack = order.stack_bytes if most == resource.RLIM_INFINITY else min(order.stack_bytes, most)
    if order.address_space:
        addresses = address_limit_bytes(limits.memory_bytes)
    else:  # whatever limit its starter has itself
        _, addresses = resource.getrlimit(resource.RLIMIT_AS)
    found = {
        resource.RLIMIT_CPU: (limits.cpu_s, limits.cpu_s),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_FSIZE: (limits.file_bytes, limits.file_bytes),
        resource.RLIMIT_NOFILE: (files, files),
        resource.RLIMIT_STACK: (stack, most),
        resource.RLIMIT_AS: (addresses, addresses),
    }
    if tasks is not None:
        found[resource.RLIMIT_NPROC] = (tasks, tasks)
    return found


def address_limit_bytes(memory_bytes: int) -> int:
    """Return twice the memory: threads reserve addresses (64 MiB and a stack each) that they never fill."""
    return 2 * memory_bytes + (256 << 20)


def leave_root(identity: Identity) -> None:
    """Become a user without rights, for good."""
    if identity.uid is None or identity.gid is None:
        return
    os.setgroups([])
    os.setresgid(identity.gid, identity.gid, identity.gid)
    os.setresuid(identity.uid, identity.uid, identity.uid)
