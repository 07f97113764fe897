"""Define arguments that several verbs of `millrace` share, and the error for wrong usage.

In: a verb's parser. Out: the same parser with the argument. A verb is a module with `add_arguments(parser)` and
`run(options)`; `tools.main` has their table.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from pathlib import Path

from config.run_names import run_name

FROM_1 = "steps are counted from 1: step 1 made version 1"


class UsageError(Exception):
    """The arguments can't be used; `tools.main` shows the usage and exits with 2."""


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the name of a run."""
    parser.add_argument("run", type=run_name, metavar="RUN", help="the run's name")


def add_runs_dir(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the runs."""
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), metavar="DIR", help="where runs are (runs)"
    )


def add_json(parser: argparse.ArgumentParser, text: str = "one JSON object") -> None:
    """Add the switch to machine-readable output."""
    parser.add_argument("--json", action="store_true", help=text)


def add_steps(
    parser: argparse.ArgumentParser, text: str = "first and last step, counted from 1 (all that there are)"
) -> None:
    """Add a range of steps, numbered as by `learner.journal.records.step_number`; `None` by default."""
    parser.add_argument("--steps", type=parse_steps, metavar="A-B", help=text)


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the number of processes that score."""
    parser.add_argument(
        "--workers",
        type=number_of("processes"),
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="processes that score (as many as CPUs)",
    )


def add_samples(parser: argparse.ArgumentParser, text: str) -> None:
    """Add how many of the most telling rows to show."""
    parser.add_argument(
        "--samples", type=number_of("samples", least=0), default=10, metavar="N", help=f"{text} (10)"
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add a run's YAML file, with overriding settings."""
    parser.add_argument("config", metavar="CONFIG", help="YAML file of the run")
    parser.add_argument(
        "values", nargs="*", metavar="key=value", help="settings over the file's: learner.steps=10"
    )
    add_layers(parser)


def add_layers(parser: argparse.ArgumentParser) -> None:
    """Add further YAML files that override the first."""
    parser.add_argument(
        "--layer",
        action="append",
        default=[],
        metavar="FILE",
        help="another YAML file over CONFIG, such as a recipe of held-out sets; may be given again",
    )


def layer_words(options: argparse.Namespace) -> list[str]:
    """Return the arguments of `add_layers` in the form for every role."""
    return [word for file in options.layer for word in ("--config", file)]


def given_config(options: argparse.Namespace) -> list[str]:
    """Return the arguments of `add_config` in the form for every role: `--config FILE ... key=value ...`."""
    return ["--config", options.config, *layer_words(options), *options.values]


def check_out(out: Path | None) -> None:
    """Check, before any work, that a file can be written there. Raises UsageError."""
    if out is not None and out.is_dir():
        raise UsageError(f"--out {out}: is a folder")
    if out is not None and not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: no folder {out.absolute().parent}")


def number_of(what: str, least: int = 1) -> Callable[[str], int]:
    """Return the reader of a whole number, for argparse."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no number of {what}; it must be at least {least}")
        return int(text)

    return read


def parse_step(text: str) -> int:
    """Read the number of a step. Raises ArgumentTypeError for anything else."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a step; write 3")
    if not int(text):
        raise argparse.ArgumentTypeError(FROM_1)
    return int(text)


def parse_steps(text: str) -> range:
    """Read `3-17`, or `3` alone. Raises ArgumentTypeError for anything else."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if not found or int(found[2] or found[1]) < int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no range of steps; write 3-17 or 3")
    if not int(found[1]):
        raise argparse.ArgumentTypeError(FROM_1)
    return range(int(found[1]), int(found[2] or found[1]) + 1)
