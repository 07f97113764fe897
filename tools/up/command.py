"""`millrace up CONFIG`: run a whole run on this machine.

In: a configuration. Out: the run's folder, and the learner's exit code. What the roles need is imported from the moment
the configuration is read; `tools.up.local_run` does the rest.
"""

from __future__ import annotations

import argparse
import contextlib

from broker.fork_server.client import ForkServer
from config.loading import load_run
from config.run import Run
from tools.arguments import add_config, given_config
from tools.up.role_commands import fork_server_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace up`."""
    add_config(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="show the commands and their GPUs; start nothing"
    )
    parser.add_argument("--plain", action="store_true", help="lines instead of the table, on a terminal too")


def run(options: argparse.Namespace) -> int:
    """Run a configuration. Raises ConfigError, PipelineError."""
    given = given_config(options)
    wanted = load_run(given)
    with contextlib.closing(ForkServer([]) if options.dry_run else fork_server_of(wanted)) as fork_server:
        return _up(wanted, given, options, fork_server)


def _up(wanted: Run, given: list[str], options: argparse.Namespace, fork_server: ForkServer) -> int:
    # Behind the start of the fork server, which imports for longer than these do.
    from learner.launch.preflight import check_places
    from tools.doctor.light import check_light
    from tools.up.local_run import up

    if options.dry_run:
        check_places(wanted)
    else:
        check_light(wanted, given)
    return up(wanted, given, dry_run=options.dry_run, plain=options.plain, fork_server=fork_server)
