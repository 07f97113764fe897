"""What one run needs before its fork: pipes, standard input, a scratch folder, the walls' rules.

In: a `RunOrder`. Out: a `Launch` for `sandbox.local.launch`, and on an `ExitStack` whatever has to be closed and
removed after the run. Called by `sandbox.local.execution`. Raises OSError where the machine has no room for it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from sandbox.local import processes
from sandbox.local.folders import remove_folder
from sandbox.local.launch import Identity, Launch, limits_of
from sandbox.local.orders import RunOrder
from sandbox.walls import bubblewrap, landlock
from sandbox.walls.seccomp import Walls, build_filter

READ_BYTES: Final = 1 << 16
PIPE_BYTES: Final = 1 << 20  # room in a pipe: fewer turns for much output
MACHINERY_BYTES: Final = 4096  # of what bwrap or the child says about itself


class Pipe:
    """The reading end of one of the program's pipes."""

    def __init__(self, limit: int) -> None:
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.reader, False)
        with suppress(PermissionError):  # of an unprivileged user who has many
            fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.data = bytearray()
        self._limit = limit
        self.is_open = True

    def read(self) -> None:
        """Read what is there now; `is_open` says whether more can come."""
        while self.is_open and not self.is_over:
            try:
                chunk = os.read(self.reader, READ_BYTES)
            except BlockingIOError:
                return
            self.data += chunk
            self.is_open = bool(chunk)

    @property
    def is_over(self) -> bool:
        """Return whether more was written than the run may write."""
        return len(self.data) > self._limit

    def close_writer(self) -> None:
        """Close the writer in the parent, after the fork: then the end of the program is the end of the pipe."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1


class Preparation:
    """Everything that can be made before the fork."""

    def __init__(
        self, order: RunOrder, *, base: Path, identity: Identity, resources: ExitStack, spared_tasks: int = 0
    ) -> None:
        """Take the folder for new folders, the program's user, and the stack that notes what has to be undone.

        Args:
            spared_tasks: tasks of the user's that are ours, and live beside the run.
        """
        self._order = order
        self._base = base
        self._identity = identity
        self._spared_tasks = spared_tasks
        self._resources = resources
        self.out, self.err = Pipe(order.limits.output_bytes), Pipe(order.limits.output_bytes)
        self.machinery = Pipe(MACHINERY_BYTES)  # what bwrap, or the child before its exec, says
        self.pipes = (self.out, self.err, self.machinery)
        for pipe in self.pipes:
            resources.callback(os.close, pipe.reader)
            resources.callback(pipe.close_writer)
        self.scratch: Path | None = None  # where its size is ours to watch
        self.block_writer: int | None = None  # lets bwrap go on
        self.others: int | None = None  # tasks of the user's when the limit was set; None: has none

    def launch(self) -> Launch:
        """Return what the child is told. The walls of bubblewrap bring a scratch folder of their own."""
        order = self._order
        if order.walls is Walls.BUBBLEWRAP:
            return self._prepare_bubblewrap()
        stdin_fd = self._memory_file(order.stdin) if order.stdin else self._stdin_file()[0]
        scratch = self._scratch(self._base)
        ruleset, own_signals = None, False
        if order.walls is Walls.LANDLOCK:
            ruleset = self._ruleset([here for here, _ in order.readable], [str(scratch)])
            own_signals = landlock.abi_version() < landlock.SCOPED_SIGNALS
        return Launch(
            argv=list(order.argv),
            env={**order.env, "HOME": str(scratch)},
            folder=str(scratch),
            stdin_fd=stdin_fd,
            stdout_fd=self.out.writer,
            stderr_fd=self.err.writer,
            error_fd=self.machinery.writer,
            inherited=(),
            identity=self._identity,
            limits=limits_of(self._order, self.tasks()),
            ruleset=ruleset,
            own_signals=own_signals,
        )

    def _prepare_bubblewrap(self) -> Launch:
        bwrap = bubblewrap.find_bwrap()
        if bwrap is None:
            raise FileNotFoundError("bwrap is gone")
        block_reader, self.block_writer = os.pipe2(os.O_CLOEXEC)
        for descriptor in (block_reader, self.block_writer):
            self._resources.callback(os.close, descriptor)
        filter_fd = self._memory_file(build_filter(Walls.BUBBLEWRAP, has_loopback=self._order.has_loopback))
        stdin_fd, stdin_file = self._stdin_file()
        argv = bubblewrap.command_line(
            bwrap,
            self._order,
            filter_fd=filter_fd,
            status_fd=self.machinery.writer,
            block_fd=block_reader,
            stdin_file=stdin_file,
        )
        return Launch(
            argv=argv,
            env={**self._order.env, "HOME": bubblewrap.SCRATCH},
            folder="/",
            stdin_fd=stdin_fd,
            stdout_fd=self.out.writer,
            stderr_fd=self.err.writer,
            error_fd=self.machinery.writer,
            inherited=(filter_fd, self.machinery.writer, block_reader),
            identity=self._identity,
            limits=limits_of(self._order, self.tasks()),
            ruleset=None,
            own_signals=False,
        )

    def tasks(self) -> int | None:
        """Return RLIMIT_NPROC, which counts the user's tasks; None: set in bwrap's namespace, which counts its own."""
        uid = self._identity.uid
        if uid is None and self._order.walls is Walls.BUBBLEWRAP:
            return None
        bwraps = 2 if self._order.walls is Walls.BUBBLEWRAP else 0
        self.others = None if self._identity.is_alone else processes.tasks_of_user(self._identity.number)
        beside = self._spared_tasks if self.others is None else self.others
        return beside + bwraps + self._order.limits.processes

    def _stdin_file(self) -> tuple[int, str]:
        """Return a file with the standard input, open and by its name. A program that has it open can empty it."""
        if not self._order.stdin:
            descriptor, path = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), os.devnull
        else:
            descriptor, path = tempfile.mkstemp(prefix="stdin-", dir=self._base)
            self._resources.callback(os.unlink, path)
            if self._identity.uid is not None and self._identity.gid is not None:
                os.fchown(descriptor, self._identity.uid, self._identity.gid)
            write_from_start(descriptor, self._order.stdin)
        self._resources.callback(os.close, descriptor)
        return descriptor, path

    def _memory_file(self, content: bytes) -> int:
        """Return a file in memory, to be read from its start."""
        descriptor = os.memfd_create("sandbox")
        self._resources.callback(os.close, descriptor)
        write_from_start(descriptor, content)
        return descriptor

    def kept_run(self, folder: Path) -> tuple[list[int], str]:
        """Return the descriptors for a fork of what is kept ready, and its working folder.

        Args:
            folder: for scratch folders, where the walls bring none of their own.
        """
        stdin_fd = self._memory_file(self._order.stdin)
        fds = [stdin_fd, self.out.writer, self.err.writer, self.machinery.writer]
        if self._order.walls is Walls.BUBBLEWRAP:
            return fds, bubblewrap.SCRATCH
        scratch = str(self._scratch(folder))
        # What is kept ready has rules for all that may be read, which hold for its forks: these are only more narrow.
        return [*fds, self._ruleset(["/"], [scratch])], scratch

    def _ruleset(self, readable: list[str], writable: list[str]) -> int:
        places = [*writable, *bubblewrap.DEVICES, *(here for here, _ in self._order.writable)]
        ruleset = landlock.make_ruleset(readable, places)
        self._resources.callback(os.close, ruleset)
        return ruleset

    def _scratch(self, folder: Path) -> Path:
        """Make a folder for this run alone, where the walls bring none of their own."""
        scratch = Path(tempfile.mkdtemp(prefix="run-", dir=folder))
        self._resources.callback(remove_folder, scratch)
        self.scratch = scratch
        if self._identity.uid is not None and self._identity.gid is not None:
            os.chown(scratch, self._identity.uid, self._identity.gid)
        return scratch


def write_from_start(descriptor: int, content: bytes) -> None:
    """Write a file's content, and go back to its start."""
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
