"""An execution starts one run of a program, watches it, ends all of it, and says how it ended.

In: a `RunOrder`. Out: a `Report`. Run by `sandbox.local.supervisor_process`, one at a time. So every child that
the supervisor has or is given belongs to this run: when no child is left, nothing of the run is left. What the program
did is an outcome; a sandbox that could not be set up and a run that was killed from outside are reported as broken.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from sandbox.local import processes
from sandbox.local.folders import folder_bytes
from sandbox.local.launch import Identity, become
from sandbox.local.orders import Report, RunOrder
from sandbox.local.preparation import Pipe, Preparation
from sandbox.program import Ending, ProgramOutcome
from sandbox.walls.seccomp import Walls

COUNT_EVERY_S: Final = 0.2  # tasks of the user's, where others have the same
CROWD: Final = 4  # they took more than this part of what the program was promised
COUNTS: Final = 3  # in a row that have to say so: during one, a program's own tasks come and go
INNER_S: Final = 1.0  # for a namespace to go, before its processes are looked for one by one
SETUP_S: Final = 10.0  # for the walls to stand: a busy machine's slowness is not the program's


class ScorerGone(Exception):
    """The process that wanted this run has ended, and so the run was ended."""


class Execution:
    """One run, from the fork to the last process's end."""

    def __init__(
        self,
        order: RunOrder,
        *,
        base: Path,
        identity: Identity,
        gone_fds: tuple[int, ...],
        spared: frozenset[int] = frozenset(),
        spared_tasks: int = 0,
    ) -> None:
        """Take the folder for scratch folders and the program's user.

        Args:
            gone_fds: what is readable once the scorer is gone.
            spared: children of this process that are not of this run; one that ends is waited for.
            spared_tasks: tasks of the program's user that are ours, and live beside the run.
        """
        self._order = order
        self._base = base
        self._identity = identity
        self._gone_fds = gone_fds
        self._spared, self._spared_tasks = spared, spared_tasks
        self._limits = order.limits
        self._cause: tuple[Ending, str] | None = None  # the limit that ended it
        self._peak_bytes = 0  # of memory, seen by us or by the kernel
        self._cpu_s = 0.0  # of all that has ended and was waited for
        self._inner_fd: int | None = None  # pidfd of bwrap's inner process
        self._started: float | None = None  # when the walls stood
        self._is_crowded = False  # others of the user's took what was promised
        self._next_count = 0.0  # monotonic

    def run(self) -> Report:
        """Run the program. Raises ScorerGone, with no process left running."""
        with ExitStack() as resources:
            self._made = Preparation(
                self._order,
                base=self._base,
                identity=self._identity,
                resources=resources,
                spared_tasks=self._spared_tasks,
            )
            self._tree = processes.Tree()
            forked = self._fork()
            try:
                self._begin(resources)
                for pipe in self._made.pipes:
                    pipe.close_writer()
                self._watch(forked + SETUP_S)
            finally:
                seconds = time.monotonic() - (self._started or forked)
                status = self._end()
            self._count(own=0)
            for pipe in self._made.pipes:
                pipe.read()
            return self._report(status, seconds)

    def _fork(self) -> float:
        """Start the run's first process, and return when."""
        launch = self._made.launch()
        forked = time.monotonic()
        self._pid = os.fork()
        if self._pid == 0:
            become(launch)
        return forked

    def _begin(self, resources: ExitStack) -> None:
        """Take note of the run's first process."""
        self._tree.add_main(self._pid)
        self._main_fd = os.pidfd_open(self._pid)
        resources.callback(os.close, self._main_fd)

    def _watch(self, setup_deadline: float) -> None:
        """Watch until the program has ended, or must end: then `_cause` says why. Raises OSError if it never began."""
        pipes = {pipe.reader: pipe for pipe in self._made.pipes}
        poll = select.poll()
        for descriptor in (*pipes, self._main_fd, *self._gone_fds):
            poll.register(descriptor, select.POLLIN)
        next_look = time.monotonic() + self._order.look_s
        while self._cause is None:
            now = time.monotonic()
            deadline = setup_deadline if self._started is None else self._started + self._limits.wall_s
            if now >= deadline:
                self._cause = self._overdue()
            elif now >= next_look:
                self._look()
                next_look = time.monotonic() + self._order.look_s
            else:
                ready = {
                    descriptor for descriptor, _ in poll.poll((min(deadline, next_look) - now) * 1000 + 1)
                }
                for descriptor in ready & pipes.keys():
                    self._hear(pipes[descriptor])
                    if not pipes[descriptor].is_open:
                        poll.unregister(descriptor)
                if ready & set(self._gone_fds):
                    raise ScorerGone
                if self._main_fd in ready:
                    return

    def _overdue(self) -> tuple[Ending, str]:
        if self._started is None:
            raise TimeoutError(f"no start within {SETUP_S:g} s")
        return Ending.TIME, f"{self._limits.wall_s:g} s of time"

    def _hear(self, pipe: Pipe) -> None:
        """Take what was written, or note that a pipe was closed."""
        pipe.read()
        if pipe is self._made.machinery:
            self._greet()
        elif pipe.is_over:
            self._cause = self._flood()

    def _flood(self) -> tuple[Ending, str]:
        return Ending.OUTPUT, f"more than {self._limits.output_bytes} bytes of output"

    def _greet(self) -> None:
        """Start the clock when the walls stand. Bwrap waits with its namespaces: limit its tasks, and let it go on."""
        if self._started is not None:
            return
        if self._order.walls is not Walls.BUBBLEWRAP:
            self._started = time.monotonic()  # the pipe was closed by an exec
            return
        line, newline, _ = bytes(self._made.machinery.data).partition(b"\n")
        if not newline:
            return
        inner = int(json.loads(line)["child-pid"])
        with suppress(ProcessLookupError):  # it has failed; the report says so
            self._inner_fd = os.pidfd_open(inner)
            if self._made.tasks() is None:
                tasks = self._limits.processes + 1  # bwrap's own one counts
                resource.prlimit(inner, resource.RLIMIT_NPROC, (tasks, tasks))
        self._tree.add_session(inner)
        self._started = time.monotonic()
        if self._made.block_writer is not None:
            os.write(self._made.block_writer, b"x")

    def _count(self, *, own: int) -> None:
        """Note whether the user's other tasks have become so many that this run's own may be refused."""
        if self._made.others is None or self._is_crowded:
            return
        spared = self._made.others + self._limits.processes // CROWD
        for _ in range(COUNTS):
            if not processes.has_more_tasks(self._identity.number, spared + own):
                break
            own = max(own, self._tree.tasks())
        else:
            self._is_crowded = True
        self._next_count = time.monotonic() + COUNT_EVERY_S

    def _look(self) -> None:
        """Check what the kernel does not limit: memory of all processes together, a halt, and the scratch's size."""
        if self._made.others is not None and time.monotonic() >= self._next_count:
            self._count(own=self._tree.tasks())
        held = self._tree.memory_bytes(self._limits.memory_bytes)
        self._peak_bytes = max(self._peak_bytes, held)
        if held > self._limits.memory_bytes:
            self._cause = (
                Ending.MEMORY,
                f"{held >> 20} MiB of memory, {self._limits.memory_bytes >> 20} allowed",
            )
        elif self._tree.is_stopped:
            self._cause = (Ending.TIME, "a signal stopped it for good")
        elif self._order.kept_bytes is not None and self._kept_bytes() > self._order.kept_bytes:
            self._cause = (Ending.OUTPUT, f"more than {self._order.kept_bytes >> 20} MiB of files")
        elif self._made.scratch is not None:
            allowed = self._limits.scratch_bytes
            if self._written_bytes(self._made.scratch, allowed) > allowed:
                self._cause = (Ending.OUTPUT, f"more than {allowed} bytes of files")

    def _kept_bytes(self) -> int:
        """Return the bytes of the folders that are kept behind the run; no more is counted than is enough."""
        most, found = self._order.kept_bytes or 0, 0
        for here, _ in self._order.writable:
            if found <= most:
                found += folder_bytes(Path(here), most - found)
        return found

    def _written_bytes(self, scratch: Path, enough: int) -> int:
        """Return the bytes of disk that the run holds, files without a name among them."""
        written = folder_bytes(scratch, enough)
        if written > enough:
            return written
        strict = self._identity.uid is None  # root may lack the right to look into another user's processes
        device = scratch.stat().st_dev
        return written + self._tree.unnamed_bytes(str(scratch), device, strict=strict)

    def _end(self) -> int:
        """Kill the run's processes, and wait until none is left."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)  # its group can't have been left, and no fork gets past this
        if self._inner_fd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner_fd, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)  # should it not have become the leader of its group yet
        _, status, usage = os.wait4(self._pid, 0)
        self._add(usage)
        self._await_inner()
        rounds = 0
        while True:
            try:
                pid, _, usage = os.wait4(-1, os.WNOHANG)  # what its parents left behind was given to us
            except ChildProcessError:
                return status
            if pid in self._spared:
                self._spared -= {pid}  # it has ended: its number may be another process's from now on
            elif pid:
                self._add(usage)
            else:
                if self._spared and processes.children() <= self._spared:
                    return status
                rounds += 1
                if rounds > 10:
                    processes.kill_children(self._spared)
                time.sleep(0.001)

    def _await_inner(self) -> None:
        """Wait for the last process of bwrap's namespace, which is now our child."""
        if self._inner_fd is not None:
            poll = select.poll()
            poll.register(self._inner_fd, select.POLLIN)
            poll.poll(INNER_S * 1000)
            os.close(self._inner_fd)
            self._inner_fd = None

    def _add(self, usage: resource.struct_rusage) -> None:
        """Add the usage of an ended process and of those it waited for; with bwrap the program is among the latter."""
        self._cpu_s += usage.ru_utime + usage.ru_stime
        self._peak_bytes = max(self._peak_bytes, usage.ru_maxrss * 1024)

    def _report(self, status: int, seconds: float) -> Report:
        if self._cause is None and (self._made.out.is_over or self._made.err.is_over):
            self._cause = self._flood()
        code, broken = self._verdict(os.waitstatus_to_exitcode(status))
        if broken:
            return Report(outcome=None, broken=broken)
        limit = self._limits.output_bytes
        stdout, stderr = bytes(self._made.out.data[:limit]), bytes(self._made.err.data[:limit])
        if self._cause is not None:
            ending, detail, exit_code = *self._cause, None
        elif code < 0:
            ending, detail, exit_code = Ending.SIGNALLED, f"signal {-code}", code
        else:
            ending, detail, exit_code = Ending.EXITED, f"exit code {code}", code
        return Report(
            outcome=ProgramOutcome(
                ending=ending,
                exit_code=exit_code,
                stdout=stdout,
                stderr=stderr,
                seconds=seconds,
                detail=detail,
                is_crowded=self._is_crowded,
            )
        )

    def _verdict(self, code: int) -> tuple[int, str]:
        """Return the exit code, negative for a signal, or what broke. Sets `_cause` where a kernel's limit ended it."""
        if self._cause is not None:
            return code, ""
        said = bytes(self._made.machinery.data).decode(errors="replace")
        if self._order.walls is Walls.BUBBLEWRAP:
            told = [json.loads(line) for line in said.splitlines() if line.endswith("}")]
            codes = [line["exit-code"] for line in told if "exit-code" in line]
            if not codes and code >= 0:
                words = bytes(self._made.err.data[-500:]).decode(errors="replace").strip()
                return code, f"bubblewrap could not start the program: {words or said or code}"
            code = codes[0] if codes else -signal.SIGKILL
            if 128 < code <= 128 + signal.SIGRTMAX:
                code = 128 - code  # bwrap says a signal as shells do
        elif said:
            return code, f"the program could not be started: {said}"
        return self._killed(code)

    def _killed(self, code: int) -> tuple[int, str]:
        """Return the same. A program can't send SIGKILL: where that ended it, a limit or somebody else did."""
        if code == -signal.SIGKILL:
            if self._cpu_s >= self._limits.cpu_s - 0.5:
                self._cause = (Ending.TIME, f"{self._limits.cpu_s} s of processor time")
            elif self._peak_bytes >= self._limits.memory_bytes:
                self._cause = (Ending.MEMORY, f"more than {self._limits.memory_bytes >> 20} MiB of memory")
            else:
                return code, "the run was killed from outside"
        return code, ""
