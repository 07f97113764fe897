"""`python -m agents --run NAME`: play episodes in one worker, or several; start any number at any time."""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import logging
import math
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

# `python -m` searches the current folder first, where an unrelated `config.py` may lie.
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[0] != str(Path(__file__).parents[1]):
    sys.path.append(sys.path.pop(0))
    os.environ["PYTHONSAFEPATH"] = "1"  # for child processes, which find a user's modules anyway

from config.logs import set_up_logging
from config.run_names import run_name
from config.versions import versions

if TYPE_CHECKING:
    from broker.joining import Joined, RunState

log = logging.getLogger("agents")

ROLE = "agent"
AT_ONCE_S = 2.0  # for the second signal, which ends the process at once, to hand back its leases


def main(argv: list[str] | None = None) -> int:
    """Parse, join the run, play until it ends.

    Returns:
        0: the run is done, or a signal came; 1: the run or this process failed; 2: a restart would fail too.
    """
    args = _parse(argv)
    set_up_logging("agent")
    faulthandler.enable(all_threads=False)  # a crash inside a library leaves its traceback in the last lines

    from broker.errors import BrokerUnavailable, Permanent, PipelineError
    from broker.joining import join
    from broker.processes import stop_on_signals
    from broker.protocol.leases import hand_back_within

    hand_back: list[Callable[[], int]] = []
    stop = stop_on_signals(lambda: hand_back_within(hand_back, AT_ONCE_S))
    try:
        joined = join(args.run, args.runs_dir, stop)
        if joined is None:
            return 0
        if args.workers > 1 and joined.run.has_agents:
            from agents.pool import run_pool

            return run_pool(joined, ["--run", args.run, "--runs-dir", str(args.runs_dir)], args.workers, stop)
        state = _work(joined, stop, hand_back)
    except PipelineError as error:
        log.error("ended reason=%s", error)  # noqa: TRY400 - the reason is what people need
        if stop.is_set() and isinstance(error, BrokerUnavailable):
            return 0  # asked to end while Redis was away; leases expire
        return 2 if isinstance(error, Permanent) else 1
    except Exception:
        log.exception("ended by a bug or a broken machine")
        return 1
    log.info("ended run=%s status=%s reason=%s", args.run, state.status or "stopping", state.reason or "none")
    return 1 if state.status == "failed" else 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m agents", description=__doc__)
    parser.add_argument("--run", type=run_name, required=True, metavar="NAME", help="the run to join")
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), help="where runs are, if REDIS_URL is not set"
    )
    parser.add_argument(
        "--workers",
        type=_number,
        default=1,
        metavar="N",
        help="processes that play, of this one's own where they are several (1)",
    )
    parser.add_argument("--version", action="version", version=versions())
    return parser.parse_args(argv)


def _work(joined: Joined, stop: threading.Event, hand_back: list[Callable[[], int]]) -> RunState:
    """Play in this process until the run ends or `stop` is set. Returns the run's last state. Raises PipelineError.

    Args:
        hand_back: receives the function that the second signal calls.
    """
    from agents.pool import wait_for_the_end
    from broker.joining import let_the_learner_go_first
    from broker.monitoring.heartbeat import Heartbeat
    from broker.monitoring.stall_warning import FIRST_S

    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
    is_idle = not joined.run.has_agents
    long_wait_s = math.inf if is_idle else FIRST_S
    heartbeat = Heartbeat(joined.link, joined.keys, ROLE, name, long_wait_s=long_wait_s)
    try:
        if is_idle:
            log.info("idle run=%s: no task of it has an environment", joined.run.name)
            state = wait_for_the_end(joined, heartbeat, stop)
        else:
            from agents.worker import AgentWorker  # with the imports of environments

            worker = AgentWorker(joined, name, stop)
            hand_back.append(worker.hand_back)
            state = asyncio.run(worker.run(heartbeat))
        if state.has_ended:
            let_the_learner_go_first(joined.link, joined.keys, stop)
    finally:
        heartbeat.stop()
    return state


def _number(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of workers")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
