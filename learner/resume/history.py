"""Read the state of a run before this incarnation of the learner: is its name free, does it continue, is it finished?

In: the run's folder and its keys in Redis, and the checkpoint that it begins from, if any. Out: a `History`, or the
refusal in words. Used by `learner.session` before anything heavy is loaded and before anything is written. The ledger
decides; Redis may have lost data.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.connection import RedisLink
from broker.errors import Permanent, RunFailed
from broker.keys import Keys
from broker.protocol.run_reader import RunReader
from config.run import Run
from learner.journal.ledger import JournalError, Ledger, read_ledger
from learner.journal.records import step_number
from learner.status import has_reached_end, read_status, where_the_model_is
from learner.training.checkpoint import STATE, read_progress, what_is_wrong

log = logging.getLogger(__name__)

TRAINS, COLLECTS = "training", "collecting"  # the purposes of a run

PATIENCE_S = 20.0  # for the heartbeat of a learner that died on another machine to expire
POLL_S = 0.5


class NameTaken(Permanent):
    """The name belongs to a live run, or to one that this configuration does not continue."""


class AlreadyFinished(Exception):
    """The run with this name is finished; there is nothing to do."""


@dataclass(frozen=True, slots=True)
class History:
    """The run's history in its journal."""

    ledger: Ledger

    @property
    def has_begun(self) -> bool:
        """Return whether a learner got as far as issuing groups. One that failed earlier left nothing."""
        return bool(self.ledger.incarnations)

    @property
    def first_incarnation(self) -> Mapping[str, Any]:
        """The facts of the incarnation that began the run."""
        return self.ledger.incarnations[0] if self.ledger.incarnations else {}

    @property
    def purpose(self) -> str:
        """The run's purpose; TRAINS before it has begun."""
        return str(self.first_incarnation.get("purpose", TRAINS))

    @property
    def version(self) -> int:
        """Optimizer steps in the ledger, counted from the model's first."""
        return step_number(self.ledger.steps[-1]) if self.ledger.steps else 0


