"""Find the targets of `millrace chaos`: the run's own processes on this machine, and no others.

In: the processes that the supervisor started, their descendants in /proc, and the heartbeats, which give the role of
each. Out: an `Observation`. Processes that chaos did not start, such as a generator that joined from another machine,
are never in it. While Redis is away a dispatcher can't be distinguished from a worker: then only the supervisor's own
roles are in it. A dispatcher or a scorer is in it once it has lived for a while: killed before, it counts as one that
fails at its start, and its pool gives up after a few of these.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import redis

from broker.keys import Keys
from broker.monitoring.snapshot import Process as Heartbeat
from broker.monitoring.snapshot import snapshot
from broker.role_pool import SOON_S
from tools.up.process_tree import Process, below

SPARED_S = SOON_S + 1.0  # psutil tells a process's beginning up to a second early

# The roles in heartbeats.
GENERATOR, AGENT, DISPATCHER, SCORER, LEARNER = "generator", "agent", "dispatcher", "scorer", "learner"
POOL = "pool"  # the parent of a dispatcher and its scorers
PROGRAM = "program"  # below an agents' worker: an environment's process, or an agent that owns its loop
REDIS = "redis"
ROLES = (GENERATOR, AGENT, PROGRAM, DISPATCHER, SCORER, POOL, LEARNER, REDIS)


@dataclass(frozen=True, slots=True)
class Victim:
    """One process of a role, and its descendants."""

    role: str
    child: str  # the supervisor's name for the process or its ancestor: generator-0, agent-0, scorers-0
    pid: int
    tree: tuple[int, ...]  # the ids of all its descendants

    def send(self, number: signal.Signals, *, to_tree: bool = False) -> bool:
        """Send the process a signal. Returns False where the process had already ended."""
        hit = _send(self.pid, number)
        for pid in self.tree if to_tree else ():
            _send(pid, number)
        return hit


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of the run at one moment."""

    victims: tuple[Victim, ...]
    # Ids of heartbeats at work, by role; programs have none, and are known by their process ids.
    ready: Mapping[str, frozenset[str]] = field(default_factory=dict)
    starting: frozenset[str] = frozenset()  # ids of those that are still starting
    redis_answers: bool = False
    version: int = -1  # the newest announced policy
    announced_ms: int = 0  # Redis's time of that announcement, Unix milliseconds

    def of(self, role: str) -> list[Victim]:
        """Return the victims of one role, in a stable order."""
        return sorted(
            (victim for victim in self.victims if victim.role == role), key=lambda victim: victim.pid
        )


class Targets:
    """Observe one run, for the processes that may be disturbed.

    Args:
        pids: the supervisor's running processes, by its name for them.
        client: of the run's Redis, with short timeouts.
        clock: Unix seconds.
    """

    def __init__(
        self,
        pids: Callable[[], Mapping[str, int]],
        client: redis.Redis,
        run: str,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pids = pids
        self._client = client
        self._run = run
        self._clock = clock

    def look(self) -> Observation:
        """Return the current observation."""
        pids = self._pids()
        trees = {name: below(pid) for name, pid in pids.items()}
        own = [_root(name, pid, trees[name]) for name, pid in pids.items()]
        programs = [victim for name, pid in pids.items() for victim in _programs(name, pid, trees[name])]
        own += programs
        try:
            found = snapshot(self._client, self._run)
            newest: Any = self._client.xrevrange(Keys(self._run).weights, count=1)
        except redis.RedisError:
            return Observation(tuple(own))
        living = {*pids.values(), *(process.pid for tree in trees.values() for process in tree)}
        here = [beat for beat in found.processes if beat.host == socket.gethostname() and beat.pid in living]
        before = self._clock() - SPARED_S
        parts = [
            victim
            for name, tree in trees.items()
            for victim in _parts(name, [process for process in tree if process.began < before], here)
        ]
        starting = frozenset(beat.id for beat in here if beat.state.startswith("starting"))
        at_work = [beat for beat in here if beat.id not in starting]
        ready = {
            role: frozenset(beat.id for beat in at_work if beat.role == role)
            for role in (GENERATOR, AGENT, DISPATCHER, SCORER)
        } | {PROGRAM: frozenset(str(victim.pid) for victim in programs)}
        announced = int(newest[0][0].partition(b"-")[0]) if newest else 0
        return Observation(
            (*own, *parts), ready, starting, redis_answers=True, version=found.version, announced_ms=announced
        )


def _root(name: str, pid: int, tree: list[Process]) -> Victim:
    """Make a victim of a process that the supervisor started: `generator-0`, `agent-0`, `scorers-0`, `learner`."""
    role = name.partition("-")[0]
    return Victim(POOL if role == "scorers" else role, name, pid, tuple(process.pid for process in tree))


def _programs(name: str, root: int, tree: list[Process]) -> list[Victim]:
    """Return the processes of episodes: the leaves of the tree, below the parents of a worker's tasks."""
    if not name.startswith(AGENT):
        return []
    parents = {process.parent for process in tree}
    return [
        Victim(PROGRAM, name, process.pid, ())
        for process in tree
        if process.parent != root and process.pid not in parents
    ]


def _parts(name: str, tree: list[Process], beats: list[Heartbeat]) -> list[Victim]:
    """Return the dispatcher and the scorers below a pool."""
    roles = {beat.pid: beat.role for beat in beats if beat.role in (DISPATCHER, SCORER)}
    return [
        Victim(roles[process.pid], name, process.pid, tuple(each.pid for each in below(process.pid)))
        for process in tree
        if process.pid in roles
    ]


def _send(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
