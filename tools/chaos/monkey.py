"""Disturb a run at random, by a seed: the monkey of `millrace chaos`.

In: `Orders`, and an `Observation` of the run. Out: signals to its processes, a killed or restarted Redis, cut
connections, and a `Record` of the hits. Called at every tick of the supervisor, in the main thread, which restarts
killed processes. Never waits: a stopped process is continued at a later tick.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import redis

from tools.chaos.returns import Returns
from tools.chaos.targets import (
    AGENT,
    DISPATCHER,
    GENERATOR,
    LEARNER,
    POOL,
    PROGRAM,
    REDIS,
    SCORER,
    Observation,
    Victim,
)
from tools.up.redis_keeper import RedisKeeper

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25
KILL, KILL_TREE, STOP, RESTART, CUT = "kill", "kill_tree", "stop", "restart", "cut"
KILLS = (KILL, KILL_TREE)
STOP_LEASES = (1.2, 2.0)  # how many leases a process is stopped for, minimum and maximum

# Relative frequencies of the disturbances.
WEIGHTS: Mapping[tuple[str, str], float] = {
    **{(KILL, role): 2.0 for role in (GENERATOR, AGENT, PROGRAM, DISPATCHER, SCORER, LEARNER)},
    **{(KILL_TREE, role): 1.0 for role in (GENERATOR, AGENT, SCORER, LEARNER)},
    (KILL, POOL): 1.0,
    (KILL_TREE, POOL): 1.0,
    **{(STOP, role): 0.5 for role in (GENERATOR, AGENT, DISPATCHER, SCORER, LEARNER)},
    (KILL, REDIS): 2.0,
    (RESTART, REDIS): 1.0,
    (CUT, REDIS): 1.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the monkey must do."""

    seconds: float  # after these, disturbances stop and the run is drained
    every_s: float = 10.0  # between two disturbances
    seed: int = 0
    # This many kills of each of these roles, and nothing else. They come after the first step, each once all roles have
    # returned, at random up to `every_s` later.
    quota: Mapping[str, int] | None = None
    turns: Sequence[str] = ()  # these roles are killed in rotation, and nothing else
    redis_away_s: float = 0.0  # how long Redis stays away after it was killed


@dataclass(slots=True)
class Record:
    """The disturbances and kills that hit a process, a Redis or a connection."""

    kills: Counter[str] = field(default_factory=Counter)  # kills with -9, by role
    disturbances: Counter[str] = field(default_factory=Counter)  # by kind and target