def has_begun(folder: Path) -> bool:
    """Return whether the run in `folder` has begun, even if its journal is damaged; for callers before `look`."""
    try:
        ledger = read_ledger(folder / "journal", strict=False)
    except (JournalError, OSError):
        return True
    return bool(ledger.incarnations or ledger.problems)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder for this learner; the kernel unlocks it when the process ends, however it ends.

    Raises:
        NameTaken: another learner has the lock.
        RunFailed: the folder can't be written.
    """
    file = folder / "learner.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = file.open("a+", encoding="utf-8")
    except OSError as error:
        raise RunFailed(
            f"the run's folder {folder} can't be written: {error.strerror}. It needs a place of its own: "
            "runs_dir=..."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise NameTaken(
                f"run {folder.name} has a living learner ({lock.read().strip() or 'just started'}); a run "
                "has one"
            ) from None
        try:
            os.ftruncate(lock.fileno(), 0)
            os.write(
                lock.fileno(), f"{socket.gethostname()}-{os.getpid()}\n".encode()
            )  # no buffer to fail at close
        except OSError as error:
            raise RunFailed(
                f"{file} can't be written: {error.strerror}. Make room there, and start again"
            ) from error
        yield


def look(run: Run, link: RedisLink, keys: Keys, *, purpose: str = TRAINS) -> History:
    """Read the run's state.

    Args:
        purpose: of this process.
    Raises:
        AlreadyFinished: the run is finished.
        NameTaken: a learner of this run is alive; or it has begun, and `learner.resume` forbids continuing; or Redis
            has groups of it, and its journal is not here; or it has begun for another purpose.
        JournalError: the ledger is damaged.
    """
    refuse_living(run, link, keys)
    history = History(read_ledger(run.folder / "journal"))
    if history.has_begun and history.purpose != purpose:
        does = {TRAINS: "trains", COLLECTS: "samples a data set and trains on nothing"}
        raise NameTaken(
            f"run {run.name} has begun, and it {does[history.purpose]}: give this one another name: name=..., or "
            f"remove it: millrace rm {run.name}"
        )
    redis = RunReader(link, keys)
    status = redis.status() or read_status(run.folder).get("status", "")
    steps = history.ledger.steps
    if status == "finished" and (not steps or has_reached_end(run, step_number(steps[-1]))):
        raise AlreadyFinished(f"run {run.name} is finished; {where_the_model_is(run.folder)}")
    if not history.has_begun:
        if redis.position() > 0:
            raise NameTaken(
                f"redis at {link.address} holds groups of a run {run.name}, whose journal is not in this "
                "learner's runs_dir: give its own, runs_dir=..., begin under another name: name=..., or "
                f"remove what is left of it: millrace rm {run.name}"
            )
        return history
    resume, start = run.learner.resume, history.first_incarnation.get("start")
    if resume == "never" or (isinstance(resume, Path) and str(resume.absolute()) != start):
        raise NameTaken(
            f"run {run.name} has begun ({status or 'no status'}), and learner.resume={resume} does not go "
            f"on with it. learner.resume=auto does; or begin under another name: name=..., or remove it: "
            f"millrace rm {run.name}"
        )
    return history


def check_start(run: Run, folder: Path) -> None:
    """Check that a run can begin from the checkpoint `folder`; once begun, its name is bound to that folder.

    Raises:
        RunFailed: it is no checkpoint, or broken, or of a learner of another shape, or no steps remain.
    """
    name = f"learner.resume={folder}"
    if not folder.is_dir():
        raise RunFailed(f"{name}: there is no such folder")
    if (wrong := what_is_wrong(folder)) is not None:
        raise RunFailed(f"{name} is a broken checkpoint: {wrong}")
    version = read_progress(folder).version
    try:
        fits = dict(json.loads((folder / STATE).read_text(encoding="utf-8"))["fits"])
        there = {
            "learner.ranks": fits["ranks"],
            "learner.zero.stage": fits["zero_stage"],
            "model.dtype": fits["dtype"],
        }
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise RunFailed(f"{name} can't be read: {STATE}: {type(error).__name__}: {error}") from error
    ranks = (
        int(os.environ["WORLD_SIZE"]) if "RANK" in os.environ else run.learner.ranks
    )  # a launcher's, or ours
    here = {
        "learner.ranks": ranks,
        "learner.zero.stage": run.learner.zero.stage,
        "model.dtype": run.model.dtype,
    }
    if here["learner.zero.stage"] == 0:  # each rank holds the whole optimizer state, and so does the file
        del here["learner.ranks"]
    other = [
        f"{key}={value}, and it was written with {there[key]}"
        for key, value in here.items()
        if there[key] != value
    ]
    if other:
        raise RunFailed(f"{name} is a checkpoint of a learner of another shape: {'; '.join(other)}")
    if version >= run.learner.steps and not run.learner.steps_follow_epochs:
        raise RunFailed(
            f"{name} stands at step {version}, and learner.steps={run.learner.steps} are no more than that"
        )


def first_row_of(folder: Path, fingerprint: str) -> int:
    """Return the first row, in data with this fingerprint, of a run that starts from the checkpoint `folder`."""
    there = read_progress(folder)
    if there.fingerprint == fingerprint:
        return there.first_row
    log.warning(
        "data_changed checkpoint=%s now=%s: the order of rows begins anew", there.fingerprint, fingerprint
    )
    return 0


def refuse_living(run: Run, link: RedisLink, keys: Keys) -> None:
    """Refuse to start while a learner runs that uses another folder, which `locked` can't detect.

    A dead learner's key expires: its process may have been on another machine, or its process id reused.
    Raises:
        NameTaken: one is alive.
    """
    since = said = time.monotonic()
    while others := [name for name in _heartbeats(link, keys) if not _has_died_here(name)]:
        if time.monotonic() - since > PATIENCE_S:
            raise NameTaken(f"run {run.name} has a living learner ({others[0]}); a run has one")
        if said == since:
            log.info("waiting up to %.0f s: for learner %s to be gone", PATIENCE_S, others[0])
            said = time.monotonic()
        link.stop.wait(POLL_S)


def _heartbeats(link: RedisLink, keys: Keys) -> list[str]:
    return RunReader(link, keys).processes("learner")


def _has_died_here(name: str) -> bool:
    """Return whether HOST-PID was a process of this machine that has ended: its key outlives it by seconds."""
    host, _, pid = name.rpartition("-")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # another user's process, so it exists
        return False
    return int(pid) == os.getpid()
