"""Bubblewrap: namespaces without root. A program sees a file system of its own, no network, and no other process.

In: a `RunOrder`. Out: bwrap's command line. Started by `sandbox.local.launch`; bwrap loads the filter itself, and
tells over `--json-status-fd` which process is the inner one, and at the end the program's exit code: without it the
program was never started, or was killed from outside.

There is no /proc inside. Nothing of ours needs it, a container in which it can't be mounted stays usable, and there is
no /proc/PID/mem to find. What programs do use of it, /dev/stdin, is the very file that is their standard input.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from sandbox.local.orders import RunOrder

SCRATCH = "/tmp"  # inside: the only folder that can be written, beside /dev/shm    # noqa: S108
SHARED_MEMORY = "/dev/shm"  # noqa: S108
SHARED_MEMORY_BYTES = 16 << 20  # of it: for semaphores
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/dev/full")


def find_bwrap() -> str | None:
    """Find the bwrap that `make setup` brought where the system's is missing or too old, else the system's."""
    own = Path(sys.prefix) / "bin" / "bwrap"
    return str(own) if own.exists() else shutil.which("bwrap")


def command_line(
    bwrap: str, order: RunOrder, *, filter_fd: int, status_fd: int, block_fd: int, stdin_file: str
) -> list[str]:
    """Return the arguments of bwrap.

    Args:
        block_fd: bwrap waits until something can be read from it, before it starts the program.
        stdin_file: what is shown as /dev/stdin.
    """
    args = [bwrap, "--unshare-all", "--die-with-parent", "--new-session"]
    for place, size in writable_places(order):
        args += ["--perms", "0700", "--size", str(size), "--tmpfs", place]
    args += _shown(order, stdin_file)
    for pair in order.writable:
        args += ["--bind", *pair]
    args += ["--remount-ro", "/", "--chdir", SCRATCH]
    args += ["--seccomp", str(filter_fd), "--json-status-fd", str(status_fd), "--block-fd", str(block_fd)]
    return [*args, "--", *order.argv]


def writable_places(order: RunOrder) -> tuple[tuple[str, int], ...]:
    """Return where a program may write inside, and how many bytes."""
    return ((SCRATCH, order.limits.scratch_bytes), (SHARED_MEMORY, SHARED_MEMORY_BYTES))


def kept_command_line(bwrap: str, order: RunOrder) -> list[str]:
    """Return the arguments of bwrap for what is kept ready: it writes nowhere, and makes namespaces for its forks.

    Its forks have these namespaces' user, and other ones of each other kind. The right to make them holds in its own
    alone, and no fork has it any more when the program begins (`sandbox.harness.kept`).
    """
    args = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-add", "CAP_SYS_ADMIN"]
    for place, _ in writable_places(order):
        args += ["--dir", place]  # where a file system of each run's own will be
    args += [*_shown(order, os.devnull), "--remount-ro", "/", "--chdir", "/"]
    return [*args, "--", *order.kept]


def _shown(order: RunOrder, stdin_file: str) -> list[str]:
    """Return the arguments for what can be read inside."""
    args: list[str] = []
    for device in DEVICES:
        args += ["--dev-bind", device, device]
    args += ["--dev-bind" if stdin_file == os.devnull else "--ro-bind", stdin_file, "/dev/stdin"]
    for here, inside in order.readable:
        if os.path.islink(here):  # /lib -> usr/lib                 # noqa: PTH114 -- two dozen a run
            args += ["--symlink", os.readlink(here), inside]  # noqa: PTH115
        elif os.path.exists(here):  # noqa: PTH110
            args += ["--ro-bind", here, inside]
    return args
