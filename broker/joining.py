"""Join a generator, an agent or a scorer to a run, by the run's name and the address of Redis alone.

The process waits until the learner has written the resolved configuration to the hash `run`, and reads it there.
Meanwhile it prepares for the configuration that the learner was started with (`coming`). If the run has stopped or
failed, the process waits for the next learner.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.connection import RedisLink
from broker.errors import PipelineError
from broker.keys import Keys
from broker.monitoring.snapshot import keys_of
from broker.private_redis import server
from broker.protocol.run_state import fields_of
from config.explanations import ConfigError
from config.loading import from_yaml, redis_url, to_yaml
from config.run import Run

log = logging.getLogger(__name__)

POLL_S = 0.05
SAY_EVERY_S = 10.0
LEARNER_GONE_S = 30.0  # twice the time that a heartbeat outlives its process
FIRST_OUTAGE_S = 300.0  # before the run's own broker.outage_s is known
STATE = ("status", "reason", "lost_s")  # fields of the hash `run`
FINISHED = "finished"
ENDED = frozenset({FINISHED, "stopped", "failed"})


class NoRun(PipelineError):
    """The run does not exist."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A run that a process has joined, and its link to Redis."""

    run: Run
    link: RedisLink
    keys: Keys


@dataclass(frozen=True, slots=True)
class RunState:
    """The status of a run, from the hash `run`."""

    status: str  # running | finished | stopped | failed, or "" before the learner's start
    reason: str
    lost_s: float = 0.0  # seconds of the learner's incarnation in which no process could work

    @classmethod
    def read(cls, values: Sequence[str]) -> RunState:
        """Return the status in the values of the fields `STATE`."""
        status, reason, lost_s = values
        return cls(status, reason, float(lost_s or 0))

    @property
    def has_ended(self) -> bool:
        """Return whether the run has ended: no more work will come."""
        return self.status in ENDED


def find_redis(name: str, runs_dir: Path) -> str:
    """Return REDIS_URL, or the address of the private server of the run `name`.

    Raises:
        NoRun: there is neither.
    """
    if url := redis_url():
        return url.get_secret_value()
    found = server.find(name, runs_dir)
    if found is None:
        raise NoRun(
            f"no redis for run {name}: set REDIS_URL, or start the run with `millrace up CONFIG` first"
        )
    return found


@contextlib.contextmanager
def linked(name: str, runs_dir: Path, *, outage_s: float) -> Iterator[RedisLink]:
    """Give a verb a link to the Redis of run `name`: REDIS_URL's, or its private server's, started for the block.

    Raises:
        WrongBroker: there is no such run, its server can't be started, or REDIS_URL can't be used.
    """
    with (
        server.ensure_readable(name, runs_dir) as url,
        contextlib.closing(RedisLink(url, outage_s=outage_s, key="")) as link,
    ):
        yield link


def join(
    name: str,
    runs_dir: Path,
    stop: threading.Event,
    *,
    patience_s: float = 600.0,
    prepare: Callable[[Run], None] = lambda _run: None,
    is_early: bool = False,
) -> Joined | None:
    """Wait for the run `name` and read its configuration; None if `stop` was set first.

    Args:
        prepare: called once with the configuration as the learner was started with it, if this process waits while that
            learner loads its model. It imports what the run will need; its errors are those of a later import.
        is_early: join a learner that loads its model, for a role that needs nothing of the model.
    Raises:
        NoRun: no such run within `patience_s`, or another version of this program wrote it.
        BrokerUnavailable: Redis was away for too long, or when `stop` was set. `stop` also ends waits of the returned
            link.
    """
    url = find_redis(name, runs_dir)
    link = RedisLink(url, outage_s=FIRST_OUTAGE_S, stop=stop)
    keys = Keys(name)
    since = said = time.monotonic()
    is_prepared = False
    while not stop.is_set():
        config, coming, *status = fields_of(link, keys, "config", "coming", *STATE)
        state = RunState.read(status)
        # After a run that was stopped or failed, the next learner may write another configuration.
        ready = config or (coming if is_early else "")
        if ready and (state.status == FINISHED or not state.has_ended):
            try:
                run = from_yaml(ready)
            except ConfigError as error:
                raise NoRun(
                    f"the configuration of run {name} can't be read; do all its processes have one version? "
                    f"{error}"
                ) from error
            link.close()
            return Joined(run, RedisLink(url, outage_s=run.broker.outage_s, stop=stop), keys)
        if coming and not is_prepared:
            is_prepared = True
            with contextlib.suppress(Exception):
                prepare(from_yaml(coming))
            continue
        before = f" (one ended: {state.status} {state.reason})" if state.has_ended else ""
        waited = time.monotonic() - since
        if waited > patience_s:
            raise NoRun(
                f"no run {name} at {link.address} after {waited:.0f} s: is its learner running?{before}"
            )
        if time.monotonic() - said > SAY_EVERY_S:
            log.info("waiting %.0f s: for the learner of run %s at %s%s", waited, name, link.address, before)
            said = time.monotonic()
        stop.wait(POLL_S)
    return None


def state_of(link: RedisLink, keys: Keys) -> RunState:
    """Read the run's status now."""
    return RunState.read(fields_of(link, keys, *STATE))


def has_learner(link: RedisLink, keys: Keys) -> bool:
    """Return whether a learner's heart beats. A killed one seems alive until its heartbeat expires."""
    return bool(link(lambda client: keys_of(client, keys.alive("learner", ""))))


def let_the_learner_go_first(link: RedisLink, keys: Keys, stop: threading.Event) -> None:
    """Wait until the learner of an ended run has exited, at most LEARNER_GONE_S or until `stop` is set.

    The first process that exits may take all others with it (`docker compose up --exit-code-from learner`). So none may
    exit while the learner still writes its model.
    """
    deadline = time.monotonic() + LEARNER_GONE_S
    while not stop.is_set() and has_learner(link, keys):
        if time.monotonic() > deadline:
            log.warning("ending, though a learner of the ended run is there after %.0f s", LEARNER_GONE_S)
            return
        stop.wait(POLL_S)


def reset_run_state(link: RedisLink, keys: Keys) -> None:
    """Delete the run status that a dead learner left: a process that joins now waits for the next learner."""
    link(
        lambda client: client.hdel(
            keys.run, "status", "reason", "begun", "config", "coming", "advice", "lost_s"
        )
    )


def announce_coming(link: RedisLink, keys: Keys, run: Run) -> None:
    """Tell waiting roles the configuration of a learner that starts, before it has loaded its model."""
    link.script("set_state", keys.scripts(), "coming", to_yaml(run))  # which full memory does not refuse
