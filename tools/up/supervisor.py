"""Keep the processes of a run alive, and end them all.

In: a list of commands and a stop event. Out: every line that the processes write, in `logs/ROLE.log` and to `on_line`,
and a `RunEnd`. Run by `millrace up`, in its main thread alone: the kernel ends a process with the thread that forked
it. A process that fails is restarted after a pause. A process that keeps failing ends the run, and so does exit code 2,
with which a role says that a restart would fail, too. A full disk ends the run at once, and so do three starts that
fail for the same reason, however long they take. The learner's end is the run's, whatever the code: the learner has
given the reason. A learner killed by a signal could give none, and is restarted like the others. A server in the plan
must answer before later processes start, within its own deadline; a server that falls silent afterwards is killed, and
restarted like the others.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from broker import processes
from broker.errors import RunFailed
from broker.fork_server.client import ForkServer
from broker.restarts import RestartPolicy, Restarts
from tools.run_view.log_tail import MOST_BYTES, LogTail
from tools.up.disk_watch import WORDS, without_room
from tools.up.health_watch import HealthWatch
from tools.up.orphan_reaper import OrphanReaper
from tools.up.role_commands import Command

log = logging.getLogger(__name__)

TICK_S = 0.1
SAY_EVERY_S = 10.0
BAD_CONFIG = 2  # the exit code of a role that would fail each time
MOST_ALIKE = 3  # consecutive starts failing for the same reason that end the run
START_S = 600.0  # a process that lived longer has started, and earlier failures no longer count
REASON_CHARS = 300  # of a role's own reason
OWN_REASON = re.compile(r"\breason=(.+)")
REDIS_AWAY = re.compile(r"redis at .*\(for \d+ s\b")  # a role has waited for Redis for `broker.outage_s`
NUMBERS = re.compile(r"\d+")  # pids, ports and times differ between two deaths for the same reason
GRACE_S = 20.0  # more than a generator or the pool of scorers needs to end or hand back its work


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended, and whose log explains it."""

    code: int  # 0 done, 1 failed, 128 + signal where a signal ended the learner
    reason: str  # for people; "" where all went well
    failed_role: str = ""  # the role whose log explains the reason


class StartFailures:
    """Count consecutive failures of a role's start for the same reason.

    Args:
        start_s: longest start, in seconds.
    """

    def __init__(self, start_s: float) -> None:
        self._start_s = start_s
        self._reason = ""  # of the last death, without its numbers
        self._alike = 0

    def count(self, *, code: int, lived_s: float, reason: str) -> int:
        """Count a death; returns how many equal ones there were in a row.

        Deaths by an outside kill or while Redis is away, and of a process that had started, are not counted: they say
        nothing about the start.
        """
        if code == -signal.SIGKILL or lived_s > self._start_s or REDIS_AWAY.search(reason):
            self._alike = 0
            return 0
        alike = f"{code} {NUMBERS.sub('', reason)}"
        self._alike = self._alike + 1 if alike == self._reason else 1
        self._reason = alike
        return self._alike


class RoleProcess:
    """A role's command, its current process, and its restarts."""

    def __init__(self, command: Command, log_file: Path, restarts: Restarts, start_s: float) -> None:
        self.command = command
        self.start_failures = StartFailures(start_s)
        self.started_at = 0.0  # monotonic seconds
        self.log_begins_at = 0  # bytes of the log from earlier processes
        self.log = LogTail(log_file)
        self.process: processes.Process | None = None
        self.restarts = restarts
        self.was_started = False
        self.is_done = False  # the process ended with 0, and is not restarted
        self.is_forgiven = False  # the next death is intended: it does not count
        self.health: HealthWatch | None = None  # of a server's process
        self.was_ready = not command.health_url  # a process of the server has answered once
        self.is_ready = False  # the server's current process has answered
        self.said_at = 0.0  # monotonic seconds: when the wait for the server was last reported

    @property
    def is_running(self) -> bool:
        """Return whether the process has started and not ended."""
        return self.process is not None and not processes.has_ended(self.process)

    def close_health(self) -> None:
        """End the watch on a server's process."""
        if self.health is not None:
            self.health.close()
            self.health = None


