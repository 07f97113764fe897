"""Sample and score every row of a run's sets on this machine, or continue that, and return the results.

In: a configuration, and which rows. Out: the complete `Results` in the run's folder. The roles are those of `millrace
up`, with a collector (`python -m learner.collect`) in the learner's place, so more generators and scorers may join from
anywhere. Used by `millrace difficulty`, `evaluate` and `agent`. A complete run is not started again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from broker.errors import PipelineError, RunFailed
from config.run import Run
from learner.collect.results import Results, open_results
from learner.collect.settings import Of, collecting, told_changes
from learner.journal.ledger import ledgers, read_ledger
from tools.doctor.light import check_light
from tools.run_view.follower import RunView
from tools.run_view.log_tail import last_lines
from tools.up.console import PlainConsole, RunConsole
from tools.up.local_run import LOG_LINES, start
from tools.up.role_commands import Command, commands
from tools.up.supervisor import RunEnd


class NotComplete(PipelineError):
    """Some rows have no outcome yet; the message says how to continue."""


class RowsConsole(PlainConsole):
    """Show the output of the roles: the collector reports its progress every few seconds."""

    def tick(self, view: RunView, running: int) -> None:
        """Show nothing more: there are no steps."""


def plan_of(run: Run, words: Sequence[str], of: Of, *, row: int | None = None) -> list[Command]:
    """Return the commands that collect `run`, which was loaded from `words` (`--config FILE key=value ...`)."""
    one = () if row is None else (f"--row={row}",)
    return commands(run, words, owner=("learner.collect", f"--of={of}", *one))


def collected(
    run: Run,
    words: Sequence[str],
    of: Of,
    *,
    row: int | None = None,
    scores_again: bool = False,
    console: RunConsole | None = None,
) -> Results:
    """Return the results of every row, sampling missing ones.

    Args:
        run: loaded from `words`; its name is that of the collected run.
        words: `--config FILE key=value ...`.
        of: which rows.
        row: the one row of `data.train` to collect; None: every row.
        scores_again: stored samples will be scored again, possibly by other scorers: nothing is sampled.
        console: displays the run; None: a `RowsConsole`.
    Raises:
        ConfigError: the configuration can't be used here.
        NotComplete: the run ended before every row had an outcome.
        PipelineError: it can't be started, or has rows that were sampled or scored differently.
    """
    found = _found(run, of, scores_again=scores_again)
    if found is not None and found.is_complete:
        sys.stdout.write(f"run {run.name} has all {found.size} rows already\n")
        return found
    if scores_again:
        done = "no row" if found is None else f"{found.size - found.missing} of {found.size} rows"
        raise NotComplete(f"run {run.name} has {done}: sample the others first, without --rescore")
    check_light(collecting(run), words)
    outcome = start(run, plan_of(run, words, of, row=row), console or RowsConsole(), tell=_tell)
    found = _found(run, of)
    if outcome.code or found is None or not found.is_complete:
        done = "no row" if found is None else f"{found.size - found.missing} of {found.size} rows"
        why = f" ({outcome.reason})" if outcome.reason else ""
        raise NotComplete(f"run {run.name} has ended with {done}{why}; the same command goes on with it")
    return found


def _found(run: Run, of: Of, *, scores_again: bool = False) -> Results | None:
    """Return the results in the run's folder; None before the run has begun.

    Raises:
        NotCollected: it is a training run.
        RunFailed: it began with another configuration, or for other rows.
    """
    if not ledgers(run.folder / "journal"):
        return None
    incarnations = read_ledger(run.folder / "journal").incarnations
    if not incarnations:
        return None
    found = open_results(run.folder)
    if found.of != of:
        raise RunFailed(
            f"run {run.name} has the rows of data.{found.of}, and those of data.{of} are wanted: give another name, "
            f"name=..., or remove it: millrace rm {run.name}"
        )
    told_changes(incarnations[-1]["config"], collecting(run), scores_again=scores_again)
    return found


def _tell(run: Run, outcome: RunEnd, seconds: float) -> None:
    """Say how long it took, and show the end of the log of a role that failed."""
    sys.stdout.write(f"\nrun {run.name}: {int(seconds) // 60} min {int(seconds) % 60} s\n")
    if outcome.failed_role:
        log_file = Path(run.folder / "logs" / f"{outcome.failed_role}.log")
        lines = last_lines(log_file, LOG_LINES)
        sys.stdout.write(f"The end of {log_file}:\n" + "".join(f"  {line}\n" for line in lines))
