"""`python -m scorers sandbox`: this machine's sandbox as a service of its own, which belongs to no run.

Parses, proves that the walls hold, serves until SIGTERM or Ctrl-C, which let the runs that it is at come to their end.
`scorers.sandbox.service` has the API.
"""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import signal

from config.logs import set_up_logging
from config.scorers import ScorersConfig

log = logging.getLogger(__name__)


def serve(words: list[str]) -> int:
    """Serve. 0: stopped; 1: no sandbox here, or the address is taken; 2: bad arguments."""
    parser = argparse.ArgumentParser(prog="python -m scorers sandbox", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; default: %(default)s")
    parser.add_argument("--port", type=int, default=8080, help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="programs that may run at once; default: one for each core")
    parser.add_argument("--sandbox", choices=("auto", "bubblewrap", "landlock", "unsafe"), default="auto",
                        help="which walls; default: the best that this machine has; unsafe: none")
    args = parser.parse_args(words)
    if args.workers < 1 or not 0 <= args.port < 1 << 16:
        parser.error("--workers is at least 1, --port at most 65535")
    set_up_logging("sandbox")

    import uvicorn

    from broker.errors import PipelineError
    from scorers.sandbox.choice import build_sandbox
    from scorers.sandbox.service import Served, Service
    try:
        sandbox = build_sandbox(ScorersConfig(sandbox=args.sandbox))        # it has passed its self test
        served = Served.of(sandbox)
        sandbox.close()
    except PipelineError as error:
        log.error("ended reason=%s", error)     # noqa: TRY400 - the reason is what people need
        return 1
    if not _is_loopback(args.host):
        log.warning("sandbox_open host=%s meaning=whoever reaches port %d may have programs run", args.host, args.port)
    log.info("sandbox_serving sandbox=%s %s workers=%d host=%s port=%d", served.name, served.version, args.workers,
             args.host, args.port)
    server = uvicorn.Server(uvicorn.Config(
        Service(served, args.workers).app, host=args.host, port=args.port, log_config=None, access_log=False,
        log_level="warning", loop="asyncio", ws="none", server_header=False, date_header=False))
    for number in (signal.SIGTERM, signal.SIGINT):      # uvicorn takes them, and sends them on once it has ended
        signal.signal(number, lambda _number, _frame: None)
    try:
        server.run()
    except SystemExit as end:       # uvicorn's way to say that it could not start; it has logged why
        return 1 if end.code else 0
    return 0


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
