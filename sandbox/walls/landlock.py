"""Landlock: the kernel's file walls for those who may not make namespaces. System calls by number, no library.

In: which files and folders a program may read, and which folder is its own. Out: a rule set, made before the fork by
`sandbox.local.execution` and entered after it by `sandbox.local.launch`. Raises OSError, with what
failed in words.

Landlock asks who opens, makes, renames or removes what, and from its fourth and sixth version on about TCP and signals.
It does not ask about attributes or named sockets: the filter (`sandbox.walls.seccomp`) closes these.
Source: Linux' Documentation/userspace-api/landlock.rst and linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
VERSION_FLAG, PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
MAKE_CHAR, MAKE_BLOCK, IOCTL_DEV = 1 << 6, 1 << 11, 1 << 15
ACCESS_BITS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # version -> how many rights over files it knows
TCP = 0b11  # from 4: bind and connect
SCOPES = 0b11  # from 6: abstract sockets and signals stay inside
SCOPED_SIGNALS = 6  # the version
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


class FilterProgram(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def fail(what: str) -> OSError:
    """Return the error of the call that was just made."""
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def abi_version() -> int:
    """Return Landlock's version here; 0 where the kernel has none, or does not run it."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(VERSION_FLAG))))


def make_ruleset(readable: Iterable[str], writable: Iterable[str]) -> int:
    """Make a file descriptor of the rules: `readable` may be read and executed, below `writable` all may be done.

    What does not exist is left out. A device or a file among the writable ones may be read and written.
    """
    version = abi_version()
    every = (1 << ACCESS_BITS[min(version, max(ACCESS_BITS))]) - 1
    attributes = struct.pack("<Q", every)
    if version >= 4:
        attributes += struct.pack("<Q", TCP)
    if version >= SCOPED_SIGNALS:
        attributes += struct.pack("<Q", SCOPES)
    ruleset = int(
        libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    )
    if ruleset < 0:
        raise fail("landlock_create_ruleset")
    for path in readable:
        add_rule(ruleset, path, every & (EXECUTE | READ_FILE | READ_DIR))
    for path in writable:
        add_rule(ruleset, path, every & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV))
    return ruleset


def add_rule(ruleset: int, path: str, rights: int) -> None:
    """Grant rights on a file, or on a folder and all below it."""
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # nobody can read it either
    try:
        if not stat.S_ISDIR(os.fstat(target).st_mode):
            rights &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
        rule = struct.pack("<Qi", rights, target)
        if libc.syscall(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint(0)):
            raise fail(f"landlock_add_rule for {path}")
    finally:
        os.close(target)


def enter(ruleset: int, bpf: bytes | None) -> None:
    """Put this process, and all that it will start, behind the rules and the filter. There is no way back.

    Args:
        bpf: the filter; None: this process enters a second rule set and a filter later, in its forks.
    """
    zero = ctypes.c_ulong(0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero):
        raise fail("no_new_privs")
    if libc.syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0)):
        raise fail("landlock_restrict_self")
    if bpf is None:
        return
    program = FilterProgram(len(bpf) // 8, bpf)
    if libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(program), zero, zero):
        raise fail("seccomp filter")
