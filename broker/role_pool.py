"""Keep the processes of a role on one machine alive from one parent, which exits with the run.

In: the run, and a part for each process. Out: an exit code. A child that ends is restarted, whatever the reason. A
child that keeps failing, each time within a minute, ends the pool. The last lines of a child are in the log, and in
Redis for a day, for the dead letter of the group that killed it. Used by the scorers' pool and by `python -m agents
--workers N`.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO

from broker import processes
from broker.joining import Joined, let_the_learner_go_first, state_of
from broker.monitoring.crash_reports import LAST_LINES, record_death
from broker.restarts import RestartPolicy, Restarts

log = logging.getLogger(__name__)

POLL_S = 0.2
LONGEST_LINE = 1 << 16  # bytes of a log line that are forwarded at once
LAST_WORDS_S = 1.0  # for the last lines of a dead child to arrive
LOOK_EVERY_S = 1.0  # between two reads of the run's status
GRACE_S = 15.0  # longer than a worker's own, and shorter than that of `millrace up`
MOST_FAILURES = 5  # in a row
FIRST_PAUSE_S = 0.5  # before the next start, doubles with each failure
SOON_S = 5.0  # a child that lived this long and is killed, or exits with 0, was stopped from outside
HEALTHY_S = 60.0  # the end of a child that lived this long counts as no failure, whatever the reason
BAD_CONFIG = 2  # a child's exit code, then the pool's: a restart would not help


class Echo(threading.Thread):
    """Forward what a child writes to its standard error, and keep the last lines for a dead letter."""

    def __init__(self, source: IO[bytes]) -> None:
        super().__init__(name="echo", daemon=True)
        self._source = source
        self._lines: deque[bytes] = deque(maxlen=LAST_LINES)
        self.start()

    def run(self) -> None:
        """Read until the child and its own children have ended. An unwritable log delays no child."""
        with self._source:
            while line := self._source.readline(LONGEST_LINE):
                self._lines.append(line)
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.buffer.write(line)
                    sys.stderr.buffer.flush()

    def last_lines(self) -> list[str]:
        """Return the last lines that a child wrote, once it has ended."""
        self.join(LAST_WORDS_S)
        return [line.decode(errors="replace").rstrip() for line in list(self._lines)]


def _spawn(command: Sequence[str]) -> processes.Process:
    return processes.spawn(command, stderr=subprocess.PIPE)


def _restarts() -> Restarts:
    return Restarts(RestartPolicy(most=MOST_FAILURES - 1, window_s=math.inf, first_pause_s=FIRST_PAUSE_S))


@dataclass(slots=True, kw_only=True)
class PooledProcess:
    """One process's place in the pool, with the process that currently fills it."""

    name: str  # for people
    command: Sequence[str]
    spawn: Callable[[Sequence[str]], processes.Process] = _spawn  # its standard error is a pipe
    may_start: Callable[[], bool] = lambda: True
    restarts: Restarts = field(default_factory=_restarts)
    process: processes.Process | None = None
    echo: Echo | None = None
    started: float = 0.0  # monotonic seconds

    def start(self, now: float) -> None:
        """Start the process. Raises OSError."""
        self.started = now
        self.process = self.spawn(self.command)
        assert self.process.stderr is not None  # noqa: S101 - for mypy
        self.echo = Echo(self.process.stderr)

    def may_restart(self, code: int, now: float) -> bool:
        """Judge an end by its exit code, negative for a signal, and by the process's lifetime."""
        lived_s = now - self.started
        if lived_s >= HEALTHY_S or (lived_s >= SOON_S and code in {0, -signal.SIGKILL}):
            self.restarts.reset()
            self.restarts.excuse(now)
            return True
        return self.restarts.fail(now)


class RolePool:
    """Keep the processes of one role alive, of one run on one machine."""

    def __init__(self, joined: Joined, parts: Sequence[PooledProcess]) -> None:
        self._joined = joined
        self.parts = parts

    def run(self, stop: threading.Event) -> int:
        """Supervise the children until the run ends or `stop` is set.

        Returns:
            0; 1: the run failed, or a child keeps failing; 2: a child keeps failing, and a restart would not help.
        """
        looked = 0.0
        try:
            while not stop.is_set():
                for part in self.parts:
                    if (code := self._keep(part)) is not None:
                        return code
                if time.monotonic() - looked > LOOK_EVERY_S:
                    looked = time.monotonic()
                    state = state_of(self._joined.link, self._joined.keys)
                    if state.has_ended:
                        let_the_learner_go_first(self._joined.link, self._joined.keys, stop)
                        log.info(
                            "ended run=%s status=%s reason=%s",
                            self._joined.run.name,
                            state.status,
                            state.reason or "none",
                        )
                        return 1 if state.status == "failed" else 0
                stop.wait(POLL_S)
            return 0
        finally:
            self._end()

    def _keep(self, part: PooledProcess) -> int | None:
        """Start the part's process if it does not run. Returns the pool's exit code if it has failed too often."""
        now = time.monotonic()
        if part.process is not None:
            if not processes.has_ended(part.process):
                return None
            pid, code = part.process.pid, processes.stop(part.process, 0)
            part.process = None
            may_restart = part.may_restart(code, now)
            if code != 0 and part.echo is not None:
                record_death(
                    self._joined.link.client,
                    self._joined.keys,
                    host=socket.gethostname(),
                    pid=pid,
                    how=processes.how_it_ended(code),
                    last_lines=part.echo.last_lines(),
                )
            log.warning("child_ended part=%s code=%d failures=%d", part.name, code, part.restarts.failures)
            if not may_restart:
                log.error(
                    "giving_up part=%s code=%d: it failed %d times in a row; why is in its last lines above",
                    part.name,
                    code,
                    part.restarts.failures,
                )
                return BAD_CONFIG if code == BAD_CONFIG else 1
        if now >= part.restarts.not_before and part.may_start():
            part.start(now)
        return None

    def _end(self) -> None:
        """Send each child one SIGTERM and wait: a second one would interrupt a worker's current job."""
        running = [part.process for part in self.parts if part.process is not None]
        for process in running:
            if not processes.has_ended(process):
                process.terminate()
        deadline = time.monotonic() + GRACE_S
        for process in running:
            processes.wait(process, deadline - time.monotonic())
            processes.stop(process, 0)
