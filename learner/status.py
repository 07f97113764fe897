"""Publish the run's status: to the other roles (the hash `run`), to people and tools (status.json)."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import redis

from broker.connection import RedisLink, Wait
from broker.errors import Fenced, PipelineError, WrongBroker
from broker.keys import Keys
from broker.protocol.run_owner import RunOwner
from broker.protocol.run_reader import RunReader
from broker.protocol.run_state import explanation
from config.loading import to_yaml
from config.logs import mask
from config.run import Run
from learner.journal.disk import ROOM, is_full, replace_in_place

log = logging.getLogger(__name__)

OLDEST_REDIS = (6, 2)


class Status:
    """The run's public state.

    Args:
        run_owner: of this learner; if a newer learner owns the run, nothing in Redis changes. None: of a process that
            claims no run.
    """

    def __init__(self, run: Run, link: RedisLink, keys: Keys, run_owner: RunOwner | None = None) -> None:
        self.run = run
        self._link = link
        self._keys = keys
        self._run_owner = run_owner
        self.steps_follow_epochs = run.learner.steps_follow_epochs
        self._file = run.folder / "status.json"
        self._advice = ""
        self._wanted = ""
        self._version = 0
        self._lost_s = self._lost_told_s = 0.0
        self._seen = last_written(run.folder)
        self._rows: tuple[int, int] | None = None  # with an outcome, and in all; in a run without training
        self._begun = "no"  # a run that failed earlier, because of a typo for example, leaves its name free

    @cached_property
    def away_s(self) -> float:
        """The seconds that the run had no learner before this one, at the first call; 0 where there was none."""
        return 0.0 if self._seen is None else max(0.0, time.time() - self._seen)

    def go_on(self) -> None:
        """Mark the run as begun earlier: its name stays taken, however early this incarnation ends."""
        self._begun = "yes"

    def refuse(self, reason: str) -> None:
        """Report that the begun run can't continue, for `reason`: the run is unchanged, and its name stays taken."""
        self.go_on()
        self.end("failed", reason, int(read_status(self.run.folder).get("version", 0)))

    def restore(self) -> None:
        """Write status.json again where a finished run's folder has lost it: the other ranks also read it."""
        if not read_status(self.run.folder):
            self._begun = "yes"
            newest = RunReader(self._link, self._keys).version()
            self._write_file("finished", "", self.run.learner.steps if newest is None else newest)

    def begin(self, version: int) -> None:
        """Report that the run is running: other roles may now read its configuration, and its name is taken.

        Raises:
            Fenced: a newer learner owns the run.
        """
        self._begun = "yes"
        self._lost_s = self._lost_s or self.away_s
        if not self._write(
            "running",
            "",
            version,
            config=to_yaml(self.run),
            steps=str(self.run.learner.steps),
            started=f"{time.time():.0f}",
            **({"lost_s": f"{self._lost_s:.3f}"} if self.run.has_agents else {}),
        ):
            raise Fenced(f"a newer learner has taken run {self.run.name} over from this one")

    def advise(self, text: str) -> None:
        """Report advice for the operator. No step waits for that: it is lost if Redis does not take it now."""
        self._advice = text
        self._write_file("running", "", self._version)
        self._tell("advice", text)

    def tell_lost(self, lost_s: float) -> None:
        """Report the seconds of this incarnation in which no process could work, for agents, who end late groups.

        A failed write is repeated at the next call.
        """
        self._lost_s = lost_s
        if self.run.has_agents and lost_s != self._lost_told_s and self._tell("lost_s", f"{lost_s:.3f}"):
            self._lost_told_s = lost_s

    def tell_wanted(self, wanted: str) -> None:
        """Write an operator's request to status.json; Redis already has it."""
        self._wanted = wanted
        self._write_file("running", "", self._version)

    def count_rows(self, done: int, rows: int) -> None:
        """Write to status.json how many of a run's rows have an outcome, in a run without training."""
        self._rows = done, rows
        self._write_file("running", "", self._version)

    def end(self, status: str, reason: str, version: int, *, wanted: str | None = None) -> None:
        """Report that the run is `finished`, `stopped` or `failed`.

        Where a signal stopped the run and its sender has given a reason, the run has failed for that reason.
        status.json says so, whatever happens to Redis.

        Args:
            wanted: the new value of the operator's request, set at the same moment, where it was fulfilled.
        """
        more = {} if wanted is None else {"wanted": wanted}
        if status == "stopped" and wanted is None and (why := self._explanation()):
            status, reason = "failed", why
        if not self._write(status, mask(reason), version, **more):
            log.warning("status_not_told status=%s: a newer learner has run %s", status, self.run.name)

    def _explanation(self) -> str:
        """Return why the signal was sent; "" where no reason was given, or Redis does not answer."""
        try:
            return explanation(self._link, self._keys)
        except PipelineError:
            return ""

    def _tell(self, field: str, text: str) -> bool:
        """Write one field of the hash `run` without waiting for Redis. False: it did not answer."""
        try:
            self._link.script(
                "publish_status", self._keys.scripts(), self._fence, field, text, wait=Wait.FOR_NOTHING
            )
        except redis.RedisError as error:
            log.debug("not_told field=%s error=%s", field, error)
            return False
        return True

    @property
    def _fence(self) -> int:
        """The run owner's fence; 0 before the claim."""
        return self._run_owner.fence if self._run_owner else 0

    def _write(self, status: str, reason: str, version: int, **more: str) -> bool:
        """Write the status to file and Redis. False: a newer learner owns the run, and Redis is unchanged."""
        self._write_file(status, reason, version)
        fields = {"status": status, "reason": reason, "begun": self._begun, **more}
        flat = [part for pair in fields.items() for part in pair]
        return bool(self._link.script("publish_status", self._keys.scripts(), self._fence, *flat))

    def _write_file(self, status: str, reason: str, version: int) -> None:
        """Write status.json, for people and tools without Redis."""
        self._version = version
        content = {
            "name": self.run.name,
            "status": status,
            "reason": reason,
            "version": version,
            "begun": self._begun,
            "steps": self.run.learner.steps,
            "epochs": self._ended_by_epochs(status, version),
            "at": time.time(),
            "advice": self._advice,
            "wanted": self._wanted if status == "running" else "",
            **({} if self._rows is None else {"rows": self._rows}),
        }
        try:
            self.run.folder.mkdir(parents=True, exist_ok=True)
            _write_content(self._file, content)
        except OSError as error:  # a full disk may be the very reason: the other roles must get it
            log.error("status_not_written file=%s error=%s", self._file, error)  # noqa: TRY400

    def _ended_by_epochs(self, status: str, version: int) -> int | None:
        learner = self.run.learner
        by_epochs = self.steps_follow_epochs or version < learner.steps
        return learner.epochs if status == "finished" and by_epochs else None


