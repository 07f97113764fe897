"""`python -m scorers`: start a dispatcher and the workers, keep them running, end with the run."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from broker import processes
from broker.joining import Joined, state_of

log = logging.getLogger(__name__)

POLL_S = 0.2
LOOK_EVERY_S = 1.0
GRACE_S = 20.0
MOST_STARTS_A_MINUTE = 5
FIRST_PAUSE_S = 0.5


@dataclass(slots=True)
class _Child:
    part: str
    process: subprocess.Popen[bytes] | None = None
    starts: list[float] = field(default_factory=list)       # monotonic seconds of the last minute's starts
    not_before: float = 0.0


class Pool:
    """The children of one `python -m scorers`."""

    def __init__(self, joined: Joined, arguments: Sequence[str], workers: int | None = None) -> None:
        """Nothing is started yet.

        Args:
            joined: the run.
            arguments: of every child, before its `--part`.
            workers: how many; None: `scorers.workers` of the run.
        """
        self._joined = joined
        self._arguments = arguments
        self._children = [_Child("dispatcher"), *(_Child("worker") for _ in range(workers or
                                                                                  joined.run.scorers.workers))]

    def run(self, stop: threading.Event) -> int:
        """Watch the children until the run ends or `stop` is set. 1: the run failed, or a child can't be kept alive."""
        looked = 0.0
        try:
            while not stop.is_set():
                for child in self._children:
                    if not self._keep(child):
                        return 1
                if time.monotonic() - looked > LOOK_EVERY_S:
                    looked = time.monotonic()
                    state = state_of(self._joined.link, self._joined.keys)
                    if state.has_ended:
                        log.info("ended run=%s status=%s reason=%s", self._joined.run.name, state.status,
                                 state.reason or "none")
                        return 1 if state.status == "failed" else 0
                stop.wait(POLL_S)
            return 0
        finally:
            self._end()

    def _keep(self, child: _Child) -> bool:
        """Start `child` if it does not run. False: it ended too often within a minute."""
        now = time.monotonic()
        if child.process is not None:
            if not processes.has_ended(child.process):
                return True
            child.starts = [start for start in child.starts if now - start < 60]
            log.warning("child_ended part=%s code=%s starts_this_minute=%d", child.part,
                        processes.stop(child.process, 0), len(child.starts))
            child.process = None
            if len(child.starts) >= MOST_STARTS_A_MINUTE:
                log.error("giving_up part=%s: it ended %d times within a minute", child.part, len(child.starts))
                return False
            child.not_before = now + FIRST_PAUSE_S * 2 ** max(0, len(child.starts) - 1)
        if now >= child.not_before:
            child.starts.append(now)
            child.process = processes.spawn([sys.executable, "-m", "scorers", *self._arguments, "--part", child.part])
        return True

    def _end(self) -> None:
        """SIGTERM to all, once: a second one would cut short the job that a worker is at."""
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            if not processes.has_ended(process):
                process.terminate()
        deadline = time.monotonic() + GRACE_S
        for process in running:
            processes.wait(process, deadline - time.monotonic())
            processes.stop(process, 0)
