"""Arguments that several verbs of `millrace` have, each written once, and the error of wrong words.

In: a verb's parser. Out: the same parser with the argument. A verb is a module with `add_arguments(parser)` and
`run(options)`; `tools.main` has their table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from config.run_names import run_name


class UsageError(Exception):
    """The words are no use of the verb; `tools.main` shows the usage and ends with 2."""


def add_run(parser: argparse.ArgumentParser) -> None:
    """Adds the name of a run."""
    parser.add_argument("run", type=run_name, metavar="RUN", help="the run's name")


def add_runs_dir(parser: argparse.ArgumentParser) -> None:
    """Adds the folder of the runs."""
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), metavar="DIR", help="where runs are (runs)"
    )


def add_json(parser: argparse.ArgumentParser, text: str = "one JSON object") -> None:
    """Adds the switch to output for programs."""
    parser.add_argument("--json", action="store_true", help=text)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Adds a run's YAML file, with settings over it."""
    parser.add_argument("config", metavar="CONFIG", help="YAML file of the run")
    parser.add_argument(
        "values", nargs="*", metavar="key=value", help="settings over the file's: learner.steps=10"
    )


def given_config(options: argparse.Namespace) -> list[str]:
    """Returns the words of `add_config` as every role takes them: `--config FILE key=value ...`."""
    return ["--config", options.config, *options.values]
