"""What there is of a run before this life of the learner: is its name free, does it go on, or is it done?

In: the run's folder and its keys in Redis. Out: a `History`, or the refusal in words. Asked by `learner.session` before
anything heavy is loaded and before anything is written. The ledger decides; Redis may have forgotten.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.connection import Link
from broker.errors import Permanent, RunFailed
from broker.keys import Keys
from broker.stats import keys_of
from config.run import Run
from learner.ledger import Ledger, read_ledger
from learner.status import read_status

log = logging.getLogger(__name__)

PATIENCE_S = 20.0           # for the heartbeat of a learner that died on another machine to run out
POLL_S = 0.5


class NameTaken(Permanent):
    """The name belongs to a run that lives, or that this configuration does not go on with."""


class AlreadyFinished(Exception):
    """The run of this name is done; there is nothing to do."""


@dataclass(frozen=True, slots=True)
class History:
    """What the journal has of the run."""

    ledger: Ledger

    @property
    def has_begun(self) -> bool:
        """Whether a learner got as far as to let groups in. One that failed before, over a typo say, left nothing."""
        return bool(self.ledger.lives)

    @property
    def first_life(self) -> Mapping[str, Any]:
        """The facts of the life that began the run."""
        return self.ledger.lives[0] if self.ledger.lives else {}


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be this folder's only learner; the kernel lets go when the process ends, however it ends.

    Raises:
        NameTaken: another one is.
        RunFailed: the folder can't be written.
    """
    file = folder / "learner.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = file.open("a+", encoding="utf-8")
    except OSError as error:
        raise RunFailed(f"the run's folder {folder} can't be written: {error.strerror}. It needs a place of its own: "
                        "runs_dir=...") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise NameTaken(f"run {folder.name} has a living learner ({lock.read().strip() or 'just started'}); a run "
                            "has one") from None
        lock.truncate(0)
        lock.write(f"{socket.gethostname()}-{os.getpid()}\n")
        lock.flush()
        yield


def look(run: Run, link: Link, keys: Keys) -> History:
    """Read what there is.

    Raises:
        AlreadyFinished: the run is done.
        NameTaken: a learner of this run lives; or it has begun, and `learner.resume` says not to go on; or Redis has
            groups of it, and its journal is not here.
        JournalError: the ledger is damaged.
    """
    _refuse_living(run, link, keys)
    history = History(read_ledger(run.folder / "journal"))
    raw: Any = link(lambda client: client.hget(keys("run"), "status"))
    status = raw.decode() if raw else read_status(run.folder).get("status", "")
    steps = history.ledger.steps
    if status == "finished" and (not steps or steps[-1]["step"] + 1 >= run.learner.steps):
        raise AlreadyFinished(f"run {run.name} is finished; its model is in {run.folder / 'model'}")
    if not history.has_begun:
        position: Any = link(lambda client: client.hget(keys("cursor"), "position"))
        if int(position or 0) > 0:
            raise NameTaken(f"redis at {link.address} holds groups of a run {run.name}, whose journal is not in "
                            f"{run.folder / 'journal'}: give its runs_dir=..., begin under another name: name=..., or "
                            f"remove what is left of it: millrace rm {run.name}")
        return history
    resume, start = run.learner.resume, history.first_life.get("start")
    if resume == "never" or (isinstance(resume, Path) and str(resume.absolute()) != start):
        raise NameTaken(f"run {run.name} has begun ({status or 'no status'}), and learner.resume={resume} does not go "
                        f"on with it. learner.resume=auto does; or begin under another name: name=..., or remove it: "
                        f"millrace rm {run.name}")
    return history


def _refuse_living(run: Run, link: Link, keys: Keys) -> None:
    """A learner that uses another folder, which `locked` can't know of.

    A key that is left of a dead one runs out: its process may have been another machine's, or its number be used again.
    """
    since = said = time.monotonic()
    while others := [name for name in _heartbeats(link, keys) if not _has_died_here(name)]:
        if time.monotonic() - since > PATIENCE_S:
            raise NameTaken(f"run {run.name} has a living learner ({others[0]}); a run has one")
        if said == since:
            log.info("waiting up to %.0f s: for learner %s to be gone", PATIENCE_S, others[0])
            said = time.monotonic()
        link.stop.wait(POLL_S)


def _heartbeats(link: Link, keys: Keys) -> list[str]:
    prefix = keys.alive("learner", "")
    return [key.decode().removeprefix(prefix) for key in link(lambda client: keys_of(client, prefix))]


def _has_died_here(name: str) -> bool:
    """Whether HOST-PID was a process of this machine that is no more: its key outlives it by some seconds."""
    host, _, pid = name.rpartition("-")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:         # somebody else's process, so it is there
        return False
    return int(pid) == os.getpid()
