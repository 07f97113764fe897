"""`python -m scorers` starts a dispatcher and the workers, keeps them running, and ends with the run.

In: the run and how many workers. Out: an exit code. How children are kept alive is `broker.role_pool`'s. The first
worker starts before the others (`scorers.pool.first_worker`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from broker.joining import Joined
from broker.role_pool import PooledProcess, RolePool
from scorers.pool.first_worker import FirstWorker

QUICK_SHARE = 4  # one worker of so many, and at least one of several, leaves what is slow to the others
LEAVES_SLOW = ("--leave-slow",)


class PoolSupervisor:
    """The supervisor keeps the dispatcher and the workers of one `python -m scorers` alive."""

    def __init__(self, joined: Joined, arguments: Sequence[str], workers: int | None = None) -> None:
        """Set the parts up; start nothing yet.

        Args:
            joined: the run.
            arguments: of every child, before its `--part`.
            workers: how many; None: `scorers.workers` of the run.
        """
        self._arguments = arguments
        self._first = FirstWorker()
        count = workers or joined.run.scorers.workers
        first = self._part("worker", LEAVES_SLOW if count > 1 else ())
        first.spawn = self._first.spawn
        self.pool = RolePool(
            joined,
            [
                first,
                self._part("dispatcher"),
                *(
                    self._part("worker", LEAVES_SLOW if number < count / QUICK_SHARE else (), follows=True)
                    for number in range(1, count)
                ),
            ],
        )

    def run(self, stop: threading.Event) -> int:
        """Watch the children until the run ends or `stop` is set. Returns as `RolePool.run` does."""
        try:
            return self.pool.run(stop)
        finally:
            self._first.close()

    def _part(self, name: str, options: Sequence[str] = (), *, follows: bool = False) -> PooledProcess:
        """Make a part, which starts when the first worker is ready if it `follows` it."""
        return PooledProcess(
            name=name,
            command=[sys.executable, "-m", "scorers", *self._arguments, *options, "--part", name],
            may_start=self._first.may_be_followed if follows else lambda: True,
        )