def write_failed(run: Run, reason: str) -> None:
    """Write to status.json alone that the run has failed, for callers with the run's folder and no Redis.

    The file's other fields stay. A failed write is logged.
    """
    file = run.folder / "status.json"
    known = {
        "name": run.name,
        "version": 0,
        "begun": "no",
        "steps": run.learner.steps,
        **read_status(run.folder),
    }
    try:
        _write_content(file, {**known, "status": "failed", "reason": mask(reason), "at": time.time()})
    except OSError as error:
        log.error("status_not_written file=%s error=%s", file, error)  # noqa: TRY400


def _write_content(file: Path, content: Mapping[str, Any]) -> None:
    """Write status.json. On a full disk the reason is truncated to fit. Raises OSError."""
    text = json.dumps(content, indent=1) + "\n"
    try:
        replace_in_place(file, text)
    except OSError as error:
        if not is_full(error) or len(text) <= ROOM:
            raise
        reason = str(content["reason"])
        while len(text) > ROOM:
            reason = reason[: len(reason) // 2]
            text = json.dumps({**content, "reason": reason, "advice": ""}, indent=1) + "\n"
        replace_in_place(file, text)


def has_reached_end(run: Run, version: int) -> bool:
    """Return whether a finished run has nothing left to do: its steps are done, or its epochs are over.

    Args:
        run: its current configuration.
        version: optimizer steps done.
    """
    learner = run.learner
    if learner.epochs is not None and read_status(run.folder).get("epochs") == learner.epochs:
        return True
    return version >= learner.steps and not learner.steps_follow_epochs


def where_the_model_is(folder: Path) -> str:
    """Describe where a finished run's model is, possibly in a folder that this machine does not have.

    Args:
        folder: of the run, as this process is configured.
    """
    if (folder / "model").is_dir():
        return f"its model is in {folder / 'model'}"
    return "its model is in the folder of the learner that finished it, and none of it is here: runs_dir=..."


def last_written(folder: Path) -> float | None:
    """Return the Unix time of the last write of a learner to a run's folder; None for none.

    Operators' notes in the journal (`notes.jsonl`) do not count: they are written while no learner runs, too.
    """
    times = []
    for file in (folder / "status.json", folder / "metrics.jsonl", *(folder / "journal").glob("*-*")):
        with contextlib.suppress(OSError):
            times.append(file.stat().st_mtime)
    return max(times, default=None)


def read_status(folder: Path) -> dict[str, Any]:
    """Return the content of status.json in a run's folder; empty where there is none."""
    try:
        return dict(json.loads((folder / "status.json").read_text()))
    except (OSError, ValueError, RecursionError):
        return {}


def check_redis(run: Run, link: RedisLink) -> None:
    """Refuse a Redis that would lose work.

    Raises:
        WrongBroker: it is too old, evicts keys, or persists nothing; the message has the command to fix it.
    """
    info = link(lambda client: client.info())
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    if version < OLDEST_REDIS:
        raise WrongBroker(f"redis at {link.address} is {info['redis_version']}; 6.2 or newer is needed")
    if run.broker.durability == "none":
        log.warning(
            "durability=none: this redis may forget all at once: what is under way is then made again"
        )
        return
    if int(info.get("maxmemory", 0)) and info.get("maxmemory_policy") != "noeviction":
        raise WrongBroker(
            f"redis at {link.address} evicts keys ({info['maxmemory_policy']}): "
            "redis-cli CONFIG SET maxmemory-policy noeviction"
        )
    if not int(info.get("aof_enabled", 0)):
        raise WrongBroker(
            f"redis at {link.address} keeps no append-only file: redis-cli CONFIG SET appendonly yes "
            "(or broker.durability=none, if you mean it)"
        )
