"""Log that a process waits long: for what, since when, and who has the work.

In: how long the process has been idle, from its `WorkMeter`, and its state in words. Out: a line after a minute and
again at doubling intervals. The thread of the heartbeat calls it (`broker.monitoring.heartbeat`). While Redis is away
no line is written: the link logs the outage (`broker.connection`).
"""

from __future__ import annotations

import logging
import time

import redis

from broker.keys import DEAD, ROLLOUTS, Keys
from broker.monitoring.snapshot import (
    ROLES,
    SHARED,
    StreamState,
    ask_streams,
    decoded,
    lease_of,
    processes_of,
    states_of,
)
from broker.protocol.streams import NOBODY

log = logging.getLogger(__name__)

FIRST_S = 60.0


class Watchdog:
    """The watchdog of one process.

    Args:
        first_s: seconds of waiting before the first line.
    """

    def __init__(self, client: redis.Redis, keys: Keys, *, first_s: float) -> None:
        self._client = client
        self._keys = keys
        self._first_s = self._next_s = first_s

    def look(self, idle_s: float, waits_for: str, *, is_ready: bool = True) -> None:
        """Write the line, if it is due. Raises RedisError; the next look then writes the line.

        Args:
            idle_s: seconds without work, until now.
            waits_for: the state of the process, in words.
            is_ready: False while the process starts, which may be slow: the line is then no warning.
        """
        if idle_s < self._first_s:
            self._next_s = self._first_s
        if idle_s < self._next_s:
            return
        who = who_has_the_work(self._client, self._keys)
        while self._next_s <= idle_s:
            self._next_s *= 2
        log.log(
            logging.WARNING if is_ready else logging.INFO,
            "waiting_long waited_s=%.0f since=%s for=%r who_has_the_work=%r",
            idle_s,
            time.strftime("%H:%M:%S", time.localtime(time.time() - idle_s)),
            waits_for,
            who,
        )


def who_has_the_work(client: redis.Redis, keys: Keys) -> str:
    """Say where the groups of a run are, who has the oldest of each stage, and what the learner does.

    Raises:
        redis.RedisError: Redis is away.
    """
    with client.pipeline(transaction=False) as pipe:
        ask_streams(pipe, keys)
        _, states = states_of(pipe.execute(raise_on_error=False))
    parts = [
        f"{state.depth} groups in {stream}, the oldest ({state.oldest_group}) for {state.oldest_s:.0f} s"
        f"{_holder(client, keys, stream, state)}"
        for stream, state in states.items()
        if state.depth and stream != DEAD
    ]
    return "; ".join(
        [*(parts or ["no group is in flight"]), *(_learners(client, keys) or ["no learner is alive"])]
    )


def _holder(client: redis.Redis, keys: Keys, stream: str, state: StreamState) -> str:
    """Name the holder of the first entry: of `rollouts` the scorer that began it last, of others its consumer."""
    if stream not in SHARED:
        return ""
    lease = lease_of(client, keys, stream, state.oldest_entry) if state.leased else None
    if lease is None or lease.consumer == NOBODY:
        return ", taken by nobody"
    if stream != ROLLOUTS:
        return f", with {ROLES[stream]} {lease.consumer}"
    names = decoded(client.hget(keys.tries, state.oldest_group)).split()
    return f", with scorer {names[-1]}" if names else ", begun by no scorer"


def _learners(client: redis.Redis, keys: Keys) -> list[str]:
    return [f"learner {process.id}: {process.state}" for process in processes_of(client, keys, "learner")]
