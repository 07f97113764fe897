"""Keeps the processes of a run alive, and ends them all.

In: a list of commands and a stop event. Out: every line that they write, in `logs/ROLE.log` and to whoever listens, and
an `Outcome`. Run by `millrace up`, in its main thread alone, since a child dies with the thread that forked it. A
process that fails is started again after a pause; one that keeps failing ends the run, and so does one that ends with
code 2, by which a role says that it would fail each time. The learner's end is the run's, whatever its code: it has
said why. A learner that a signal killed could say nothing, and is started again like the others.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker import processes
from broker.monitoring.crash_reports import how_it_ended
from broker.restarts import RestartPolicy, Restarts
from tools.run_view.log_tail import LogTail
from tools.up.orphan_reaper import Guard
from tools.up.role_commands import Command

log = logging.getLogger(__name__)

TICK_S = 0.1
SAY_EVERY_S = 10.0
BAD_CONFIG = 2  # exit code
GRACE_S = 20.0  # more than a generator or the pool of scorers takes to end or hand back what it has begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the run ended."""

    code: int  # 0 done, 1 failed, 128 + signal where the learner was told to end by one
    reason: str  # for people; "" where all went well
    failed_role: str = ""  # whose log explains it


class Child:
    """One command and the process that runs it now."""

    def __init__(self, command: Command, log_file: Path, restarts: Restarts) -> None:
        self.command = command
        self.log = LogTail(log_file)
        self.process: subprocess.Popen[bytes] | None = None
        self.restarts = restarts
        self.was_started = False
        self.is_done = False  # ended with 0: nobody wants it back
        self.is_forgiven = False  # its next death was meant: no restart is counted for it

    @property
    def is_running(self) -> bool:
        """Whether its process has not ended."""
        return self.process is not None and not processes.has_ended(self.process)


