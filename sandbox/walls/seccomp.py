"""The system calls that a sandboxed program may not make, as a filter for the kernel.

In: which walls the filter goes with. Out: its bytes (classic BPF), loaded by bubblewrap (`--seccomp`) or by
`sandbox.walls.landlock`; nothing here makes a system call. Written by hand instead of through libseccomp, which
a bare machine need not have: the program is a list of "this call, with these arguments: that answer".

A filter of denials: what it does not name is allowed, up to the newest call known to `syscalls`; calls that came later
answer ENOSYS, as they would on an older kernel. One thing is unusual: no signal may be SIGKILL. A program that could
kill itself so would look like one that was killed from outside. That is the one ending that must not be a program's own
doing: the run is tried again, and never scored 0. All roads to it are closed: the kill family, a clone's exit signal,
timers, F_SETSIG, seccomp's strict mode, and a lower RLIMIT_CPU.
"""

from __future__ import annotations

import errno
import platform
import signal
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from sandbox.walls.syscalls import ATTRIBUTES, FOREIGN, HIGHEST, LEAVING, NUMBERS, UNCOUNTED

# linux/audit.h: the architecture of a call, so that no other's numbers are taken for this one's
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000  # x86_64: calls of the x32 ABI, with numbers of their own
LOAD, AND, EQUAL, GREATER_OR_EQUAL, RETURN = (
    0x20,
    0x54,
    0x15,
    0x35,
    0x06,
)  # linux/bpf_common.h, absolute words
ALLOW, ERRNO, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000  # linux/seccomp.h
NEW_NAMESPACES = 0x7E020000  # CLONE_NEW* but CLONE_NEWTIME, which clone can't be given
AF_UNIX, AF_INET, AF_INET6, SOCK_DGRAM = 1, 2, 10, 2
O_ACCMODE, O_TRUNC = 0o3, 0o1000
PR_SET_DUMPABLE, PR_SET_SECCOMP = 4, 22
F_SETOWN, F_SETSIG, F_SETOWN_EX = 8, 10, 15
FIOSETOWN, SIOCSPGRP = 0x8901, 0x8902
FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR = 0x40086602, 0x401C5820
EXIT_CODE_OF_SIGKILL = 128 + signal.SIGKILL
SIGNAL_ARGUMENT = {
    "kill": 1,
    "tkill": 1,
    "tgkill": 2,
    "rt_sigqueueinfo": 1,
    "rt_tgsigqueueinfo": 2,
    "pidfd_send_signal": 1,
}


class Walls(StrEnum):
    """The walls that stand around a program beside the filter."""

    BUBBLEWRAP = "bubblewrap"  # namespaces: nothing else is there to be reached
    LANDLOCK = "landlock"  # the machine's own names and processes: files alone are hidden
    UNSAFE = "unsafe"  # nothing, and no filter


@dataclass(frozen=True, slots=True)
class Where:
    """One test of a call's argument: its low (or high) 32 bits, masked, equal or not equal to a value."""

    argument: int
    value: int
    mask: int = 0xFFFFFFFF
    equal: bool = True
    high: bool = False


@dataclass(frozen=True, slots=True)
class CallRule:
    """A rule gives what a call answers where all tests hold; without a test, always."""

    call: str
    answer: int
    tests: tuple[Where, ...] = ()


def denied(call: str, *tests: Where, error: int = errno.EPERM) -> CallRule:
    """Return the rule that a call fails with this error."""
    return CallRule(call, ERRNO | error, tests)


def common_rules() -> Iterator[CallRule]:
    """Yield the rules for what no walls allow."""
    yield from map(denied, [*FOREIGN, *LEAVING, *UNCOUNTED, "timer_create"])
    yield denied("clone3", error=errno.ENOSYS)  # its flags lie in memory; the C library falls back to clone
    yield denied("clone", Where(0, 0, NEW_NAMESPACES, equal=False))
    yield denied("clone", Where(0, signal.SIGKILL, 0xFF))
    for call, argument in SIGNAL_ARGUMENT.items():
        yield denied(call, Where(argument, signal.SIGKILL))
    for command in (F_SETOWN, F_SETSIG, F_SETOWN_EX):
        yield denied("fcntl", Where(1, command))
    for command in (FIOSETOWN, SIOCSPGRP):
        yield denied("ioctl", Where(1, command))
    yield denied("prctl", Where(0, PR_SET_SECCOMP))
    yield denied("setrlimit", Where(0, 0))  # RLIMIT_CPU is 0
    yield denied("prlimit64", Where(0, 0, equal=False))  # another process
    yield denied("prlimit64", Where(1, 0), Where(2, 0, equal=False))  # a new RLIMIT_CPU: its address is
    yield denied("prlimit64", Where(1, 0), Where(2, 0, equal=False, high=True))  # not null, in either half
    yield denied("setpriority", Where(0, 0, equal=False))  # a group, or all of the user's processes
    yield denied("setpriority", Where(1, 0, equal=False))
    for call in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        yield denied(call, Where(0, 0, equal=False))