class Monkey:
    """Disturb one run.

    Args:
        look: observes the run; see `tools.chaos.targets.Targets`.
        forgive: receives the supervisor's process that will be killed; see `Supervisor.forgive`.
        keeper: of the run's Redis. An external server is never killed: other runs may use it too.
        client: of that Redis, with short timeouts.
        lease_s: of the run's work; processes are stopped for longer.
        on_back: called with (role, seconds) when a killed role has returned.
    """

    def __init__(
        self,
        orders: Orders,
        *,
        look: Callable[[], Observation],
        forgive: Callable[[str], None],
        keeper: RedisKeeper,
        client: redis.Redis,
        lease_s: float,
        on_back: Callable[[str, float], None] = lambda _role, _seconds: None,
    ) -> None:
        self.orders = orders
        self.record = Record()
        self.returns = Returns(on_back)
        self._look = look
        self._forgive = forgive
        self._keeper = keeper
        self._client = client
        self._lease_s = lease_s
        self._chance = random.Random(orders.seed)  # noqa: S311 - no secret
        self._stopped: tuple[Victim, float] | None = (
            None  # the stopped process, and when to continue it, in monotonic seconds
        )
        self._looked = 0.0
        self._pause_s = self._draw_pause()
        self._next = time.monotonic() + self._pause_s

    @property
    def is_done(self) -> bool:
        """Return whether the quota is fulfilled and every killed role has returned."""
        quota = self.orders.quota
        return (
            quota is not None
            and not any(map(self._is_wanted, quota))
            and not any(map(self.returns.is_missing, quota))
        )

    def tick(self, *, may_disturb: bool) -> None:
        """Observe; continue a process that was stopped long enough; disturb the run if due and allowed."""
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY_S:
            return
        self._looked = now
        seen = self._look()
        self.returns.look(seen)
        if self._stopped is not None and (now >= self._stopped[1] or not may_disturb):
            self.let_go()
        if may_disturb and now >= self._next and self._may_begin(seen) and self._disturb(seen):
            self._pause_s = self._draw_pause()
            self._next = time.monotonic() + self._pause_s

    def let_go(self) -> None:
        """Continue a stopped process."""
        if self._stopped is not None:
            victim, _ = self._stopped
            self._stopped = None
            log.warning("chaos continue role=%s pid=%d", victim.role, victim.pid)
            victim.send(signal.SIGCONT)

    def _draw_pause(self) -> float:
        return (
            self.orders.every_s if self.orders.quota is None else self._chance.uniform(0, self.orders.every_s)
        )

    def _may_begin(self, seen: Observation) -> bool:
        """Return whether the next disturbance may begin: with a quota, a pause after the last victim's return."""
        quota = self.orders.quota
        if quota is not None and (seen.version < 1 or any(map(self.returns.is_missing, quota))):
            self._next = time.monotonic() + self._pause_s
            return False
        return True

    def _is_wanted(self, role: str) -> bool:
        quota, turns = self.orders.quota, self.orders.turns
        return (quota is None or self.record.kills[role] < quota.get(role, 0)) and (
            not turns or turns[self.record.kills.total() % len(turns)] == role
        )

    def _disturb(self, seen: Observation) -> bool:
        """Do one possible disturbance at random, new kinds first. Returns False where it hit nothing."""
        possible = [what for what in WEIGHTS if self._is_possible(*what, seen)]
        if not possible:
            return False
        possible = [what for what in possible if not self.record.disturbances[" ".join(what)]] or possible
        kind, role = self._chance.choices(possible, [WEIGHTS[what] for what in possible])[0]
        if role == REDIS:
            hit = self._disturb_redis(kind, seen)
        else:
            hit = self._disturb_process(kind, self._chance.choice(seen.of(role)), seen)
        if hit:
            self.record.disturbances[f"{kind} {role}"] += 1
            if kind in KILLS:
                self.record.kills[role] += 1
        return hit

    def _is_possible(self, kind: str, role: str, seen: Observation) -> bool:
        if (self.orders.quota is not None or self.orders.turns) and (
            kind not in KILLS or not self._is_wanted(role)
        ):
            return False
        if role == REDIS:
            return self._keeper.is_private and seen.redis_answers
        if role == LEARNER and kind in KILLS and not self.returns.learner_has_stepped(seen):
            return False
        return bool(seen.of(role)) and (kind != STOP or self._stopped is None)

    def _disturb_process(self, kind: str, victim: Victim, seen: Observation) -> bool:
        if kind == STOP:
            seconds = self._lease_s * self._chance.uniform(*STOP_LEASES)
            log.warning("chaos stop role=%s pid=%d seconds=%.1f", victim.role, victim.pid, seconds)
            if not victim.send(signal.SIGSTOP):
                return False
            self._stopped = victim, time.monotonic() + seconds
            return True
        if kind == KILL and victim.role == LEARNER:  # any of its ranks ends the others
            victim = replace(victim, pid=self._chance.choice((victim.pid, *victim.tree)), tree=())
        log.warning("chaos %s role=%s pid=%d below=%d", kind, victim.role, victim.pid, len(victim.tree))
        if victim.role in (GENERATOR, AGENT, LEARNER, POOL):  # the pool restarts the others
            self._forgive(victim.child)
        if not victim.send(signal.SIGKILL, to_tree=kind == KILL_TREE):
            return False
        self.returns.killed(victim.role, seen)
        return True

    def _disturb_redis(self, kind: str, seen: Observation) -> bool:
        log.warning("chaos %s role=redis", kind)
        try:
            if kind == CUT:
                cut: Any = self._client.client_kill_filter(_type="normal")
                return bool(cut)
            pid = int(self._client.info("server")["process_id"])
            self._keeper.forgive(self.orders.redis_away_s)
            if kind == KILL:
                os.kill(pid, signal.SIGKILL)
        except (redis.RedisError, ProcessLookupError):
            return False
        if kind == RESTART and not self._shut_down():
            log.error("chaos redis refused to be shut down; its log says why")
            return False
        self.returns.killed(REDIS, seen)
        return True

    def _shut_down(self) -> bool:
        """Shut Redis down cleanly. Returns False where Redis still answers."""
        with contextlib.suppress(redis.RedisError):
            self._client.shutdown()
        try:
            self._client.ping()
        except redis.RedisError:
            return True
        return False
