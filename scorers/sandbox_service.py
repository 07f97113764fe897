"""`python -m scorers sandbox`: this machine's sandbox as a service of its own, which belongs to no run.

Parses, proves that the walls hold, serves until SIGTERM or Ctrl-C, which let the runs that it is at come to their end.
`sandbox.server.service` has the API.
"""

from __future__ import annotations

import argparse
import logging
import os

from config.logs import set_up_logging
from config.scorers import ScorersConfig

log = logging.getLogger(__name__)


def serve(words: list[str]) -> int:
    """Serve until stopped. Return 0: stopped; 1: no sandbox here, or the address is taken; 2: bad arguments."""
    parser = argparse.ArgumentParser(prog="python -m scorers sandbox", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; default: %(default)s")
    parser.add_argument("--port", type=int, default=8080, help="default: %(default)s")
    parser.add_argument(
        "--workers",
        type=int,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="programs that may run at once; default: one for each core",
    )
    parser.add_argument(
        "--sandbox",
        choices=("auto", "bubblewrap", "landlock", "unsafe"),
        default="auto",
        help="which walls; default: the best that this machine has; unsafe: none",
    )
    args = parser.parse_args(words)
    if args.workers < 1 or not 0 <= args.port < 1 << 16:
        parser.error("--workers is at least 1, --port at most 65535")
    set_up_logging("sandbox")

    from broker.errors import PipelineError
    from config.endpoint import is_loopback
    from sandbox.choice import build_sandbox
    from sandbox.server.service import Served, Service
    from scorers.code.submit import submit_routes
    from web.server import serve_app

    try:
        sandbox = build_sandbox(ScorersConfig(sandbox=args.sandbox))  # it has passed its self test
        served = Served.of(sandbox)
        sandbox.close()
    except PipelineError as error:
        log.error("ended reason=%s", error)  # noqa: TRY400 - the reason is what people need
        return 1
    if not is_loopback(args.host):
        log.warning(
            "sandbox_open host=%s meaning=whoever reaches port %d may have programs run", args.host, args.port
        )
    log.info(
        "sandbox_serving sandbox=%s %s workers=%d host=%s port=%d",
        served.name,
        served.version,
        args.workers,
        args.host,
        args.port,
    )
    return serve_app(Service(served, args.workers, submit_routes).app, args.host, args.port)
