"""`python -m generators --run NAME`: run one generator; start and stop any number of them at any time."""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import gc
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable
from pathlib import Path

# `python -m` searches the current folder first, where an unrelated `config.py` may lie.
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[0] != str(Path(__file__).parents[1]):
    sys.path.append(sys.path.pop(0))
    os.environ["PYTHONSAFEPATH"] = "1"  # for child processes, which find a user's modules anyway

from config.logs import set_up_logging
from config.run_names import run_name
from config.versions import versions

log = logging.getLogger("generators")

AT_ONCE_S = 2.0  # for the second signal, which ends the process at once, to hand back its leases


def main(argv: list[str] | None = None) -> int:
    """Parse, join the run, sample until it ends.

    Returns:
        0: the run is done, or a signal came; 1: the run or this process failed; 2: bad arguments.
    """
    parser = argparse.ArgumentParser(prog="python -m generators", description=__doc__)
    parser.add_argument("--run", type=run_name, required=True, metavar="NAME", help="the run to join")
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), help="where runs are, if REDIS_URL is not set"
    )
    parser.add_argument("--version", action="version", version=versions())
    args = parser.parse_args(argv)
    set_up_logging("generator")
    faulthandler.enable(all_threads=False)  # a crash inside a library leaves its traceback in the last lines

    from broker.errors import BrokerUnavailable, PipelineError
    from broker.joining import join, let_the_learner_go_first
    from broker.monitoring.heartbeat import Heartbeat
    from broker.processes import stop_on_signals
    from broker.protocol.leases import hand_back_within

    hand_back: list[Callable[[], int]] = []
    stop = stop_on_signals(lambda: hand_back_within(hand_back, AT_ONCE_S))
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
    try:
        from generators.engines.build import build_engine, import_engine

        joined = join(args.run, args.runs_dir, stop, prepare=import_engine)
        if joined is None:
            return 0
        from generators.worker import ROLE, Generator

        heartbeat = Heartbeat(joined.link, joined.keys, ROLE, name)
        try:
            generator = Generator(joined, build_engine(joined.run), name, stop)
            hand_back.append(generator.hand_back)
            state = asyncio.run(generator.run(heartbeat))
            if state.has_ended:
                let_the_learner_go_first(joined.link, joined.keys, stop)
        finally:
            heartbeat.stop()
    except PipelineError as error:
        log.error("ended reason=%s", error)  # noqa: TRY400 - the reason is what people need
        return 0 if stop.is_set() and isinstance(error, BrokerUnavailable) else 1  # its leases expire
    except Exception:
        log.exception("ended by a bug or a broken machine")
        return 1
    log.info("ended run=%s status=%s reason=%s", args.run, state.status or "stopping", state.reason or "none")
    return 1 if state.status == "failed" else 0


if __name__ == "__main__":
    code = main()
    gc.freeze()  # else the interpreter's last collections of all that torch holds take a second
    sys.exit(code)
