"""`python -m scorers serve` gives scores over HTTP, to II-Thought's clients and any other.

It finds Redis (REDIS_URL, or a private one of its own), writes the run `api` there, and serves until SIGTERM or Ctrl-C.
Requests under way still get their answers then. `python -m scorers --run api` scores: start as many of these as you
like, here or elsewhere. `scorers.reward_server.service` has the API, docs/reward_server.md the rest.
"""

from __future__ import annotations

import argparse
import logging
import math
from functools import partial
from pathlib import Path
from typing import Any

from config.explanations import ConfigError
from config.loading import redis_url, reward_token
from config.logs import set_up_logging

log = logging.getLogger(__name__)

WITHIN_S = 25.0  # the clients of II-Thought wait for 30
LONGEST_WITHIN_S = 300.0  # of ten minutes, after which a request is swept away
LINGERS_S = 20.0  # a client of II-Thought comes back after 2, 4 and 8 seconds


def serve(words: list[str]) -> int:
    """Serve until stopped. 0: stopped; 1: no Redis, or the address is taken; 2: bad arguments or configuration."""
    args, rest = _parser().parse_known_args(words)
    if not 0 <= args.port < 1 << 16 or not 0 < args.timeout <= LONGEST_WITHIN_S:
        _parser().error(f"--port is at most 65535, --timeout above 0 and at most {LONGEST_WITHIN_S:g}")
    set_up_logging("server")

    from broker.errors import Permanent, PipelineError
    from scorers.reward_server.api_run import api_run

    try:
        token = _token(args.token_file)
        if token is not None and args.legacy_client:
            raise ConfigError(
                "--legacy-client and a token (--token-file, MILLRACE_REWARD_TOKEN): II-Thought's client "
                "shows none, and would take each 401 for a score of 0"
            )
        files = [word for file in args.config for word in ("--config", file)]
        run = api_run([*files, *rest], args.runs_dir if redis_url() is None else Path("runs"))
    except (ConfigError, OSError) as error:
        log.error("ended reason=%s", error)  # noqa: TRY400 - the reason is what people need
        return 2
    try:
        return _serve(args, run, token)
    except PipelineError as error:
        log.error("ended reason=%s", error)  # noqa: TRY400
        return 2 if isinstance(error, Permanent) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scorers serve", description=__doc__, usage="%(prog)s [options] [key=value ...]"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; default: %(default)s")
    parser.add_argument("--port", type=int, default=8000, help="default: %(default)s")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="holds the token that clients have to show; default: MILLRACE_REWARD_TOKEN, or none",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="a run's configuration, whose scorers are served; default: every scorer of this version",
    )
    parser.add_argument(
        "--legacy-client",
        action="store_true",
        help="clients are II-Thought's: break the connection where others get a 503, which they would "
        "take for a score of 0, and score what follows the first mark of its trainer's prompts",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=WITHIN_S,
        metavar="SECONDS",
        help="within which a request gets its answer, or a 503; default: %(default)g",
    )
    parser.add_argument(
        "--runs-dir",
        type=Path,
        default=Path("runs"),
        help="where the private Redis is, if REDIS_URL is not set; default: %(default)s",
    )
    return parser


def _token(file: Path | None) -> str | None:
    """Return the token that clients have to show. Raises OSError, ConfigError."""
    if file is None:
        token = reward_token()
        return None if token is None else token.get_secret_value()
    if not (text := file.read_text(encoding="utf-8").strip()):
        raise ConfigError(f"{file}: no token in it")
    return text


def _serve(args: argparse.Namespace, run: Any, token: str | None) -> int:
    """Join Redis, then serve. Raises PipelineError."""
    from broker.connection import RedisLink
    from broker.joining import Joined
    from broker.keys import Keys
    from broker.monitoring.heartbeat import Heartbeat
    from broker.private_redis import server as embedded
    from config.endpoint import is_loopback
    from scorers.reward_server.api_run import ROLE, maintain, register
    from scorers.reward_server.pending_requests import PendingRequests
    from scorers.reward_server.service import RewardServer
    from web.connections import Connections
    from web.server import serve_app

    url = redis_url()
    private = embedded.start(run) if url is None else None
    link = RedisLink(private.url if private else url.get_secret_value(), outage_s=run.broker.outage_s)  # type: ignore[union-attr]
    joined = Joined(run, link, Keys(run.name))
    pending = PendingRequests(joined, lingers_s=LINGERS_S if args.legacy_client else 0.0)
    # Before the run is written: a server that starts meanwhile sees this one.
    heartbeat = Heartbeat(link, joined.keys, ROLE, pending.name, long_wait_s=math.inf)
    try:
        link(lambda _: register(joined, pending.name))
        heartbeat.set_state(f"serving on port {args.port}")
        connections = Connections(answers=not args.legacy_client)
        server = RewardServer(
            pending,
            run.scorers.tasks,
            within_s=args.timeout,
            token=token,
            drop=connections.drop if args.legacy_client else None,
            maintain=partial(maintain, joined, pending.name),
        )
        if not is_loopback(args.host) and token is None:
            log.warning(
                "server_open host=%s meaning=whoever reaches port %d may have programs run in the sandbox; see "
                "--token-file",
                args.host,
                args.port,
            )
        log.info(
            "serving host=%s port=%d redis=%s tasks=%s",
            args.host,
            args.port,
            link.address,
            ",".join(run.scorers.tasks),
        )
        return serve_app(server.app, args.host, args.port, connections, proxy_headers=False)
    finally:
        heartbeat.stop()
        link.close()
        if private is not None:
            private.stop()
