"""`millrace runs`: list the runs of a folder.

In: every folder in the folder of runs, and nothing else: no Redis is asked. Out: a line per run, the newest last.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from broker.errors import Permanent
from broker.protocol.run_state import DRAIN, PAUSE
from config.run import RESERVED_NAMES
from tools.arguments import add_json, add_runs_dir
from tools.printable import aligned
from tools.runs.folder import RunFolder, holder, read_run

HEADINGS = ("run", "status", "step", "reward", "held-out", "when")
MARKS = ("status.json", "config.yaml", "up.lock", "redis")  # any of these identifies a run's folder


class NoRunsFolder(Permanent):
    """The folder of runs does not exist; the message names it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace runs`."""
    add_runs_dir(parser)
    add_json(parser, "an object a line, a run each")


def run(options: argparse.Namespace) -> int:
    """List the runs. Raises NoRunsFolder."""
    return list_runs(options.runs_dir, as_json=options.json)


def list_runs(runs_dir: Path, *, as_json: bool = False) -> int:
    """Print the table, or an object per line. Returns 0. Raises NoRunsFolder."""
    if not runs_dir.is_dir():
        raise NoRunsFolder(f"there is no folder {runs_dir.absolute()}; --runs-dir says where runs are")
    folders = [path for path in runs_dir.glob("*") if is_run(path) and path.name not in RESERVED_NAMES]
    if as_json:
        for found in sorted(map(read_run, folders), key=_when):
            sys.stdout.write(json.dumps(_object(found)) + "\n")
        return 0
    if not folders:
        sys.stdout.write(f"no runs in {runs_dir}\n")
        return 0
    rows = [HEADINGS, *(_row(found) for found in sorted(map(read_run, folders), key=_when))]
    sys.stdout.write("".join(f"{line}\n" for line in aligned(rows, numbers=False)))
    return 0


def is_run(folder: Path) -> bool:
    """Return whether `folder` is a run's."""
    return folder.is_dir() and any((folder / mark).exists() for mark in MARKS)


def _row(found: RunFolder) -> tuple[str, ...]:
    step = found.last_step
    rates = found.pass_rates
    return (
        found.path.name,
        _status(found),
        _progress(found),
        f"{step['reward_mean']:.3f}" if step else "-",
        " -> ".join(f"{rate:.2f}" for _, rate in (rates if len(rates) < 2 else (rates[0], rates[-1]))) or "-",
        time.strftime("%Y-%m-%d %H:%M", time.localtime(_when(found))),
    )


def _object(found: RunFolder) -> dict[str, Any]:
    return {
        "run": found.path.name,
        "folder": str(found.path),
        "status": _status(found),
        "reason": found.reason,
        "step": _step(found),
        "steps": found.steps or None,
        **({"rows": found.rows} if found.rows else {}),
        "reward": found.last_step.get("reward_mean"),
        "pass_rates": found.pass_rates,
        "at": _when(found),
    }


def _progress(found: RunFolder) -> str:
    """Return a run's progress: its steps, or the rows of a run without training."""
    if found.rows is not None:
        return f"{found.rows[0]}/{found.rows[1]} rows"
    return f"{_step(found)}/{found.steps}" if found.steps else "-"


def _step(found: RunFolder) -> int:
    return max(found.version, int(found.last_step.get("step", 0)), 0)


def _status(found: RunFolder) -> str:
    """Return the learner's status, with a mark where the lock of `millrace up` shows that no process runs it."""
    is_held = holder(found.path) is not None
    if found.status == "running":
        word = {PAUSE: "paused", DRAIN: "draining"}.get(found.wanted, "running")
        return word if is_held else f"{word}?"  # on another machine, or killed before it could update it
    return found.status or ("starting" if is_held else "not begun")


def _when(found: RunFolder) -> float:
    return found.at or found.path.stat().st_mtime
