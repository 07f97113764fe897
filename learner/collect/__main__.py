"""`python -m learner.collect --config FILE [key=value ...]`: sample and score a data set without training.

Exit codes: 0 done (or the run had already finished), 1 failed with the reason in its status, 2 a bad configuration or a
name that is taken.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

# `python -m` searches the current folder first, where an unrelated `config.py` may lie.
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[0] != str(Path(__file__).parents[2]):
    sys.path.append(sys.path.pop(0))
    os.environ["PYTHONSAFEPATH"] = "1"  # for child processes, which find a user's modules anyway

from config.explanations import ConfigError
from config.loading import load_run, to_yaml
from config.logs import set_up_logging
from config.run import Run
from config.versions import versions
from learner.collect.settings import Of, collecting

log = logging.getLogger("learner.collect")

OF, ROW = "--of=", "--row="
USAGE = """usage: python -m learner.collect --config FILE [--of=train|held_out] [--row=N] [key=value ...]
                                [--print-config]

Sample every row of `data.train` (or of `data.held_out`, or the one row of a number of data.train) once with the model
of FILE, by generators and scorers that join the run by its name, as they join a learner's. Keys are nested with dots:
sampling.group_size=16. Values come from FILE, then MILLRACE_... variables (nested with __), then the command line.
Redis is where REDIS_URL says; unset, a private one is started in the run's folder.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, import, collect, return a code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if "--help" in words or "-h" in words:
        sys.stdout.write(USAGE)
        return 0
    if "--version" in words:
        sys.stdout.write(versions() + "\n")
        return 0
    of = [word.removeprefix(OF) for word in words if word.startswith(OF)][-1:] or ["train"]
    try:
        if of[0] not in {"train", "held_out"}:
            raise ConfigError(f"{OF}{of[0]}: it is train or held_out")
        row = _row([word.removeprefix(ROW) for word in words if word.startswith(ROW)][-1:], of[0])
        run = load_run(
            [word for word in words if word != "--print-config" and not word.startswith((OF, ROW))]
        )
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if "--print-config" in words:
        sys.stdout.write(to_yaml(collecting(run), mask=True))
        return 0
    set_up_logging("learner")
    return _start(run, cast("Of", of[0]), row)


def _row(given: Sequence[str], of: str) -> int | None:
    """Return the number of the single row to collect; None: all rows. Raises ConfigError."""
    if not given:
        return None
    if not given[0].isdecimal() or of != "train":
        raise ConfigError(f"{ROW}{given[0]}: it is the number of a row of data.train, from 0")
    return int(given[0])


def _start(run: Run, of: Of, row: int | None) -> int:
    from learner.journal.ledger import ledgers
    from learner.launch.environment import set_environment
    from learner.launch.leading import lead
    from learner.launch.preflight import check_places

    set_environment()
    try:
        if not ledgers(run.folder / "journal"):
            check_places(collecting(run))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2

    try:
        from learner.collect.session import CollectingSession

        return lead(
            run,
            lambda link: CollectingSession(run, link, of, row),
            lambda session, stop: session.collect(stop),
        )
    except Exception:  # logged, since the log masks secrets in tracebacks
        log.exception("ended")
        return 1


if __name__ == "__main__":
    sys.exit(main())
