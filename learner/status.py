"""What the run is doing, for the other roles (the hash `run`) and for people and tools without Redis (status.json)."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

from broker.connection import Link
from broker.errors import Permanent, WrongBroker
from broker.keys import Keys
from config.loading import to_yaml
from config.logs import mask
from config.run import Run

log = logging.getLogger(__name__)

OLDEST_REDIS = (6, 2)


class NameTaken(Permanent):
    """The name belongs to a run that lives, or that has not ended."""


class AlreadyFinished(Exception):
    """The run of this name is done; there is nothing to do."""


class Status:
    """The run's public state. `open` it before anything is written for the run."""

    def __init__(self, run: Run, link: Link, keys: Keys) -> None:
        self.run = run
        self._link = link
        self._keys = keys
        self._file = run.folder / "status.json"
        self._begun = "no"              # a run that failed before, over a typo say, leaves its name free

    def open(self) -> None:
        """Look whether the name is free.

        Raises:
            AlreadyFinished: it is finished.
            NameTaken: a learner of this run lives, or it stopped half-way.
        """
        name = self.run.name
        raw: Any = self._link(lambda client: client.hmget(self._keys("run"), ["status", "begun"]))
        kept = read_status(self.run.folder)
        status, begun = [value.decode() for value in raw] if all(raw) else (kept.get("status"), kept.get("begun"))
        if status == "finished":
            raise AlreadyFinished(f"run {name} is finished; its model is in {self.run.folder / 'model'}")
        alive = self._link(lambda client: list(client.scan_iter(match=_literal(self._keys.alive("learner", "")) + "*")))
        if alive:
            raise NameTaken(f"run {name} has a living learner ({alive[0].decode().rsplit(':', 1)[1]}); a run has one")
        if status is not None and begun != "no":
            raise NameTaken(f"run {name} exists and did not finish ({status}). {self._way_on()}")
        self._link(lambda client: client.hdel(self._keys("run"), "status", "reason", "begun"))

    def begin(self, version: int) -> None:
        """The run is on: the other roles may read its configuration now, and its name is taken from here on."""
        self._begun = "yes"
        self._write("running", "", version, config=to_yaml(self.run), steps=str(self.run.learner.steps),
                    started=f"{time.time():.0f}")

    def end(self, status: str, reason: str, version: int) -> None:
        """The run is `finished`, `stopped` or `failed`."""
        self._write(status, mask(reason), version)

    def _write(self, status: str, reason: str, version: int, **more: str) -> None:
        aside = self._file.with_suffix(".tmp")
        try:
            self.run.folder.mkdir(parents=True, exist_ok=True)
            aside.write_text(json.dumps({"name": self.run.name, "status": status, "reason": reason, "version": version,
                                         "begun": self._begun, "steps": self.run.learner.steps, "at": time.time()},
                                        indent=1) + "\n")
            aside.replace(self._file)
        except OSError as error:            # a full disk may be the very reason: the other roles must hear of it
            log.error("status_not_written file=%s error=%s", self._file, error)     # noqa: TRY400
        fields: dict[Any, Any] = {"status": status, "reason": reason, "begun": self._begun, **more}
        self._link(lambda client: client.hset(self._keys("run"), mapping=fields))

    def _way_on(self) -> str:
        name, folder = self.run.name, self.run.folder
        newest = max((folder / "checkpoints").glob("step-??????"), default=None)
        if newest is None:
            return f"It left no checkpoint; begin anew under another name, or `millrace rm {name}`"
        return ("Go on from its newest checkpoint under a new name: python -m learner --config "
                f"{folder / 'config.yaml'} name={name}-2 learner.resume={newest}")


def read_status(folder: Path) -> dict[str, str]:
    """What status.json in a run's folder says; empty where there is none."""
    try:
        return dict(json.loads((folder / "status.json").read_text()))
    except (OSError, ValueError):
        return {}


def check_redis(run: Run, link: Link) -> None:
    """Refuse a Redis that would lose work.

    Raises:
        WrongBroker: it is too old, evicts keys, or keeps nothing on disk; the message has the command that mends it.
    """
    info = link(lambda client: client.info())
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    if version < OLDEST_REDIS:
        raise WrongBroker(f"redis at {link.address} is {info['redis_version']}; 6.2 or newer is needed")
    if run.broker.durability == "none":
        log.warning("durability=none: this redis may forget work, and the run will not notice all of it")
        return
    if int(info.get("maxmemory", 0)) and info.get("maxmemory_policy") != "noeviction":
        raise WrongBroker(f"redis at {link.address} evicts keys ({info['maxmemory_policy']}): "
                          "redis-cli CONFIG SET maxmemory-policy noeviction")
    if not int(info.get("aof_enabled", 0)):
        raise WrongBroker(f"redis at {link.address} keeps no append-only file: redis-cli CONFIG SET appendonly yes "
                          "(or broker.durability=none, if you mean it)")


def _literal(pattern: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in pattern)