class Supervisor:
    """Starts `commands` and keeps them.

    Args:
        environment: of every child, under the command's own.
        logs: folder of ROLE.log; appended to.
        on_line: told (role, line) for every line that a child writes.
        on_tick: called about ten times a second; raises what ends the run.
        on_death: told (role, pid, how) of every process that a signal or an error ended.
        on_giving_up: told (role, reason) when a role's failures end the run, before the learner is asked to end.
        grace_s: for a process other than the learner to end by itself when the run is over.
    """

    def __init__(
        self,
        commands: Sequence[Command],
        *,
        environment: Mapping[str, str],
        logs: Path,
        on_line: Callable[[str, str], None],
        on_tick: Callable[[], None] = lambda: None,
        on_death: Callable[[str, int, str], None] = lambda _role, _pid, _how: None,
        on_giving_up: Callable[[str, str], None] = lambda _role, _reason: None,
        restarts: RestartPolicy | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.children = [
            Child(command, logs / f"{command.role}.log", Restarts(restarts or RestartPolicy()))
            for command in commands
        ]
        self.is_ending = False  # nothing is started again any more
        self._environment = environment
        self._on_line = on_line
        self._on_tick = on_tick
        self._on_death = on_death
        self._on_giving_up = on_giving_up
        self._grace_s = grace_s

    @property
    def running(self) -> int:
        """Processes that run now."""
        return sum(child.is_running for child in self.children)

    def pids(self) -> dict[str, int]:
        """The processes that run now, by role."""
        return {
            child.command.role: child.process.pid
            for child in self.children
            if child.process is not None and child.is_running
        }

    def forgive(self, role: str) -> None:
        """The next death of this role's process is its killer's doing and counts against no limit."""
        for child in self.children:
            child.is_forgiven |= child.command.role == role

    def run(self, stop: threading.Event) -> Outcome:
        """Until the learner ends, something keeps failing, or `stop` is set. Leaves no process."""
        self._guard = Guard()
        try:
            for child in self.children:
                self._start(child)
            outcome = None
            while outcome is None and not stop.is_set():
                outcome = self._tick()
                stop.wait(TICK_S)
            return self._finish(outcome)
        finally:
            for child in self.children:
                if child.process is not None:
                    self._end(child.process)
            self._guard.close()
            self._read_logs()

    def kill(self) -> None:
        """End every process group now, from another thread than the one in `run`."""
        for child in self.children:
            if child.process is not None and child.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.process.pid, signal.SIGKILL)

    def _tick(self) -> Outcome | None:
        self._on_tick()
        self._read_logs()
        for child in self.children:
            if child.process is None:
                if not child.is_done and time.monotonic() >= child.restarts.not_before:
                    self._start(child)
            elif processes.has_ended(child.process) and (outcome := self._ended(child)) is not None:
                return outcome
        return None

    def _start(self, child: Child) -> None:
        environment = {**os.environ, **self._environment, **child.command.environment}
        with child.log.path.open("ab") as output:
            words = (*child.command.args, *(child.command.again if child.was_started else ()))
            child.was_started = True
            child.process = processes.spawn(words, env=environment, stdout=output, stderr=output)
        self._guard.watch(child.process.pid)
        log.info("started role=%s pid=%d", child.command.role, child.process.pid)

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """Kill what is left of its group; returns its exit code."""
        code = processes.stop(process, grace_s=0)
        self._guard.forget(process.pid)
        return code

    def _ended(self, child: Child) -> Outcome | None:
        """Decide what the end of a process means; sweeps what it left in its group."""
        assert child.process is not None  # noqa: S101 - for mypy
        role, pid, code = child.command.role, child.process.pid, self._end(child.process)
        child.process = None
        if child.command.ends_the_run and not _was_killed(code):
            return _outcome_of(role, code)
        if code == 0:
            child.is_done = True
            log.info("ended role=%s code=0", role)
            return None
        self._on_death(role, pid, _words(code))
        if code == BAD_CONFIG:
            return self._give_up(role, f"{role} {_words(code)}: another start would change nothing")
        return self._start_again(child, code)

    def _start_again(self, child: Child, code: int) -> Outcome | None:
        """Plan its next start, or end the run over it where there were too many."""
        role, now, restarts = child.command.role, time.monotonic(), child.restarts
        if child.is_forgiven:
            child.is_forgiven = False
            restarts.excuse(now)
            log.warning("died role=%s by_order=yes restart_in_s=%.1f", role, restarts.not_before - now)
            return None
        if not restarts.fail(now):
            return self._give_up(
                role,
                f"{role} {_words(code)} {restarts.failures} times within {restarts.policy.window_s:.0f} s",
            )
        log.warning(
            "died role=%s how=%r restart_in_s=%.1f restart=%d/%d",
            role,
            _words(code),
            restarts.not_before - now,
            restarts.failures,
            restarts.policy.most,
        )
        return None

    def _give_up(self, role: str, reason: str) -> Outcome:
        self._on_giving_up(role, reason)
        return Outcome(code=1, failed_role=role, reason=reason)

    def _finish(self, outcome: Outcome | None) -> Outcome:
        """End the learner first, so that it commits what it has begun, then the others together."""
        self.is_ending = True
        for child in self.children:
            if child.command.ends_the_run:
                code = (
                    self._finish_learner(child, child.process)
                    if child.process is not None
                    else -signal.SIGTERM
                )
                if (
                    outcome is None and code == -signal.SIGTERM
                ):  # it was not there, or had nothing left to commit
                    outcome = Outcome(code=128 + signal.SIGTERM, reason="stopped")
                outcome = outcome or _outcome_of(child.command.role, code)
        others = [child.process for child in self.children if child.process is not None]
        for process in others:
            if not processes.has_ended(process):
                process.terminate()
        deadline = time.monotonic() + self._grace_s
        while time.monotonic() < deadline and not all(map(processes.has_ended, others)):
            self._on_tick()
            time.sleep(TICK_S)
        for process in others:
            self._end(process)
        return outcome or Outcome(code=0, reason="")

    def _finish_learner(self, child: Child, process: subprocess.Popen[bytes]) -> int:
        """SIGTERM, then wait for as long as its step takes: a second Ctrl-C is what cuts it short."""
        since = said = time.monotonic()
        log.info("stopping: %s finishes its step and commits (again Ctrl-C: now)", child.command.role)
        if not processes.has_ended(process):
            process.terminate()
        while not processes.has_ended(process):
            self._on_tick()
            self._read_logs()
            if time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                log.info("waiting waited_s=%.0f for=%s (again Ctrl-C: now)", said - since, child.command.role)
            time.sleep(TICK_S)
        return self._end(process)

    def _read_logs(self) -> None:
        for child in self.children:
            for line in child.log.new_lines():
                self._on_line(child.command.role, line)


def _outcome_of(role: str, code: int) -> Outcome:
    if code == 0:
        return Outcome(code=0, reason="")
    return Outcome(code=code if code > 0 else 128 - code, reason=f"{role} {_words(code)}", failed_role=role)


def _was_killed(code: int) -> bool:
    """Whether a signal ended it unasked. A learner of several ranks says 128 + N where signal N ended one of them."""
    number = -code if code < 0 else code - 128
    return number in set(signal.Signals) - set(processes.STOP_SIGNALS)


def _words(code: int) -> str:
    return how_it_ended(code) + (" (by the kernel, if memory ran out)" if code == -signal.SIGKILL else "")
