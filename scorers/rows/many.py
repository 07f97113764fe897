"""Any program scores many rows by this module: `from scorers import score_many`.

In: pairs of a response and a row of any known shape. Out: their scores, in order. Processes of their own do the work,
as many at once as the caller asks for. Rows that a served model judges all go to one more process, which has their
calls under way together (`scorers.rows.judged_lines`). The processes stay for the next call and end with the program.
What is wrong with a row ends the call, by the place of its pair.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final

from broker.errors import BadMessage
from broker.scores import Score
from config.scorers import ScorersConfig
from scorers.api import RowWorkerClient, ScoringFailed, all_tasks, record_of, score_of
from scorers.child.frames import TEXT_KEY, Result
from scorers.rows.judged_lines import JudgedLines, asks
from scorers.rows.row_workers import RowWorkers
from tasks.route import route

Pair = tuple[str, str | Mapping[str, object]]


class _Rows:
    """The processes of one configuration, for any number of threads."""

    def __init__(self, config: ScorersConfig, workers: int) -> None:
        self.config = config
        self.workers = RowWorkers(config, workers)
        self.judged = JudgedLines(config) if any(map(asks, config.tasks.values())) else None
        self._submitting = threading.Lock()

    def submit(self, line: bytes) -> Future[Result]:
        """Have a line scored."""
        if self.judged is not None and self.judged.takes(line):
            with self._submitting:
                return self.judged.submit(line)
        return self.workers.submit(partial(RowWorkerClient.result, line=line))

    def pids(self) -> list[int]:
        return sorted([*self.workers.pids(), *([] if self.judged is None else self.judged.pids())])

    def close(self, *, is_interrupted: bool) -> None:
        self.workers.close(is_interrupted=is_interrupted)
        if self.judged is not None:
            self.judged.close(is_interrupted=is_interrupted)

    def release(self) -> None:
        """Let go of the processes: in a fork they are the parent's."""
        self.workers.release()
        if self.judged is not None:
            self.judged.release()


def score_pairs(
    pairs: Iterable[tuple[str, str | Mapping[str, object]]],
    judge_url: str | None = None,
    workers: int | None = None,
) -> list[Score]:
    """Score responses side by side, see `scorers.score_many`."""
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    if count < 1:
        raise ValueError(f"workers must be at least 1, got {count}")
    rows = _rows(judge_url, count)
    lines = [_line(place, pair, rows.config) for place, pair in enumerate(pairs)]
    calls: list[Future[Result]] = []
    try:
        calls = [rows.submit(data) for _, data in lines]
        return [
            _score(place, task, call)
            for place, ((task, _), call) in enumerate(zip(lines, calls, strict=True))
        ]
    finally:
        for call in calls:  # of a call that ends early: what has not begun need not
            call.cancel()


def pids() -> list[int]:
    """Return the ids of the processes that score for this program now."""
    with _lock:
        return [pid for rows in _open.values() for pid in rows.pids()]


def close() -> None:
    """End all processes; the next call starts others. A call that is under way in another thread ends too."""
    with _lock:
        rows = list(_open.values())
        _open.clear()
    for one in rows:
        one.close(is_interrupted=True)


def _rows(judge_url: str | None, count: int) -> _Rows:
    with _lock:
        key = (judge_url, count)
        if key not in _open:
            _open[key] = _Rows(all_tasks(judge_url), count)
        return _open[key]


def _line(place: int, pair: Pair, config: ScorersConfig) -> tuple[str, bytes]:
    """Return a pair's task and its line for a process. Raises TypeError, ValueError that name its place."""
    text, row = pair
    if not isinstance(text, str):
        raise TypeError(f"pair {place}: llm_output must be text, got {type(text).__name__}")
    try:
        task, info = route(record_of(row), config.tasks)
    except BadMessage as error:
        raise ValueError(f"pair {place}: {error}") from None
    return task, json.dumps({TEXT_KEY: text, "task": task, "verification_info": info}).encode("ascii")


def _score(place: int, task: str, call: Future[Result]) -> Score:
    try:
        return score_of(call.result(), task)
    except (ValueError, ScoringFailed) as error:
        raise type(error)(f"pair {place}: {error}") from None


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - the parent's may be held
    _lock = threading.Lock()
    for rows in _open.values():
        rows.release()
    _open.clear()


_lock = threading.Lock()
_open: Final[dict[tuple[str | None, int], _Rows]] = {}
atexit.register(close)
os.register_at_fork(after_in_child=_after_fork)
