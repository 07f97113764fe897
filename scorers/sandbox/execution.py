"""One run of one program: start it, watch it, end all of it, say how it ended.

In: an `Order`. Out: a `Report`. Run by the supervisor (`scorers.sandbox.supervisor`), one at a time, so that every child
that this process has or is given belongs to this run: when none is left, nothing of it is left. What the program did is
an outcome; a sandbox that could not be set up and a run that was killed from outside are reported as broken.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from scorers.sandbox import bubblewrap, landlock, processes
from scorers.sandbox.launch import Identity, Launch, become, cpu_limit_s
from scorers.sandbox.orders import Order, Report
from scorers.sandbox.program import Ending, Outcome
from scorers.sandbox.seccomp import Walls, build_filter

LOOK_EVERY_S: Final = 0.02      # at memory and scratch
SETUP_S: Final = 10.0           # for the walls to stand: a busy machine's slowness is not the program's
READ_BYTES: Final = 1 << 16
PIPE_BYTES: Final = 1 << 20     # room in a pipe: fewer turns for much output
MACHINERY_BYTES: Final = 4096   # of what bwrap or the child says about itself


class ScorerGone(Exception):
    """The process that wanted this run is no more; the run was ended."""


class Pipe:
    """The reading end of one of the program's pipes."""

    def __init__(self, limit: int) -> None:
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.reader, False)
        self.data = bytearray()
        self._limit = limit
        self.is_open = True

    def read(self) -> None:
        """What is there now; `is_open` says whether more can come."""
        while self.is_open and not self.is_over:
            try:
                chunk = os.read(self.reader, READ_BYTES)
            except BlockingIOError:
                return
            self.data += chunk
            self.is_open = bool(chunk)

    @property
    def is_over(self) -> bool:
        """More was written than may be."""
        return len(self.data) > self._limit

    def close_writer(self) -> None:
        """In the parent, after the fork: then the end of the program is the end of the pipe."""
        os.close(self.writer)