class Supervisor:
    """Start `commands`, restart those that fail, and end them all.

    Args:
        environment: of every process, overridden by the command's own.
        logs: folder of ROLE.log; appended to.
        on_line: receives (role, line) for every line that a process writes.
        on_tick: called at each tick; raises what ends the run.
        on_death: receives (role, pid, how) for every process that a signal or an error ended.
        on_giving_up: receives (role, reason) when a role's failures end the run, before the learner is asked to end.
        fork_server: starts the commands that name imports. None: every process starts from nothing.
        start_s: longest start of a process, see `StartFailures`.
        grace_s: for a process other than the learner to end by itself when the run is over.
        tick_s: between two checks of the processes.
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
        fork_server: ForkServer | None = None,
        restarts: RestartPolicy | None = None,
        start_s: float = START_S,
        grace_s: float = GRACE_S,
        tick_s: float = TICK_S,
    ) -> None:
        try:
            logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFailed(f"{logs} can't be written: {error.strerror}") from error
        self.role_processes = [
            RoleProcess(command, logs / f"{command.role}.log", Restarts(restarts or RestartPolicy()), start_s)
            for command in commands
        ]
        self.is_ending = False  # nothing is restarted any more
        self._environment = environment
        self._on_line = on_line
        self._on_tick = on_tick
        self._on_death = on_death
        self._on_giving_up = on_giving_up
        self._fork_server = fork_server
        self._grace_s = grace_s
        self._tick_s = tick_s
        self._news: list[int] = []  # descriptors that can be read once a role may start

    @property
    def running(self) -> int:
        """Count the processes that run now."""
        return sum(role_process.is_running for role_process in self.role_processes)

    def pids(self) -> dict[str, int]:
        """Return the ids of the processes that run now, by role."""
        return {
            role_process.command.role: role_process.process.pid
            for role_process in self.role_processes
            if role_process.process is not None and role_process.is_running
        }

    def forgive(self, role: str) -> None:
        """Expect the next death of this role's process: it is intended, and does not count."""
        for role_process in self.role_processes:
            role_process.is_forgiven |= role_process.command.role == role

    def run(self, stop: threading.Event) -> RunEnd:
        """Run until the learner ends, a process keeps failing, or `stop` is set. Leaves no process."""
        self._orphan_reaper = OrphanReaper()
        try:
            outcome = None
            while outcome is None and not stop.is_set():
                outcome = self._tick()
                if outcome is None:
                    self._wait_for_an_end()
            return self._finish(outcome)
        finally:
            for role_process in self.role_processes:
                role_process.close_health()
                if role_process.process is not None:
                    self._end(role_process.process)
            self._orphan_reaper.close()
            self._read_logs()

    def kill(self) -> None:
        """End every process group at once; for another thread than that of `run`."""
        for role_process in self.role_processes:
            if role_process.process is not None and role_process.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(role_process.process.pid, signal.SIGKILL)

    def _wait_for_an_end(self) -> None:
        """Wait for the next tick, at most until a process ends or the fork server has imported all."""
        running = [each.process for each in self.role_processes if each.process is not None]
        processes.wait_for_any(running, self._tick_s, news=self._news)

    def _tick(self) -> RunEnd | None:
        self._news.clear()
        self._on_tick()
        self._read_logs()
        for role_process in self.role_processes:
            if role_process.process is None:
                if self._may_start(role_process):
                    self._start(role_process)
            elif (
                outcome := (
                    self._ended(role_process)
                    if processes.has_ended(role_process.process)
                    else self._look_at(role_process)
                )
            ) is not None:
                return outcome
            if not role_process.was_ready:
                break  # later processes start when the server answers
        return None

    def _may_start(self, role_process: RoleProcess) -> bool:
        if role_process.is_done or time.monotonic() < role_process.restarts.not_before:
            return False
        forks = self._forks(role_process)
        if forks is None or forks.may_spawn:
            return True
        self._news.append(forks.fileno())
        return False

    def _forks(self, role_process: RoleProcess) -> ForkServer | None:
        """Return the fork server of a role that it can start."""
        return self._fork_server if role_process.command.imports else None

    def _look_at(self, role_process: RoleProcess) -> RunEnd | None:
        """Wait for a server's first answer, and end a server that has fallen silent."""
        command, health, now = role_process.command, role_process.health, time.monotonic()
        if health is None or role_process.process is None:
            return None
        took_s = now - role_process.started_at
        if health.has_answered:
            if not role_process.is_ready:
                role_process.is_ready = role_process.was_ready = True
                log.info("ready role=%s took_s=%.1f", command.role, took_s)
            if health.silent_s > command.silence_s:
                log.warning(
                    "silent role=%s silent_s=%.0f at=%s: killed", command.role, health.silent_s, health.url
                )
                role_process.close_health()
                role_process.process.kill()
        elif took_s > command.start_timeout_s:
            return self._give_up(
                command.role,
                f"{command.role} has not answered at {health.url} for {command.start_timeout_s:g} s",
            )
        elif now - role_process.said_at > SAY_EVERY_S:
            role_process.said_at = now
            log.info("waiting waited_s=%.0f for=%s at=%s", took_s, command.role, health.url)
        return None

    def _start(self, role_process: RoleProcess) -> None:
        environment = {**os.environ, **self._environment, **role_process.command.environment}
        with _opened(role_process.log.path) as output:
            words = (
                *role_process.command.args,
                *(role_process.command.again if role_process.was_started else ()),
            )
            role_process.was_started = True
            role_process.started_at = time.monotonic()
            role_process.log_begins_at = output.tell()
            spawn = forks.spawn if (forks := self._forks(role_process)) else processes.spawn
            role_process.process = spawn(words, env=environment, stdout=output, stderr=output)
        if role_process.command.health_url:
            role_process.health = HealthWatch(
                role_process.command.health_url, silence_s=role_process.command.silence_s
            )
            role_process.is_ready, role_process.said_at = False, role_process.started_at
        self._orphan_reaper.watch(role_process.process.pid)
        log.info("started role=%s pid=%d", role_process.command.role, role_process.process.pid)

    def _end(self, process: processes.Process) -> int:
        """Kill the rest of a process's group; returns the process's exit code."""
        code = processes.stop(process, grace_s=0)
        self._orphan_reaper.release(process.pid)
        return code

    def _ended(self, role_process: RoleProcess) -> RunEnd | None:
        """Handle the end of a process; kill the rest of its group."""
        assert role_process.process is not None  # noqa: S101 - for mypy
        role, pid, code = role_process.command.role, role_process.process.pid, self._end(role_process.process)
        role_process.process = None
        role_process.close_health()
        if role_process.command.ends_the_run and not _was_killed(code):
            return _outcome_of(role, code)
        if code == 0 and not role_process.command.health_url:  # a server has no work that ends
            role_process.is_done = True
            log.info("ended role=%s code=0", role)
            return None
        self._on_death(role, pid, _words(code))
        if code == BAD_CONFIG:
            return self._give_up(role, f"{role} {_words(code)}: another start would change nothing")
        reason = own_reason(role_process.log.path, role_process.log_begins_at)
        full = next((word for word in WORDS if word in reason), "") and reason
        if full := full or without_room([role_process.log.path.parent]):
            return self._give_up(role, f"{role} {_words(code)}: {full}")
        return self._start_again(role_process, code, reason)

    def _start_again(self, role_process: RoleProcess, code: int, reason: str) -> RunEnd | None:
        """Plan the restart of a process, or end the run where it has failed too often."""
        role, now, restarts = role_process.command.role, time.monotonic(), role_process.restarts
        if role_process.is_forgiven:
            role_process.is_forgiven = False
            restarts.excuse(now)
            log.warning("died role=%s by_order=yes restart_in_s=%.1f", role, restarts.not_before - now)
            return None
        if not restarts.fail(now):
            return self._give_up(
                role,
                f"{role} {_words(code)} {restarts.failures} times within {restarts.policy.window_s:.0f} s",
            )
        lived_s = now - role_process.started_at
        if (
            alike := role_process.start_failures.count(code=code, lived_s=lived_s, reason=reason)
        ) >= MOST_ALIKE:
            why = f"{role} {_words(code)} {alike} times for the same reason"
            return self._give_up(role, f"{why}: {reason}" if reason else why)
        log.warning(
            "died role=%s how=%r restart_in_s=%.1f restart=%d/%d",
            role,
            _words(code),
            restarts.not_before - now,
            restarts.failures,
            restarts.policy.most,
        )
        return None

    def _give_up(self, role: str, reason: str) -> RunEnd:
        self._on_giving_up(role, reason)
        return RunEnd(code=1, failed_role=role, reason=reason)

    def _finish(self, outcome: RunEnd | None) -> RunEnd:
        """End the learner first, so that it commits its work, then the other processes together."""
        self.is_ending = True
        for role_process in self.role_processes:
            if role_process.command.ends_the_run:
                code = (
                    self._finish_learner(role_process, role_process.process)
                    if role_process.process is not None
                    else -signal.SIGTERM
                )
                # The learner was missing, or had nothing left to commit.
                if outcome is None and code == -signal.SIGTERM:
                    outcome = RunEnd(code=128 + signal.SIGTERM, reason="stopped")
                outcome = outcome or _outcome_of(role_process.command.role, code)
        others = [
            role_process.process for role_process in self.role_processes if role_process.process is not None
        ]
        for process in others:
            if not processes.has_ended(process):
                process.terminate()
        deadline = time.monotonic() + self._grace_s
        if self._fork_server is not None:  # it forks no more, and takes a moment to end
            self._fork_server.close()
        while time.monotonic() < deadline and (
            left := [process for process in others if not processes.has_ended(process)]
        ):
            self._on_tick()
            processes.wait_for_any(left, self._tick_s)
        for process in others:
            self._end(process)
        return outcome or RunEnd(code=0, reason="")

    def _finish_learner(self, role_process: RoleProcess, process: processes.Process) -> int:
        """Send SIGTERM to the learner and wait for its step; a second Ctrl-C cuts the wait short."""
        since = said = time.monotonic()
        log.info("stopping: %s finishes its step and commits (again Ctrl-C: now)", role_process.command.role)
        if not processes.has_ended(process):
            process.terminate()
        while not processes.has_ended(process):
            self._on_tick()
            self._read_logs()
            if time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                log.info(
                    "waiting waited_s=%.0f for=%s (again Ctrl-C: now)",
                    said - since,
                    role_process.command.role,
                )
            processes.wait_for_any([process], self._tick_s)
        return self._end(process)

    def _read_logs(self) -> None:
        for role_process in self.role_processes:
            for line in role_process.log.new_lines():
                self._on_line(role_process.command.role, line)