def bubblewrap_rules(*, has_loopback: bool = False) -> Iterator[CallRule]:
    """Yield the rules for what bubblewrap's namespaces leave open. With no network, AF_UNIX reaches no one else.

    Args:
        has_loopback: a program may speak TCP with itself; its namespace has no other device.
    """
    families = (AF_UNIX, AF_INET, AF_INET6) if has_loopback else (AF_UNIX,)
    yield denied("socket", *(Where(0, family, equal=False) for family in families))
    yield denied("socketpair", Where(0, AF_UNIX, equal=False))
    for call in ("exit", "exit_group"):  # bubblewrap says 137 for a killed program: nobody else may
        yield CallRule(call, KILL_PROCESS, (Where(0, EXIT_CODE_OF_SIGKILL, 0xFF),))


def landlock_rules(own_pid: int | None) -> Iterator[CallRule]:
    """Yield rules for what Landlock leaves open: named sockets, attributes, before version 6 truncation and signals.

    And for what would hide room on the disk, which is watched and not limited there: room that is reserved, a file on
    its way through a socket, descriptors of a process that nobody may look into.
    """
    yield denied(
        "fallocate", error=errno.EOPNOTSUPP
    )  # as a file system says that has none: the C library writes
    yield from map(denied, ["sendmsg", "sendmmsg"])
    yield denied("prctl", Where(0, PR_SET_DUMPABLE), Where(1, 0))
    yield from map(denied, [*ATTRIBUTES, "socket", "connect"])
    yield denied("socketpair", Where(0, AF_UNIX, equal=False))
    yield denied("socketpair", Where(1, SOCK_DGRAM, 0xF))  # could be connected to a name
    yield denied(
        "open", Where(1, O_TRUNC, O_ACCMODE | O_TRUNC)
    )  # "read-only", and empties the file all the same
    yield denied("openat", Where(2, O_TRUNC, O_ACCMODE | O_TRUNC))
    yield denied("openat2", error=errno.ENOSYS)
    for command in (FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR):
        yield denied("ioctl", Where(1, command))
    if own_pid is None:
        return
    for call in ("kill", "tkill", "tgkill"):  # to its group and itself only
        yield denied(call, Where(0, 0, equal=False), Where(0, own_pid, equal=False))
    yield from map(denied, ["rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"])


@cache
def build_filter(walls: Walls, own_pid: int | None = None, *, has_loopback: bool = False) -> bytes:
    """Build the filter of these walls, for this machine.

    Args:
        has_loopback: as of `bubblewrap_rules`.
        own_pid: the only process that may be sent a signal, where Landlock can't see to that itself.
    Raises:
        KeyError: an architecture that is not known; `supported` asks first.
    """
    is_bubblewrap = walls is Walls.BUBBLEWRAP
    own = bubblewrap_rules(has_loopback=has_loopback) if is_bubblewrap else landlock_rules(own_pid)
    return assemble([*common_rules(), *own], platform.machine())


def supported() -> bool:
    """Return whether this machine's calls are known."""
    return platform.machine() in ARCHITECTURES


def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one `struct sock_filter`."""
    return struct.pack("<HBBI", code, if_true, if_false, value)


def assemble(rules: Iterable[CallRule], machine: str) -> bytes:
    """Assemble the rules, in turn, as BPF over `struct seccomp_data` {nr, arch, instruction pointer, args[6]}."""
    column = list(ARCHITECTURES).index(machine)
    program = [
        instruction(LOAD, 4),
        instruction(EQUAL, ARCHITECTURES[machine], 1, 0),
        instruction(RETURN, KILL_PROCESS),
        instruction(LOAD, 0),
    ]
    if machine == "x86_64":
        program += [instruction(GREATER_OR_EQUAL, X32_BIT, 0, 1), instruction(RETURN, KILL_PROCESS)]
    program += [instruction(GREATER_OR_EQUAL, HIGHEST + 1, 0, 1), instruction(RETURN, ERRNO | errno.ENOSYS)]
    for rule in rules:
        number = NUMBERS[rule.call][column]
        if number is not None:
            program += assemble_rule(rule, number)
    return b"".join([*program, instruction(RETURN, ALLOW)])


def assemble_rule(rule: CallRule, number: int) -> list[bytes]:
    """Assemble one rule: where it does not hold, it falls through to the next, with the call's number loaded."""
    lengths = [2 if test.mask == 0xFFFFFFFF else 3 for test in rule.tests]
    left = sum(lengths) + 1  # instructions from here to the reload of the number
    block = [instruction(EQUAL, number, 0, left + (1 if rule.tests else 0))]
    for test, length in zip(rule.tests, lengths, strict=True):
        left -= length
        block.append(instruction(LOAD, 16 + 8 * test.argument + (4 if test.high else 0)))
        if length == 3:
            block.append(instruction(AND, test.mask))
        block.append(instruction(EQUAL, test.value, *((0, left) if test.equal else (left, 0))))
    block.append(instruction(RETURN, rule.answer))
    if rule.tests:
        block.append(instruction(LOAD, 0))
    return block
