"""The filter's programs, run by hand on calls of both architectures."""

from __future__ import annotations

import errno
import signal
import struct
from typing import Any

import pytest

from sandbox.walls.seccomp import (
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
from sandbox.walls.syscalls import HIGHEST, NUMBERS

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
        if code == LOAD:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == AND:
            accumulator &= value
        elif code in (EQUAL, GREATER_OR_EQUAL):
            holds = accumulator == value if code == EQUAL else accumulator >= value
            at += if_true if holds else if_false
        else:
            assert code == RETURN
            return int(value)


NAMESPACE, THREAD, PRIO_USER, TRUNCATE = 0x10000000 | signal.SIGCHLD, 0x3D0F00, 2, 0o1000
ANSWERED: dict[tuple[str, int], list[tuple[str, tuple[int, ...]]]] = {
    ("all", ALLOW): [
        ("clone", (signal.SIGCHLD,)), ("clone", (THREAD,)), ("prlimit64", (0, 3, 1)),
        ("prlimit64", (0, 0, 0)), ("kill", (MINE, signal.SIGTERM)), ("kill", (0, signal.SIGTERM)),
        ("prctl", (15,)), ("fcntl", (3, 3)), ("setpriority", (0, 0, 19)),
        ("socketpair", (1, 1 | 0o2000000)), ("exit_group", (1,)),
    ],
    ("all", EPERM): [
        ("ptrace", ()), ("setsid", ()), ("clone", (signal.SIGKILL,)), ("clone", (NAMESPACE,)),
        ("prlimit64", (MINE, 3, 1)), ("prlimit64", (0, 0, 1)), ("prlimit64", (0, 0, 1 << 32)),
        ("kill", (MINE, signal.SIGKILL)), ("tgkill", (MINE, MINE, signal.SIGKILL)), ("prctl", (22, 1)),
        ("fcntl", (3, 10, 9)), ("setpriority", (0, MINE, 19)), ("setpriority", (1, 0, 19)),
        ("setpriority", (PRIO_USER, 0, 19)), ("socketpair", (2, 1)),
    ],
    ("all", ENOSYS): [("clone3", ())],
    ("landlock", ALLOW): [
        ("kill", (1, signal.SIGTERM)), ("prctl", (4, 1)), ("openat", (0, 0, 0o1001)),
        ("exit_group", (137,)),
    ],
    ("landlock", EPERM): [
        ("prctl", (4, 0)), ("sendmsg", ()), ("sendmmsg", ()), ("socket", (1, 1)), ("connect", (3,)),
        ("socketpair", (1, 2 | 0o2000000)), ("fchmodat", ()), ("openat", (0, 0, TRUNCATE)),
    ],
    ("landlock", EOPNOTSUPP): [("fallocate", ())],
    ("landlock", ENOSYS): [("openat2", ())],
    ("old landlock", EPERM): [("kill", (1, signal.SIGTERM)), ("pidfd_send_signal", (3, signal.SIGTERM))],
    ("bubblewrap", ALLOW): [
        ("prctl", (4, 0)), ("fallocate", ()), ("sendmsg", ()), ("socket", (1, 1)), ("connect", (3,)),
        ("fchmodat", ()), ("openat2", ()),
    ],
    ("bubblewrap", EPERM): [("socket", (2, 1))],
    ("bubblewrap", KILL_PROCESS): [("exit_group", (137,)), ("exit_group", (137 + 256,))],
}  # fmt: skip


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("name", FILTERS)
def test_each_call_is_answered_by_each_filter(machine: str, name: str) -> None:
    program, place = assemble(FILTERS[name], machine), list(ARCHITECTURES).index(machine)
    numbers: dict[str, Any] = {call: NUMBERS[call][place] for calls in ANSWERED.values() for call, _ in calls}
    assert None not in numbers.values()
    asked = [
        (call, args, expected)
        for (where, expected), calls in ANSWERED.items()
        if where in ("all", name)
        for call, args in calls
    ]
    found = {
        (call, args): (expected, answer(program, numbers[call], ARCHITECTURES[machine], args))
        for call, args, expected in asked
    }
    assert {call: both for call, both in found.items() if both[0] != both[1]} == {}
    assert len(found) == len(asked), "each stands once in the table"
    assert {where for where, _ in ANSWERED} == {"all", *FILTERS}, "and is asked about"


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
