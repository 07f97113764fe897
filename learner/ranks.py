"""Which of the learner's processes this is, and the start of the others.

In: the run, the command line, and RANK from a launcher if there is one. Out: this process's `Ranks`, or the exit code
of the ranks that it has started and waited for. Runs first in `python -m learner`, before torch is imported. When one
rank dies the others are ended, and its code is the code of all; when this process dies, the kernel ends them.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

from broker import processes
from config.run import Run

log = logging.getLogger(__name__)

GRACE_S = 20.0          # between asking the other ranks to end and killing them, when one has died
POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process's place among the learner's processes."""

    rank: int           # 0 has the run's Redis and journal to itself; the others do as it says
    local_rank: int     # its number on this machine: which GPU
    world_size: int


def launch_or_join(run: Run, argv: Sequence[str], *, module: str = "learner") -> Ranks | int:
    """Become one of the learner's ranks, or start them all and wait for them.

    With RANK in the environment (torchrun, DeepSpeed's launcher, or this function in the parent): join those. With
    `learner.ranks` = 1: be the only one, in this process. Else: start them and wait.

    Args:
        run: the resolved run.
        argv: the arguments of `python -m MODULE`, handed on to each rank as they are.
        module: what each rank runs.
    Returns:
        `Ranks` to go on with, or the exit code with which to end: everything is done.
    """
    if "RANK" in os.environ:
        ranks = Ranks(rank=int(os.environ["RANK"]), local_rank=int(os.environ.get("LOCAL_RANK", "0")),
                      world_size=int(os.environ["WORLD_SIZE"]))
        if ranks.rank > 0:      # rank 0 decides when to stop, and says so to the others; Ctrl-C reaches a whole group
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return ranks
    if run.learner.ranks == 1:
        return Ranks(rank=0, local_rank=0, world_size=1)
    return launch([sys.executable, "-m", module, *argv], run.learner.ranks)


def launch(command: Sequence[str], ranks: int) -> int:
    """Start a command once for each rank, pass signals on to rank 0, and wait for all. From the main thread only.

    Returns:
        0 when all have ended with 0, else the code of the first that did not (128 + N where signal N ended it).
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",         # all on this machine: no name to resolve, nothing open to the network
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // ranks))),
    }
    children: list[subprocess.Popen[bytes]] = []
    with _signals_to(children):
        for rank in range(ranks):
            environment = os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            children.append(processes.spawn(command, env=environment))      # a Ctrl-C arrives here alone
        log.info("ranks started count=%d pids=%s", ranks, ",".join(str(child.pid) for child in children))
        try:
            return _wait(children)
        finally:
            _end(children)


def _wait(children: Sequence[subprocess.Popen[bytes]]) -> int:
    """Until all have ended with 0, or one has not: its code, 128 + N where signal N ended it.

    When rank 0 has ended well the others have a while to follow it; one that stays is ended, and that is a failure.
    A code of rank 0 alone is its verdict, and no death: it decides how the whole ends, and has said why.
    """
    deadline = math.inf
    while True:
        codes = [child.poll() for child in children]
        dead = {rank: code if code > 0 else 128 - code for rank, code in enumerate(codes) if code}
        if list(dead) == [0] and dead[0] == codes[0]:
            log.warning("ranks end code=%d: rank 0 has said why", dead[0])
            return dead[0]
        if dead:        # more than one when the first took others with it; each has logged its own reason
            log.error("rank died code_by_rank=%s: ending the others", dead)
            return next(iter(dead.values()))
        if all(code == 0 for code in codes):
            return 0
        if codes[0] == 0:
            deadline = min(deadline, time.monotonic() + GRACE_S)
        if time.monotonic() > deadline:
            log.error("ranks stayed ranks=%s after_s=%.0f: rank 0 has ended",
                      ",".join(str(rank) for rank, code in enumerate(codes) if code is None), GRACE_S)
            return 1
        time.sleep(POLL_S)


def _end(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """End those that still run: rank 0 has a while to say why the run failed, the others obey SIGKILL alone."""
    for child in children:
        if not processes.has_ended(child):
            child.terminate()               # once: the second signal ends rank 0 before it has said why
    deadline = time.monotonic() + GRACE_S
    for child in children:
        processes.wait(child, max(0.0, deadline - time.monotonic()))
        processes.stop(child, grace_s=0.0)


@contextlib.contextmanager
def _signals_to(children: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Meanwhile, hand SIGINT and SIGTERM on to rank 0, which ends the run: first in good order, then at once."""
    def forward(number: int, _frame: FrameType | None) -> None:
        log.info("signal=%s handed on to rank=0", signal.Signals(number).name)
        if children:
            children[0].send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
