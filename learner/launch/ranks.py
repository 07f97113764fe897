"""Determine this process's rank, and start the other ranks.

In: the run, the command line, and RANK from a launcher if there is one. Out: this process's `Ranks`, or the exit code
of the ranks that it has started and waited for. Runs first in `python -m learner`, before torch is imported. When one
rank dies the others are stopped, its exit code becomes the code of all, and its number and its end are reported. When
this process dies, the kernel ends the ranks.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

from broker import processes
from config.logs import mask
from config.run import Run

log = logging.getLogger(__name__)

GRACE_S = 20.0  # between SIGTERM to the other ranks and SIGKILL, when one has died
POLL_S = 0.1
LAST_WORDS = "RANK_LAST_WORDS_FD"  # names the pipe to which a rank writes why it ends
MOST_BYTES = 1000  # of last words; a pipe holds that much, and is read only at the end

# The errors of gloo, the store and NCCL in a rank when another rank has died.
ECHO = re.compile("closed by peer|reset by peer|broken pipe|likely closed|remote process", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The place of this process among the learner's processes."""

    rank: int  # rank 0 alone uses the run's Redis and journal; the others follow its commands
    local_rank: int  # on this machine: which GPU
    world_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksEnded:
    """Why the ranks ended, where rank 0 did not decide to end."""

    why: str  # "rank 1 was killed by SIGKILL"
    by_signal: bool  # the next start may continue the run
    has_verdict: bool  # rank 0 still ended with its own code, and gave its reason for that


def launch_or_join(
    run: Run,
    argv: Sequence[str],
    *,
    report: Callable[[RanksEnded], None] | None = None,
    module: str = "learner",
) -> Ranks | int:
    """Become one of the learner's ranks, or start all of them and wait.

    With RANK in the environment (torchrun, DeepSpeed's launcher, or this function in the parent): join the started
    ranks. With `learner.ranks` = 1: be the only rank, in this process. Otherwise: start the ranks and wait.

    Args:
        run: the resolved run.
        argv: the arguments of `python -m MODULE`, passed to each rank unchanged.
        report: receives a description of how a rank died, when all have ended. None: no call.
        module: what each rank runs.
    Returns:
        `Ranks` to continue with, or the exit code to end with.
    """
    if "RANK" in os.environ:
        ranks = Ranks(
            rank=int(os.environ["RANK"]),
            local_rank=int(os.environ.get("LOCAL_RANK", "0")),
            world_size=int(os.environ["WORLD_SIZE"]),
        )
        if (
            ranks.rank > 0
        ):  # rank 0 decides when to stop, and commands the others; Ctrl-C reaches a whole group
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return ranks
    if run.learner.ranks == 1:
        return Ranks(rank=0, local_rank=0, world_size=1)
    return launch([sys.executable, "-m", module, *argv], run.learner.ranks, report=report)


def say_last(error: BaseException) -> None:
    """Write this rank's reason to end into the launcher's pipe, if this module's launcher started the rank."""
    if (pipe := os.environ.get(LAST_WORDS)) is not None:
        with contextlib.suppress(OSError):
            os.write(
                int(pipe), " ".join(mask(f"{type(error).__name__}: {error}").split()).encode()[:MOST_BYTES]
            )


def shared_environment(ranks: int, port: int) -> dict[str, str]:
    """Return the variables with which that many ranks of this machine find each other on a port."""
    return {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",  # all on this machine: no name to resolve, no port open to the network
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // ranks))),
    }


