"""`python -m scorers --run NAME`: a dispatcher and some RQ workers; start as many of these as you like, at any time.

The process that you start watches its children: each is a process of its own, dies with it, and is started again when
it ends before the run does (an RQ worker ends itself when Redis is away for long; that is normal).
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import socket
import sys
import threading
from pathlib import Path

from config.logs import set_up_logging
from config.versions import versions

log = logging.getLogger("scorers")


def main(argv: list[str] | None = None) -> int:
    """Parse, join the run, score until it ends. 0: the run is done; 1: it or this process failed; 2: bad arguments."""
    parser = argparse.ArgumentParser(prog="python -m scorers", description=__doc__)
    parser.add_argument("--run", required=True, metavar="NAME", help="the run to join")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"), help="where runs are, if REDIS_URL is not set")
    parser.add_argument("--part", choices=("all", "dispatcher", "worker"), default="all",
                        help="all: both, until the run ends; the others: that process alone, until stopped")
    parser.add_argument("--version", action="version", version=versions())
    args = parser.parse_args(argv)
    set_up_logging("scorer")

    from broker.errors import PipelineError
    from broker.joining import Joined, join
    from broker.processes import stop_on_signals

    def part(joined: Joined, stop: threading.Event) -> int:
        if args.part == "all":
            from scorers.pool import Pool
            return Pool(joined, ["--run", args.run, "--runs-dir", str(args.runs_dir)]).run(stop)
        name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        if args.part == "dispatcher":
            from scorers.dispatcher import run_dispatcher
            return run_dispatcher(joined, name, stop)
        from scorers.worker import run_worker  # imports sympy, on purpose before the scoring child is forked
        return run_worker(joined, name, stop)

    stop = stop_on_signals()
    try:
        joined = join(args.run, args.runs_dir, stop)
        return 0 if joined is None else part(joined, stop)
    except PipelineError as error:
        log.error("ended part=%s reason=%s", args.part, error)     # noqa: TRY400 - the reason is what people need
        return 1
    except Exception:
        log.exception("ended part=%s by a bug or a broken machine", args.part)
        return 1


if __name__ == "__main__":
    sys.exit(main())
