"""`python -m scorers --run NAME,api` runs a pool for each of several runs, in one process that watches them.

In: the runs and the words for each pool. Out: an exit code. Every pool is a `python -m scorers --run` of its own, with
its own dispatcher, workers and configuration. So no pool waits for another run's learner, and the workers of an idle
run cost memory and no time. A pool whose run has ended is not started again. When one pool fails, the others are ended
too, and the supervisor of this process starts the process again.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

from broker import processes
from broker.role_pool import GRACE_S as POOL_GRACE_S
from broker.role_pool import POLL_S

log = logging.getLogger(__name__)

GRACE_S: Final = POOL_GRACE_S + 2.0  # a pool's own, and its end


def run_pools(runs: Sequence[str], words: Sequence[str], stop: threading.Event) -> int:
    """Watch a pool for each of `runs` until all have ended, one fails or `stop` is set. Returns the worst exit code."""
    pools = {run: processes.spawn([sys.executable, "-m", "scorers", "--run", run, *words]) for run in runs}
    codes: dict[str, int] = {}
    try:
        while pools and not stop.wait(POLL_S):
            for run in [run for run, pool in pools.items() if processes.has_ended(pool)]:
                codes[run] = processes.stop(pools.pop(run), 0)
                log.info("pool_ended run=%s code=%d", run, codes[run])
                if codes[run]:
                    return codes[run] if codes[run] > 0 else 1
        return 0
    finally:
        for pool in pools.values():
            pool.terminate()
        deadline = time.monotonic() + GRACE_S
        for pool in pools.values():
            processes.wait(pool, deadline - time.monotonic())
            processes.stop(pool, 0)  # a second SIGTERM would cut its workers short
