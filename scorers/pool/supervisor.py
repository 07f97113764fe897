"""`python -m scorers` starts a dispatcher and the workers, keeps them running, and ends with the run.

In: the run and how many workers. Out: an exit code. How children are kept alive is `broker.role_pool`'s. The first
worker starts before the others (`scorers.pool.first_worker`). All are forks of one process (`broker.fork_server`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial

from broker.fork_server.client import ForkServer
from broker.joining import Joined
from broker.role_pool import PooledProcess, RolePool
from config.scorers import ScorersConfig
from scorers.pool.first_worker import FirstWorker
from tasks.kinds import BY_NAME

QUICK_SHARE = 4  # one worker of so many, and at least one of several, leaves what is slow to the others
LEAVES_SLOW = ("--leave-slow",)
MATH = "scorers.math.scorer"
WARM_PARSER = "scorers.math.equality:warm_up"  # a second of a processor, which each worker would spend


def imports_of(scorers: ScorersConfig) -> list[str]:
    """Return the modules of a dispatcher, of a worker, and of the scorers that the run's tasks use."""
    sections = [task.scorer for task in scorers.tasks.values()]
    sections += [extra.scorer for task in scorers.tasks.values() for extra in task.extra_scorers.values()]
    modules = dict.fromkeys(BY_NAME[section.type].scorer.partition(":")[0] for section in sections)
    return [
        "scorers.pool.dispatcher",
        "scorers.pool.worker",
        *modules,
        *([WARM_PARSER] if MATH in modules else ()),
    ]


class PoolSupervisor:
    """The supervisor keeps the dispatcher and the workers of one `python -m scorers` alive."""

    def __init__(
        self,
        joined: Joined,
        arguments: Sequence[str],
        workers: int | None = None,
        fork_server: ForkServer | None = None,
    ) -> None:
        """Set the parts up; start nothing yet.

        Args:
            joined: the run.
            arguments: of every child, before its `--part`.
            workers: how many; None: `scorers.workers` of the run.
            fork_server: starts the children; the pool ends it. None: one of `imports_of`.
        """
        self._arguments = arguments
        self._fork_server = fork_server or ForkServer(imports_of(joined.run.scorers))
        self._first = FirstWorker(self._fork_server)
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
            self._fork_server.close()

    def _part(self, name: str, options: Sequence[str] = (), *, follows: bool = False) -> PooledProcess:
        """Make a part, which starts when the first worker is ready if it `follows` it."""
        fork_server = self._fork_server
        return PooledProcess(
            name=name,
            command=[sys.executable, "-m", "scorers", *self._arguments, *options, "--part", name],
            spawn=partial(fork_server.spawn, env=os.environ, stderr=subprocess.PIPE),
            may_start=lambda: fork_server.may_spawn and (not follows or self._first.may_be_followed()),
        )