def _opened(log_file: Path) -> IO[bytes]:
    """Open a role's log for appending. Raises RunFailed."""
    try:
        return log_file.open("ab")
    except OSError as error:
        raise RunFailed(f"{log_file} can't be written: {error.strerror}") from error


def own_reason(log_file: Path, begins_at: int) -> str:
    """Return the reason that a process left in its log: its last `reason=`, else its last line; "" for none.

    Args:
        begins_at: length of the log before that process; an earlier process's reason does not count.
    """
    try:
        with log_file.open("rb") as stream:
            stream.seek(max(begins_at, stream.seek(0, os.SEEK_END) - MOST_BYTES))
            lines = [line.strip() for line in stream.read().decode(errors="replace").splitlines()]
    except OSError:
        return ""
    said = [found[1] for line in lines if (found := OWN_REASON.search(line))] or [
        line for line in lines if line
    ]
    return said[-1][:REASON_CHARS] if said else ""


def _outcome_of(role: str, code: int) -> RunEnd:
    if code == 0:
        return RunEnd(code=0, reason="")
    return RunEnd(code=code if code > 0 else 128 - code, reason=f"{role} {_words(code)}", failed_role=role)


def _was_killed(code: int) -> bool:
    """Return whether an unexpected signal ended a process. A learner of ranks exits with 128 + N for signal N."""
    number = -code if code < 0 else code - 128
    return number in set(signal.Signals) - set(processes.STOP_SIGNALS)


def _words(code: int) -> str:
    return processes.how_it_ended(code) + (
        " (by the kernel, if memory ran out)" if code == -signal.SIGKILL else ""
    )
