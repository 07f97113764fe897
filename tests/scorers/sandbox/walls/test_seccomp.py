"""The filter's programs, run by hand on calls of both architectures."""

from __future__ import annotations

import errno
import signal
import struct

import pytest

from scorers.sandbox.walls.seccomp import (
    ALLOW,
    AND,
    ARCHITECTURES,
    EQUAL,
    ERRNO,
    GREATER_OR_EQUAL,
    KILL_PROCESS,
    LOAD,
    RETURN,
    assemble,
    bubblewrap_rules,
    common_rules,
    landlock_rules,
)
from scorers.sandbox.walls.syscalls import HIGHEST, NUMBERS

pytestmark = pytest.mark.process

EPERM, ENOSYS = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS
EOPNOTSUPP = ERRNO | errno.EOPNOTSUPP
MINE = 4711
FILTERS = {
    "bubblewrap": [*common_rules(), *bubblewrap_rules()],
    "landlock": [*common_rules(), *landlock_rules(None)],
    "old landlock": [*common_rules(), *landlock_rules(MINE)],
}


def answer(program: bytes, number: int, arch: int, args: tuple[int, ...] = ()) -> int:
    """Return what the kernel does: run the BPF program on `struct seccomp_data`."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *(*args, *(0,) * (6 - len(args))))
    at, accumulator = 0, 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("<HBBI", program, at * 8)
        at += 1
        match code:
            case _ if code == LOAD:
                accumulator = struct.unpack_from("<I", data, value)[0]
            case _ if code == AND:
                accumulator &= value
            case _ if code == EQUAL:
                at += if_true if accumulator == value else if_false
            case _ if code == GREATER_OR_EQUAL:
                at += if_true if accumulator >= value else if_false
            case _ if code == RETURN:
                return int(value)
            case _:
                raise AssertionError(code)


CALLS = [
    ("all", "ptrace", (), EPERM),
    ("all", "setsid", (), EPERM),
    ("all", "clone3", (), ENOSYS),
    ("all", "clone", (signal.SIGCHLD,), ALLOW),
    ("all", "clone", (signal.SIGKILL,), EPERM),
    ("all", "clone", (0x10000000 | signal.SIGCHLD,), EPERM),
    ("all", "clone", (0x3D0F00,), ALLOW),  # a thread
    ("all", "prlimit64", (0, 3, 1), ALLOW),
    ("all", "prlimit64", (MINE, 3, 1), EPERM),
    ("all", "prlimit64", (0, 0, 0), ALLOW),
    ("all", "prlimit64", (0, 0, 1), EPERM),
    ("all", "prlimit64", (0, 0, 1 << 32), EPERM),
    ("all", "kill", (MINE, signal.SIGKILL), EPERM),
    ("all", "tgkill", (MINE, MINE, signal.SIGKILL), EPERM),
    ("all", "kill", (MINE, signal.SIGTERM), ALLOW),
    ("all", "kill", (0, signal.SIGTERM), ALLOW),
    ("landlock", "kill", (1, signal.SIGTERM), ALLOW),
    ("old landlock", "kill", (1, signal.SIGTERM), EPERM),
    ("old landlock", "pidfd_send_signal", (3, signal.SIGTERM), EPERM),
    ("all", "prctl", (22, 1), EPERM),
    ("all", "prctl", (15,), ALLOW),
    ("landlock", "prctl", (4, 0), EPERM),
    ("landlock", "prctl", (4, 1), ALLOW),
    ("bubblewrap", "prctl", (4, 0), ALLOW),
    ("landlock", "fallocate", (), EOPNOTSUPP),
    ("bubblewrap", "fallocate", (), ALLOW),
    ("landlock", "sendmsg", (), EPERM),
    ("landlock", "sendmmsg", (), EPERM),
    ("bubblewrap", "sendmsg", (), ALLOW),
    ("all", "fcntl", (3, 10, 9), EPERM),
    ("all", "fcntl", (3, 3), ALLOW),
    ("all", "setpriority", (0, 0, 19), ALLOW),
    ("all", "setpriority", (0, MINE, 19), EPERM),
    ("all", "setpriority", (1, 0, 19), EPERM),
    ("all", "setpriority", (2, 0, 19), EPERM),  # PRIO_USER
    ("bubblewrap", "socket", (1, 1), ALLOW),
    ("bubblewrap", "socket", (2, 1), EPERM),
    ("landlock", "socket", (1, 1), EPERM),
    ("all", "socketpair", (1, 1 | 0o2000000), ALLOW),
    ("all", "socketpair", (2, 1), EPERM),
    ("landlock", "socketpair", (1, 2 | 0o2000000), EPERM),
    ("bubblewrap", "connect", (3,), ALLOW),
    ("landlock", "connect", (3,), EPERM),
    ("landlock", "fchmodat", (), EPERM),
    ("bubblewrap", "fchmodat", (), ALLOW),
    ("landlock", "openat", (0, 0, 0o1000), EPERM),
    ("landlock", "openat", (0, 0, 0o1001), ALLOW),
    ("landlock", "openat2", (), ENOSYS),
    ("bubblewrap", "openat2", (), ALLOW),
    ("bubblewrap", "exit_group", (137,), KILL_PROCESS),
    ("bubblewrap", "exit_group", (137 + 256,), KILL_PROCESS),
    ("all", "exit_group", (1,), ALLOW),
    ("landlock", "exit_group", (137,), ALLOW),
]


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(("where", "call", "args", "expected"), CALLS)
def test_a_call_is_answered(
    machine: str, where: str, call: str, args: tuple[int, ...], expected: int
) -> None:
    number = NUMBERS[call][list(ARCHITECTURES).index(machine)]
    assert number is not None
    for name, rules in FILTERS.items():
        if where in ("all", name):
            assert answer(assemble(rules, machine), number, ARCHITECTURES[machine], args) == expected, name


@pytest.mark.parametrize("rules", FILTERS.values(), ids=FILTERS)
def test_only_this_machines_calls_are_understood(rules: list[object]) -> None:
    native, other = ARCHITECTURES["x86_64"], 0x40000003  # i386, in the same process
    program = assemble(rules, "x86_64")  # type: ignore[arg-type]
    assert answer(program, 39, native) == ALLOW
    assert answer(program, 39, other) == KILL_PROCESS
    assert answer(program, 0x40000000 + 39, native) == KILL_PROCESS
    assert answer(program, HIGHEST, native) == ALLOW
    assert answer(program, HIGHEST + 1, native) == ENOSYS


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("rules", FILTERS.values(), ids=FILTERS)
def test_the_filter_is_as_short_as_the_kernel_asks(rules: list[object], machine: str) -> None:
    assert len(assemble(rules, machine)) <= 8 * 4096  # type: ignore[arg-type]