def launch(command: Sequence[str], ranks: int, *, report: Callable[[RanksEnded], None] | None = None) -> int:
    """Start a command once per rank, forward signals to rank 0, and wait for all. From the main thread only.

    Args:
        report: as in `launch_or_join`.
    Returns:
        0 when all ended with 0, else the code of the first that did not (128 + N where signal N ended it).
    """
    kept = (
        socket.socket()
    )  # bound until the ranks have ended, so that no other process gets its port before rank 0 listens
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as torch's store does, so that it can bind
    kept.bind(("127.0.0.1", 0))
    shared = shared_environment(ranks, kept.getsockname()[1])
    children: list[subprocess.Popen[bytes]] = []
    with kept, _signals_to(children), contextlib.ExitStack() as pipes:
        readers = []
        for rank in range(ranks):
            reader, writer = os.pipe()
            readers.append(pipes.enter_context(os.fdopen(reader, "rb", buffering=0)))
            environment = (
                os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank), LAST_WORDS: str(writer)}
            )
            try:
                children.append(
                    processes.spawn(command, env=environment, pass_fds=[writer])
                )  # Ctrl-C: here alone
            finally:
                os.close(writer)
        log.info("ranks started count=%d pids=%s", ranks, ",".join(str(child.pid) for child in children))
        try:
            code, dead = _wait(children)
        finally:
            _end(children)
        words = {rank: said for rank, reader in enumerate(readers) if (said := _read(reader.fileno()))}
    codes = [child.wait() for child in children]
    if report is not None and (ended := _why(codes, dead, words)) is not None:
        log.error("ranks_ended why=%r", ended.why)
        report(ended)
    return code


def _read(pipe: int) -> str:
    """Read the last words of an ended rank; "" for none."""
    os.set_blocking(pipe, False)  # a process that outlives its rank may hold the other end
    try:
        return os.read(pipe, MOST_BYTES).decode(errors="replace")
    except BlockingIOError:
        return ""


def _why(codes: Sequence[int], dead: Sequence[int], words: Mapping[int, str]) -> RanksEnded | None:
    """Find the rank that died first: by a signal, else with its own reason. None: rank 0 decided to end.

    Args:
        codes: of all ranks, negative for a signal.
        dead: ranks found dead before the others were stopped.
        words: last words, by rank.
    """
    if codes[0] == 0 and not dead:
        return None
    has_verdict = codes[0] > 0
    suspects = [rank for rank in {*dead, *words} if not (has_verdict and rank == 0)]
    causes = [rank for rank in suspects if not ECHO.search(words.get(rank, ""))]
    if not causes and (has_verdict or not suspects):
        return None
    first = min(causes or suspects, key=lambda rank: (codes[rank] > 0, rank))
    why = f"rank {first} {processes.how_it_ended(codes[first])}"
    return RanksEnded(
        why=f"{why}: {words[first]}" if first in words else why,
        by_signal=codes[first] < 0,
        has_verdict=has_verdict,
    )


def _wait(children: Sequence[subprocess.Popen[bytes]]) -> tuple[int, list[int]]:
    """Wait until all ranks have ended with 0, or one with another code. Returns the code and the ranks dead by then.

    The code is 128 + N where signal N ended the rank.

    A rank that ends after rank 0 ended well does not count as dead. After rank 0 has ended well the others have some
    time to follow. A rank that stays is ended, which is a failure. A code of rank 0 alone is no death: rank 0 decides
    how the run ends, and has given the reason.
    """
    deadline = math.inf
    while True:
        codes = [child.poll() for child in children]
        dead = {rank: code if code > 0 else 128 - code for rank, code in enumerate(codes) if code}
        if list(dead) == [0] and dead[0] == codes[0]:
            log.warning("ranks end code=%d: rank 0 has said why", dead[0])
            return dead[0], []
        if dead:  # more than one when the first took others with it; each has logged its own reason
            log.error("rank died code_by_rank=%s: ending the others", dead)
            return next(iter(dead.values())), [] if codes[0] == 0 else list(dead)
        if all(code == 0 for code in codes):
            return 0, []
        if codes[0] == 0:
            deadline = min(deadline, time.monotonic() + GRACE_S)
        if time.monotonic() > deadline:
            log.error(
                "ranks stayed ranks=%s after_s=%.0f: rank 0 has ended",
                ",".join(str(rank) for rank, code in enumerate(codes) if code is None),
                GRACE_S,
            )
            return 1, []
        time.sleep(POLL_S)


def _end(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """Stop the running ranks: rank 0 has some time to report why the run failed, the others obey SIGKILL alone."""
    for child in children:
        if not processes.has_ended(child):
            child.terminate()  # once: a second signal would end rank 0 before its report
    deadline = time.monotonic() + GRACE_S
    for child in children:
        processes.wait(child, max(0.0, deadline - time.monotonic()))
        processes.stop(child, grace_s=0.0)


@contextlib.contextmanager
def _signals_to(children: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Forward SIGINT and SIGTERM to rank 0, which ends the run: first cleanly, then at once."""

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
