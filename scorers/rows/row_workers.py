"""Processes that score lines, for `score_many` and the verbs that score a file or a journal.

In: pieces of work, each for one process. Out: a future of each piece. As many threads as processes wait for them. A
process starts with its first line; an idle process that has started is taken before one that has not.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from config.scorers import ScorersConfig
from scorers.api import RowWorkerClient

T = TypeVar("T")


class RowWorkers:
    """Processes that score, each used by one thread at a time.

    Args:
        config: the scorers.
        count: processes at most.
    """

    def __init__(self, config: ScorersConfig, count: int) -> None:
        self._processes = [RowWorkerClient(config) for _ in range(count)]
        self._idle: queue.LifoQueue[RowWorkerClient] = queue.LifoQueue()  # the warm one first
        for process in self._processes:
            self._idle.put(process)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="score")

    def submit(self, work: Callable[[RowWorkerClient], T]) -> Future[T]:
        """Has `work` done with the first process that is idle."""
        return self._threads.submit(self._do, work)

    def close(self, *, is_interrupted: bool) -> None:
        """Ends the processes, at once where the rest is not wanted."""
        if is_interrupted:
            for process in self._processes:
                process.stop()
        self._threads.shutdown(cancel_futures=is_interrupted)
        for process in self._processes:
            process.close()

    def pids(self) -> list[int]:
        """Returns the ids of the processes that have started."""
        return [pid for process in self._processes if (pid := process.pid) is not None]

    def release(self) -> None:
        """Lets go of the processes without a word to them: in a fork they are the parent's."""
        for process in self._processes:
            process.release()

    def _do(self, work: Callable[[RowWorkerClient], T]) -> T:
        process = self._idle.get()
        try:
            return work(process)
        finally:
            self._idle.put(process)
