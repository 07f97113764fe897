"""`millrace up CONFIG`: run a whole run on this machine.

In: a configuration. Out: the run's folder, and the learner's exit code. What the roles need is imported from the first
moment, before the configuration is read; `tools.up.local_run` does the rest.
"""

from __future__ import annotations

import argparse
import contextlib

from broker.fork_server.client import ForkServer
from tools.arguments import add_config, given_config
from tools.up.first_imports import begin_fork_server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace up`."""
    add_config(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="show the commands and their GPUs; start nothing"
    )
    parser.add_argument("--plain", action="store_true", help="lines instead of the table, on a terminal too")


def run(options: argparse.Namespace) -> int:
    """Run a configuration. Raises ConfigError, PipelineError."""
    if options.dry_run:
        return _up(options, None)
    with contextlib.closing(begin_fork_server()) as fork_server:
        return _up(options, fork_server)


def _up(options: argparse.Namespace, fork_server: ForkServer | None) -> int:
    # Behind the start of the fork server, which imports for longer than these do.
    from config.loading import load_run
    from tools.up.role_commands import complete_fork_server

    given = given_config(options)
    wanted = load_run(given)
    if fork_server is not None:
        complete_fork_server(fork_server, wanted)

    from learner.launch.preflight import check_places
    from tools.doctor.light import check_light
    from tools.up.local_run import up

    if options.dry_run:
        check_places(wanted)
    else:
        check_light(wanted, given)
    return up(wanted, given, dry_run=options.dry_run, plain=options.plain, fork_server=fork_server)
