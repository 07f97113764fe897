"""`millrace report RUN [OTHER]`: write a run's report on one page, or two runs side by side.

In: the runs' folders: metrics, journal, configuration; no Redis. Out: a self-contained HTML file. The learner writes
the same page when a run ends; this verb also works during a run, and for two runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from broker.private_redis import server
from config.run_names import run_name
from tools.arguments import add_run, add_runs_dir
from tools.runs.folder import NoJournal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace report`."""
    add_run(parser)
    parser.add_argument(
        "other", type=run_name, nargs="?", metavar="OTHER", help="a second run, to lay beside the first"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="file to write (report.html in the run's folder; of two runs RUN-OTHER.html here)",
    )
    add_runs_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Write the page and print its path. Raises NoJournal where a run has no folder with a journal."""
    names = [name for name in (options.run, options.other) if name is not None]
    folders = [server.folder_of(name, options.runs_dir) for name in names]
    for folder in folders:
        if not (folder / "journal").is_dir():
            raise NoJournal(folder)
    from learner.reporting.report.page import write_report

    out = options.out
    if out is None and len(folders) > 1:
        out = Path(f"{'-'.join(names)}.html")
    other = folders[1] if len(folders) > 1 else None
    sys.stdout.write(f"{write_report(folders[0], out, other=other)}\n")
    return 0
