"""Lines that a served model judges go to one process, which has the calls of many lines under way at once.

In: lines as `scorers.child.row_worker` reads them. Out: a future of each line's result. For `score_many` and
`millrace score`, whose other lines go one to a process. A call that fails is begun anew, as often as `scorers.retries`
says. It begins once all calls begun with it are done, beside all others that failed. So they wait together for a judge
that is away.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from broker.errors import BadMessage
from config.scorers import ScorersConfig, TaskConfig
from scorers.api import RowWorkerClient
from scorers.child.frames import Result
from scorers.child.row_worker import parse_line
from scorers.retries import FAILED_TRIES, LONGEST_WAIT_S
from tasks.route import route

AHEAD: Final = 256  # lines that are held: more than most endpoints take at once


def asks(task: TaskConfig) -> bool:
    """Tells whether a task's rows are judged by a served model, whose address is known."""
    endpoints = (getattr(section, "endpoint", None) for section in task.all_scorers.values())
    return any(endpoint.urls for endpoint in endpoints if endpoint is not None)


@dataclass(slots=True)
class _Line:
    data: bytes
    result: Future[Result] = field(default_factory=Future)
    tries: int = 0


class JudgedLines:
    """A `RowWorkerClient` and the thread that asks it, both started with the first line.

    Args:
        config: the scorers.
    """

    def __init__(self, config: ScorersConfig) -> None:
        self._config = config
        self._process = RowWorkerClient(config.model_copy(update={"retries": 0}))
        self._lines: queue.SimpleQueue[_Line | None] = queue.SimpleQueue()
        self._free_lines = threading.Semaphore(AHEAD)
        self._begun: deque[_Line] = deque()
        self._failed: list[_Line] = []
        self._is_over = False
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def takes(self, data: bytes) -> bool:
        """Tells whether the line is for a served model. A line that is broken is not."""
        with suppress(BadMessage):
            _, record = parse_line(data)
            return asks(self._config.tasks[route(record, self._config.tasks)[0]])
        return False

    def submit(self, data: bytes) -> Future[Result]:
        """Returns the line's result to come; waits while AHEAD of them are held. For one thread alone."""
        self._free_lines.acquire()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="judged", daemon=True)
            self._thread.start()
        line = _Line(data)
        self._lines.put(line)
        return line.result

    def close(self, *, is_interrupted: bool) -> None:
        """Ends the process, at once where the rest is not wanted."""
        if is_interrupted:
            self._stopped.set()
            self._process.stop()
        self._lines.put(None)
        if self._thread is not None:
            self._thread.join()
        self._process.close()

    def pids(self) -> list[int]:
        """Returns the id of the process, where it has started."""
        return [] if self._process.pid is None else [self._process.pid]

    def release(self) -> None:
        """Lets go of the process without a word to it: in a fork it is the parent's."""
        self._process.release()

    def _work(self) -> None:
        """Serves until `close`; what the process can't do is the failure of every line that is left."""
        while not self._is_over or self._begun or self._failed:
            try:
                self._take()
                self._serve()
            except Exception as error:  # noqa: BLE001 - a thread's, which nobody but the futures can tell of
                for line in (*self._begun, *self._failed):
                    line.result.set_exception(error)
                    self._free_lines.release()
                self._begun.clear()
                self._failed.clear()

    def _take(self) -> None:
        """Begins all lines that are there; waits for a line where there is nothing else to do."""
        with suppress(queue.Empty):
            while not self._is_over:
                line = self._lines.get(block=not self._begun and not self._failed)
                self._is_over = line is None
                if line is not None:
                    self._begin(line)

    def _serve(self) -> None:
        """Waits for the first line that was begun; where there is none, begins anew those that failed."""
        if self._begun:
            line = self._begun[0]
            result = self._process.result(line.data)
            self._begun.popleft()
            line.tries += 1
            if _has_failed(result) and line.tries <= self._config.retries:
                self._failed.append(line)
            else:
                line.result.set_result(_with_tries(result, line.tries))
                self._free_lines.release()
        elif self._failed:
            tries = max(line.tries for line in self._failed)
            self._stopped.wait(min(self._config.retry_backoff_s * 2 ** (tries - 1), LONGEST_WAIT_S))
            failed, self._failed = self._failed, []
            for line in failed:
                self._begin(line)

    def _begin(self, line: _Line) -> None:
        self._begun.append(line)
        self._process.prefetch(line.data)


def _has_failed(result: Result) -> bool:
    return any(name == FAILED_TRIES or name.endswith(f".{FAILED_TRIES}") for name in result["components"])


def _with_tries(result: Result, tries: int) -> Result:
    """Returns the result with the tries that it took, where it was given up."""
    if not _has_failed(result):
        return result
    counts = {
        name: float(tries) if name.endswith(FAILED_TRIES) else value
        for name, value in result["components"].items()
    }
    said = "1 try" if tries == 1 else f"{tries} tries"
    reason = result["reason"].replace("not scored in 1 try:", f"not scored in {said}:", 1)
    return {**result, "reason": reason, "components": counts}