class Execution:
    """One run, from the fork to the last process's end."""

    def __init__(self, order: Order, *, base: Path, identity: Identity, gone_fds: tuple[int, ...]) -> None:
        """Where scratch folders are made, who the program is, and what becomes readable when the scorer is gone."""
        self._order = order
        self._base = base
        self._identity = identity
        self._gone_fds = gone_fds
        self._limits = order.limits
        self._cause: tuple[Ending, str] | None = None       # the limit that ended it
        self._peak_bytes = 0
        self._inner_fd: int | None = None                   # pidfd of bwrap's inner process
        self._exit_code: int | None = None                  # as bwrap told
        self._resources = ExitStack()

    def run(self) -> Report:
        """Do it. Raises ScorerGone, with nothing left running."""
        with self._resources:
            self._out, self._err = Pipe(self._limits.output_bytes), Pipe(self._limits.output_bytes)
            self._machinery = Pipe(MACHINERY_BYTES)
            for pipe in (self._out, self._err, self._machinery):
                self._resources.callback(os.close, pipe.reader)
            for pipe in (self._out, self._err):
                with suppress(PermissionError):             # of an unprivileged user who has many
                    fcntl.fcntl(pipe.writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            launch = self._prepare()
            self._started: float | None = None              # when the walls stood
            forked = time.monotonic()
            self._pid = os.fork()
            if self._pid == 0:
                become(launch)
            self._tree = processes.Tree(self._pid)
            for pipe in (self._out, self._err, self._machinery):
                pipe.close_writer()
            try:
                self._watch(forked + SETUP_S)
            finally:
                seconds = time.monotonic() - (self._started or forked)
                status, usage = self._end()
            for pipe in (self._out, self._err, self._machinery):
                pipe.read()
            return self._report(status, usage, seconds)

    def _prepare(self) -> Launch:
        """Everything that can be made before the fork."""
        order = self._order
        stdin_fd = self._stdin()
        if order.walls is Walls.BUBBLEWRAP:
            return self._prepare_bubblewrap(stdin_fd)
        scratch = self._scratch()
        ruleset, own_signals = None, False
        if order.walls is Walls.LANDLOCK:
            writable = [str(scratch), *bubblewrap.DEVICES, *(order.writable[:1] if order.writable else ())]
            ruleset = landlock.make_ruleset([here for here, _ in order.readable], writable)
            self._resources.callback(os.close, ruleset)
            own_signals = landlock.abi_version() < landlock.SCOPED_SIGNALS
        return Launch(
            order=order, argv=list(order.argv), env={**order.env, "HOME": str(scratch)}, folder=str(scratch),
            stdin_fd=stdin_fd, stdout_fd=self._out.writer, stderr_fd=self._err.writer, error_fd=self._machinery.writer,
            inherited=(), identity=self._identity, tasks=self._tasks(),
            ruleset=ruleset, own_signals=own_signals)

    def _prepare_bubblewrap(self, stdin_fd: int) -> Launch:
        bwrap = bubblewrap.find_bwrap()
        if bwrap is None:
            raise FileNotFoundError("bwrap is gone")
        block_reader, self._block_writer = os.pipe2(os.O_CLOEXEC)
        filter_fd = self._memory_file(build_filter(Walls.BUBBLEWRAP))
        copy_fd = os.open(f"/proc/self/fd/{stdin_fd}", os.O_RDONLY | os.O_CLOEXEC) if self._order.stdin else None
        for descriptor in (block_reader, self._block_writer, *([] if copy_fd is None else [copy_fd])):
            self._resources.callback(os.close, descriptor)
        argv = bubblewrap.command_line(bwrap, self._order, filter_fd=filter_fd, status_fd=self._machinery.writer,
                                       block_fd=block_reader, stdin_fd=copy_fd)
        inherited = (filter_fd, self._machinery.writer, block_reader, *([] if copy_fd is None else [copy_fd]))
        return Launch(
            order=self._order, argv=argv, env={**self._order.env, "HOME": bubblewrap.SCRATCH}, folder="/",
            stdin_fd=stdin_fd, stdout_fd=self._out.writer, stderr_fd=self._err.writer, error_fd=self._machinery.writer,
            inherited=inherited, identity=self._identity, tasks=self._tasks(), ruleset=None, own_signals=False)

    def _tasks(self) -> int | None:
        """RLIMIT_NPROC, which counts all tasks of the user; None: set in bwrap's namespace, which counts its own."""
        uid = self._identity.uid
        if uid is None and self._order.walls is Walls.BUBBLEWRAP:
            return None
        bwraps = 2 if self._order.walls is Walls.BUBBLEWRAP else 0
        others = 0 if self._identity.is_alone else processes.threads_of_user(os.getuid() if uid is None else uid)
        return others + bwraps + self._limits.processes

    def _stdin(self) -> int:
        if self._order.stdin:
            return self._memory_file(self._order.stdin)
        descriptor = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._resources.callback(os.close, descriptor)
        return descriptor

    def _memory_file(self, content: bytes) -> int:
        """A file in memory, read from its start."""
        descriptor = os.memfd_create("sandbox")
        self._resources.callback(os.close, descriptor)
        with open(descriptor, "wb", closefd=False) as file:         # noqa: PTH123 -- a descriptor has no path
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def _scratch(self) -> Path:
        """A folder for this run alone, where the walls can't bring one of their own."""
        scratch = Path(tempfile.mkdtemp(prefix="run-", dir=self._base))
        self._resources.callback(remove_folder, scratch)
        self._folder: Path | None = scratch
        if self._identity.uid is not None and self._identity.gid is not None:
            os.chown(scratch, self._identity.uid, self._identity.gid)
        return scratch

    def _watch(self, setup_deadline: float) -> None:
        """Until the program has ended, or is to be ended: then `_cause` says why. Raises OSError if it never began."""
        main_fd = os.pidfd_open(self._pid)
        self._resources.callback(os.close, main_fd)
        pipes = {pipe.reader: pipe for pipe in (self._out, self._err, self._machinery)}
        poll = select.poll()
        for descriptor in (*pipes, main_fd, *self._gone_fds):
            poll.register(descriptor, select.POLLIN)
        next_look = time.monotonic() + LOOK_EVERY_S
        while self._cause is None:
            now = time.monotonic()
            deadline = setup_deadline if self._started is None else self._started + self._limits.wall_s
            if now >= deadline and self._started is None:
                raise TimeoutError(f"no start within {SETUP_S:g} s")
            if now >= deadline:
                self._cause = (Ending.TIME, f"{self._limits.wall_s:g} s of time")
                return
            if now >= next_look:
                self._look()
                next_look = time.monotonic() + LOOK_EVERY_S
            ready = {descriptor for descriptor, _ in poll.poll(max(0.0, min(deadline, next_look) - now) * 1000)}
            for descriptor in ready & pipes.keys():
                pipes[descriptor].read()
                if not pipes[descriptor].is_open:
                    poll.unregister(descriptor)
            if self._machinery.reader in ready:
                self._greet()
            if self._out.is_over or self._err.is_over:
                self._cause = self._flood()
            if ready & set(self._gone_fds):
                raise ScorerGone
            if main_fd in ready:
                return

    def _flood(self) -> tuple[Ending, str]:
        return Ending.OUTPUT, f"more than {self._limits.output_bytes} bytes of output"

    def _greet(self) -> None:
        """When the walls stand. Bwrap waits with its namespaces ready: limit the tasks in there, and let it go on."""
        if self._started is not None:
            return
        if self._order.walls is not Walls.BUBBLEWRAP:
            self._started = time.monotonic()        # the pipe was closed by an exec
            return
        line, newline, _ = bytes(self._machinery.data).partition(b"\n")
        if not newline:
            return
        inner = int(json.loads(line)["child-pid"])
        tasks = self._limits.processes + 1          # bwrap's own one counts
        with suppress(ProcessLookupError):          # it has failed; the report says so
            self._inner_fd = os.pidfd_open(inner)
            self._resources.callback(os.close, self._inner_fd)
            if self._tasks() is None:
                resource.prlimit(inner, resource.RLIMIT_NPROC, (tasks, tasks))
        self._tree.add_session(inner)
        self._started = time.monotonic()
        os.write(self._block_writer, b"x")

    def _look(self) -> None:
        """At what no limit of the kernel's sees to: memory of all processes together, and the scratch folder's size."""
        held = self._tree.memory_bytes()
        self._peak_bytes = max(self._peak_bytes, held)
        if held > self._limits.memory_bytes:
            self._cause = (Ending.MEMORY, f"{held >> 20} MiB of memory, {self._limits.memory_bytes >> 20} allowed")
        elif self._order.walls is not Walls.BUBBLEWRAP and self._folder is not None:
            if folder_bytes(self._folder) > self._limits.scratch_bytes:
                self._cause = (Ending.OUTPUT, f"more than {self._limits.scratch_bytes} bytes of files")

    def _end(self) -> tuple[int, resource.struct_rusage]:
        """Kill all of it, and wait until no process of it is left."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)        # its group can't have been left, and no fork gets past this
        if self._inner_fd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner_fd, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)          # should it not have become the leader of its group yet
        _, status, usage = os.wait4(self._pid, 0)
        rounds = 0
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:  # what its parents left behind was given to us
                    rounds += 1
                    if rounds > 10:
                        processes.kill_children()
                    time.sleep(0.001)
            except ChildProcessError:
                return status, usage

    def _report(self, status: int, usage: resource.struct_rusage, seconds: float) -> Report:
        if self._cause is None and (self._out.is_over or self._err.is_over):
            self._cause = self._flood()
        code, broken = self._verdict(os.waitstatus_to_exitcode(status), usage)
        if broken:
            return Report(outcome=None, broken=broken)
        limit = self._limits.output_bytes
        stdout, stderr = bytes(self._out.data[:limit]), bytes(self._err.data[:limit])
        if self._cause is not None:
            ending, detail, exit_code = *self._cause, None
        elif code < 0:
            ending, detail, exit_code = Ending.SIGNALLED, f"signal {-code}", code
        else:
            ending, detail, exit_code = Ending.EXITED, f"exit code {code}", code
        return Report(outcome=Outcome(ending=ending, exit_code=exit_code, stdout=stdout, stderr=stderr,
                                      seconds=seconds, detail=detail))

    def _verdict(self, code: int, usage: resource.struct_rusage) -> tuple[int, str]:
        """The exit code, negative for a signal, or what broke. Sets `_cause` where the kernel's limit was the end."""
        if self._cause is not None:
            return code, ""
        said = bytes(self._machinery.data).decode(errors="replace")
        if self._order.walls is Walls.BUBBLEWRAP:
            told = [json.loads(line) for line in said.splitlines() if line.endswith("}")]
            codes = [line["exit-code"] for line in told if "exit-code" in line]
            if not codes and code >= 0:
                words = bytes(self._err.data[-500:]).decode(errors="replace").strip()
                return code, f"bubblewrap could not start the program: {words or said or code}"
            code = codes[0] if codes else -signal.SIGKILL
            if 128 < code <= 128 + signal.SIGRTMAX:
                code = 128 - code               # bwrap says a signal as shells do
        elif said:
            return code, f"the program could not be started: {said}"
        if code == -signal.SIGKILL:             # it can't have done that itself
            if usage.ru_utime + usage.ru_stime >= cpu_limit_s(self._limits.wall_s) - 0.5:
                self._cause = (Ending.TIME, "too much processor time")
            elif max(self._peak_bytes, usage.ru_maxrss * 1024) >= self._limits.memory_bytes:
                self._cause = (Ending.MEMORY, f"more than {self._limits.memory_bytes >> 20} MiB of memory")
            else:
                return code, "the run was killed from outside"
        return code, ""


def folder_bytes(folder: Path) -> int:
    """Disk that a folder takes, while it is being written; links are not followed."""
    total = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                total += max(4096, entry.stat(follow_symlinks=False).st_blocks * 512)
                if entry.is_dir(follow_symlinks=False):
                    total += folder_bytes(Path(entry.path))
    return total


def remove_folder(folder: Path) -> None:
    """Remove what a program left, also folders that it closed against everybody."""
    def unlock(_function: object, path: str, _error: object) -> None:
        with suppress(OSError):
            Path(path).parent.chmod(0o700)
            if not Path(path).is_symlink():
                Path(path).chmod(0o700)
    for _ in range(3):
        shutil.rmtree(folder, onerror=unlock)
        if not folder.exists():
            return
