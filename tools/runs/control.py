"""`millrace drain|pause|resume RUN`: tell a running learner what to do next.

In: the run's name. Out: a request in Redis, which the learner reads within about a second and obeys after its step. The
request stays for the next learner where none runs now. Exit code 1 where the run is finished, did not end within
`--wait`, or has no learner that could obey.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from broker.connection import RedisLink
from broker.errors import PipelineError
from broker.joining import FINISHED, has_learner, linked, state_of
from broker.keys import Keys
from broker.private_redis import server
from broker.protocol.ledger_view import is_known
from broker.protocol.run_state import DRAIN, GO_ON, PAUSE, ask, asked
from tools.arguments import add_run, add_runs_dir

OUTAGE_S = 10.0
POLL_S = 0.5
ANSWERS = {
    DRAIN: "asked to drain: nothing new is let in, groups in flight are trained, then it ends with a checkpoint",
    PAUSE: "asked to pause: groups in flight are sampled and scored, and nothing is trained. To go on: millrace resume",
    GO_ON: "asked to go on",
}


class HasEnded(PipelineError):
    """The run has no learner, and none will come."""


WANTED = {"drain": DRAIN, "pause": PAUSE, "resume": GO_ON}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace drain|pause|resume`."""
    add_run(parser)
    if parser.get_default("verb") == "drain":
        parser.add_argument(
            "--wait",
            type=float,
            default=0.0,
            metavar="SECONDS",
            help="wait so long for the run's end, and fail if it has not come (0: do not wait)",
        )
    add_runs_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Send a request to a run's learner. Raises HasEnded."""
    return control(options.run, options.runs_dir, WANTED[options.verb], wait_s=getattr(options, "wait", 0.0))


def control(name: str, runs_dir: Path, wanted: str, *, wait_s: float = 0.0) -> int:
    """Send the request, and wait up to `wait_s` seconds for the end of a drained run.

    Raises:
        HasEnded: the run has ended, or does not exist.
    """
    keys = Keys(name)
    with linked(name, runs_dir, outage_s=OUTAGE_S) as link:
        state = state_of(link, keys)
        if state.status == FINISHED:
            raise HasEnded(
                f"run {name} is finished: no learner is there to ask, and none will come. Its model is in "
                f"{server.folder_of(name, runs_dir) / 'model'}; `millrace up` begins the next run"
            )
        if not state.status and not _is_there(link, keys):
            raise HasEnded(f"there is no run {name} at {link.address}")
        ask(link, keys, wanted)
        sys.stdout.write(f"run {name}: {ANSWERS[wanted]}\n")
        if not has_learner(link, keys):
            sys.stdout.write("no learner of it is alive: the next one will do it\n")
        return _wait(link, keys, wait_s, had_ended=state.has_ended) if wanted == DRAIN and wait_s > 0 else 0


def _is_there(link: RedisLink, keys: Keys) -> bool:
    """Return whether a run has begun or is beginning: a learner that is loading has deleted the last status."""
    return is_known(link, keys) or has_learner(link, keys)


def _wait(link: RedisLink, keys: Keys, wait_s: float, *, had_ended: bool) -> int:
    """Wait for an end after the request; an end before it, `had_ended`, does not count."""
    deadline = time.monotonic() + wait_s
    while not (state := state_of(link, keys)).has_ended or (had_ended and asked(link, keys) == DRAIN):
        had_ended &= state.has_ended  # else the next learner has begun meanwhile
        if had_ended and not has_learner(link, keys):
            sys.stderr.write(
                f"run {keys.name} had ended before ({state.status} {state.reason}), and no learner of it "
                "runs: nothing is drained until the next one comes\n"
            )
            return 1
        if time.monotonic() > deadline:
            sys.stderr.write(f"run {keys.name} has not ended after {wait_s:.0f} s; it goes on draining\n")
            return 1
        time.sleep(POLL_S)
    sys.stdout.write(f"run {keys.name}: {state.status} {state.reason}\n")
    return 1 if state.status == "failed" else 0
