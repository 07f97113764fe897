"""Read a run's folder: its status, its steps, whether `millrace up` runs it here. Needs no Redis.

In: `runs/NAME/`, written by the learner (`status.json`, `metrics.jsonl`) and by `millrace up` (`up.lock`). Out: its
facts for display, and the name for a new run.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from broker.errors import Permanent, PipelineError, RunFailed
from config.run import Run
from learner.reporting.metrics_file import read_metrics
from learner.status import read_status


class RunTaken(PipelineError):
    """The name belongs to an unfinished run; the message says how to continue."""


class NoJournal(Permanent):
    """A folder has no journal."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"no journal in {folder}: give --runs-dir, the folder that the run's own folder is in"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """The facts of a run in its folder."""

    path: Path
    status: str = ""  # running | finished | stopped | failed, or "" before a learner's first status
    reason: str = ""
    version: int = -1  # the newest policy version
    steps: int = 0  # of the whole run
    rows: tuple[int, int] | None = None  # with an outcome, and in all; None: a training run
    has_begun: bool = True  # False: it failed before its first group was issued
    wanted: str = ""  # an operator's request to an unfinished run: broker.protocol.run_state
    at: float = 0.0  # Unix seconds of the last change of status
    metrics: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    @property
    def last_step(self) -> dict[str, Any]:
        """Return the newest step's record of metrics.jsonl."""
        return self.metrics[-1] if self.metrics else {}

    @property
    def pass_rates(self) -> list[tuple[int, float]]:
        """Return (policy version, held-out pass rate) of every evaluation, in order."""
        return sorted(pass_rates_of(self.metrics))


def read_run(path: Path) -> RunFolder:
    """Read a run's folder; a missing or partial file counts as empty."""
    status = read_status(path)
    return RunFolder(
        path=path,
        status=status.get("status", ""),
        reason=status.get("reason", ""),
        version=int(status.get("version", -1)),
        steps=int(status.get("steps", 0)),
        rows=(int(status["rows"][0]), int(status["rows"][1])) if "rows" in status else None,
        wanted=status.get("wanted", ""),
        at=float(status.get("at", 0.0)),
        has_begun=status.get("begun") != "no",
        metrics=tuple(read_metrics(path)),
    )


def pass_rates_of(lines: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, float]]:
    """Yield (policy version, held-out pass rate) of each evaluation in these lines of `metrics.jsonl`."""
    for line in lines:
        for result in line.get("evaluations", ()):
            if result["pass_rate"] is not None:
                yield int(result["version"]), float(result["pass_rate"])


def free_name(run: Run) -> str:
    """Return the name that `up` gives to `run`: its own, which continues a run, or with -2, -3 ... appended.

    A number is appended where a run of that name is finished. So the same command continues the first unfinished run,
    unless another `up` is running it, or `learner.resume` forbids continuing.

    Raises:
        RunTaken: the run of that name has begun, and `learner.resume` forbids continuing.
    """
    found = read_run(run.folder)
    if found.status != "finished":
        if found.status and found.has_begun and run.learner.resume == "never":
            raise RunTaken(_how_to_go_on(run.name, found))
        return run.name
    numbered = (run.runs_dir / f"{run.name}-{number}" for number in itertools.count(2))
    return next(folder.name for folder in numbered if _may_take(folder, run))


def _may_take(folder: Path, run: Run) -> bool:
    """Return whether a folder has no run, or an unfinished one that no process runs and that may be continued."""
    status = read_run(folder).status
    goes_on = status != "finished" and run.learner.resume != "never" and holder(folder) is None
    return not status or goes_on


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a run's folder for its `millrace up`; the kernel unlocks it when this process ends.

    Raises:
        RunTaken: another process has the lock.
        RunFailed: it can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "up.lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise RunFailed(
            f"the run's folder {folder} can't be written: {error.strerror}. It needs a place of its own: "
            "runs_dir=..."
        ) from error
    with file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunTaken(
                f"{folder.name} is run by another `millrace up` ({holder_text(folder)}); stop that one with "
                "Ctrl-C, or begin under another name: name=..."
            ) from None
        _name_holder(lock)
        yield


def _name_holder(lock: TextIO) -> None:
    """Write who holds the lock. On a full disk the name is missing, and the lock still holds."""
    words = f"{os.getpid()} {socket.gethostname()}".encode()
    with contextlib.suppress(OSError):
        os.ftruncate(lock.fileno(), 0)
        os.write(lock.fileno(), words)


def holder(folder: Path) -> tuple[int, str] | None:
    """Return process id and host of the `millrace up` that runs this folder; None for none."""
    try:
        with (folder / "up.lock").open(encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                pid, _, host = lock.read().partition(" ")
                return int(pid or 0), host
    except FileNotFoundError:
        pass
    return None


def holder_text(folder: Path) -> str:
    """Format the holder: `pid 12 on host`."""
    found = holder(folder)
    return f"pid {found[0]} on {found[1]}" if found else "just ended"


def _how_to_go_on(name: str, found: RunFolder) -> str:
    why = f" ({found.reason})" if found.reason else ""
    return (
        f"run {name} in {found.path} is not finished: its status is {found.status}{why}.\n"
        "learner.resume=never does not go on with it, learner.resume=auto would; or begin anew under another "
        f"name: name=...; or remove it: millrace rm {name}"
    )
