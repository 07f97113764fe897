"""`millrace top RUN`: show a live screen of a run, or one snapshot of it.

In: the run's name. Out: a screen that is redrawn every few seconds, until Ctrl-C or the run's end. With `--once`, or
where the output is no terminal, the verb takes two snapshots some seconds apart, since rates need two, and prints the
second. With `--json` it prints objects, one per line. Only reads. While Redis is away it shows the last snapshot, with
its age. Exit code: 0; 1 where there is no such run, or the one snapshot got no answer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from broker.errors import BrokerUnavailable
from broker.joining import NoRun, find_redis
from broker.private_redis.server import folder_of
from config.logs import mask
from tools.arguments import add_json, add_run, add_runs_dir
from tools.run_view.follower import WINDOW_S, RunFollower, RunView, ended_view
from tools.run_view.screen import RunScreen
from tools.top.report import report
from tools.top.screen import screen

LIVE_EVERY_S = 2.0
ONCE_S = 5.0


EPILOG = "`millrace keys` says what a key of --json means; docs/metrics.md lists all."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace top`."""
    add_run(parser)
    parser.add_argument(
        "--once", action="store_true", help="look twice, some seconds apart, say it, and stop"
    )
    add_json(parser, "an object a line instead of a screen")
    parser.add_argument(
        "--every",
        type=_seconds,
        metavar="S",
        help=f"seconds between two looks ({LIVE_EVERY_S:g}; with --once {ONCE_S:g}); what is said is "
        f"of the last {WINDOW_S:g}",
    )
    add_runs_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Show a run. Raises NoRun, WrongBroker, BrokerUnavailable."""
    # A pipe gets no redrawn screen.
    is_once = options.once or not (options.json or sys.stdout.isatty())
    every_s = options.every or (ONCE_S if is_once else LIVE_EVERY_S)
    folder = folder_of(options.run, options.runs_dir)
    try:
        url = find_redis(options.run, options.runs_dir)
    except NoRun:
        if is_once and (view := ended_view(options.run, folder)):
            return _show(view, as_json=options.json)
        raise
    with contextlib.closing(RunFollower(url, options.run, folder)) as follower:
        try:
            if is_once:
                return _once(follower, folder, every_s, as_json=options.json)
            return _follow(follower, folder, every_s, as_json=options.json)
        except KeyboardInterrupt:
            return 0


def _once(follower: RunFollower, folder: Path, every_s: float, *, as_json: bool) -> int:
    if not follower.look():
        if view := ended_view(follower.view.name, folder):
            return _show(view, as_json=as_json)
        raise BrokerUnavailable(
            f"no answer from the redis of run {follower.view.name}: {mask(follower.view.trouble)}{_ending(follower)}"
        )
    now = follower.view.snapshot
    if now is not None and not now.status and not now.processes:
        raise NoRun(f"there is no run {follower.view.name} at this redis: no learner has begun it")
    if not follower.how_it_ended():  # for an ended run, one snapshot is enough
        time.sleep(every_s)
        follower.look()
    return _show(follower.view, as_json=as_json)


def _show(view: RunView, *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(json.dumps(report(view)) + "\n")
    else:
        console = Console(highlight=False)
        console.print(screen(view, console, is_cut=False))
    return 0


def _follow(follower: RunFollower, folder: Path, every_s: float, *, as_json: bool) -> int:
    """Show the run until it has ended."""
    with _as_lines(follower) if as_json else _on_screen(follower, folder) as draw:
        while True:
            follower.look()
            draw()
            if follower.how_it_ended():
                break
            time.sleep(every_s)
    if not as_json:
        sys.stdout.write(f"\nrun {follower.view.name} has ended: {mask(follower.how_it_ended())}\n")
    return 0


@contextlib.contextmanager
def _on_screen(follower: RunFollower, folder: Path) -> Iterator[Callable[[], None]]:
    """Open a full screen, as a pager does; its last content is printed when it closes.

    For an ended run, that is its end: its Redis may already be gone.
    """
    console = Console(highlight=False)
    try:
        with RunScreen(console, is_whole=True) as shown:
            yield lambda: shown.draw(screen(follower.view, console, is_cut=True))
    finally:
        if console.is_terminal:
            end = ended_view(follower.view.name, folder) if follower.view.trouble else None
            console.print(screen(end or follower.view, console, is_cut=False))


@contextlib.contextmanager
def _as_lines(follower: RunFollower) -> Iterator[Callable[[], None]]:
    def write() -> None:
        if follower.view.snapshot is not None:
            sys.stdout.write(json.dumps(report(follower.view)) + "\n")
            sys.stdout.flush()

    yield write


def _ending(follower: RunFollower) -> str:
    how = follower.how_it_ended()
    return f". The run has ended: {how}" if how else ""


def _seconds(text: str) -> float:
    """Read a number of seconds above 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds
