"""`python -m agents --workers N`: run several workers under one parent, or wait in a run that needs none.

In: the run and the number of workers. Out: an exit code. `broker.role_pool` keeps the children alive: each is a `python
-m agents` with one worker, which also ends by itself with the run.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from broker.joining import Joined, RunState, state_of
from broker.monitoring.heartbeat import Heartbeat
from broker.role_pool import PooledProcess, RolePool

LOOK_EVERY_S = 1.0
IDLE = "waiting for the run's end: no task of it has an environment"


def run_pool(joined: Joined, words: Sequence[str], workers: int, stop: threading.Event) -> int:
    """Supervise `workers` children until the run ends or `stop` is set.

    Args:
        words: command line of every child.
    Returns:
        0; 1: the run failed, or a child keeps failing; 2: a child keeps failing, and a restart would not help.
    """
    command = [sys.executable, "-m", "agents", *words]
    return RolePool(joined, [PooledProcess(name="worker", command=command) for _ in range(workers)]).run(stop)


def wait_for_the_end(joined: Joined, heartbeat: Heartbeat, stop: threading.Event) -> RunState:
    """Wait until a run without an environment ends, or `stop` is set. Returns its last state.

    A container that ended at once would be restarted by its cluster, or would take all the others with it (`docker
    compose up --exit-code-from learner`).
    """
    heartbeat.set_state(IDLE)
    while True:
        state = state_of(joined.link, joined.keys)
        if state.has_ended or stop.wait(LOOK_EVERY_S):
            return state
