"""The world of a random run: Redis, the disk, and the learners that live.

Everybody's commands pass by `World.look`, which compares Redis with the ledger after each of them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import redis

from broker.keys import WORK_STREAMS, Keys
from broker.protocol.streams import Entry, entries_of
from tests.protocol.invariants import Bounds, Invariants, Violated
from tests.protocol.lives import FOREVER_S, Disk, DrivenRedis, Life, WatchedRedisLink
from tests.protocol.redis_history import History, State
from tests.protocol.strands import Clock
from tests.support.chain import make_run

STEPS = 100_000  # no random run gets there


class World:
    def __init__(
        self,
        url: str,
        folder: Path,
        clock: Clock,
        disk: Disk,
        *,
        bounds: Bounds,
        is_clock_back: bool,
        rounds_every: int = 4,
    ) -> None:
        self.url, self.folder, self.clock, self.disk, self.bounds = url, folder, clock, disk, bounds
        self.rounds_every = rounds_every  # of evaluation, in steps; 0: none
        self.client = DrivenRedis(connection_pool=redis.ConnectionPool.from_url(url, protocol=2))
        self.client.clock = clock
        self.client.flushall()
        self.fill_memory(False)
        self.starts = 0  # of the Redis server
        self.client.set_response_callback("INFO", self._info(self.client.response_callbacks["INFO"]))
        self.keys = Keys("test")
        self.history = History(redis.Redis(connection_pool=self.client.connection_pool), self.keys)
        if is_clock_back:
            self.history.begin_at("4102444800000-0")  # in the year 2100
        self.journal = folder / "test" / "journal"
        self.invariants = Invariants(self.journal, self._lag_of)
        self._bounds_held: list[int] = []  # lengths of the history from which on bounds held anew
        self._is_outgrown = False  # Redis was set back to before that: there may be too much
        self.lives: list[Life] = []
        self.actions = 0  # that anybody has done
        self.did: Counter[str] = Counter()  # what disturbed them, by name
        self.broken: Violated | None = None

    @property
    def now(self) -> State:
        return self.history.now

    @property
    def living(self) -> list[Life]:
        """The learners that have not ended, the oldest first."""
        return [life for life in self.lives if life.is_running]

    def newest(self) -> Life:
        """Return the learner that began last; another one where it was fenced off by one that has been killed since."""
        return self.living[-1] if self.living else self.begin()

    def link(self) -> WatchedRedisLink:
        """Return a worker's link: it does not wait for anything."""
        return WatchedRedisLink(self.url, self.client, self.look, outage_s=-1.0)

    def look(self, command: str, fence: int) -> None:
        before = self.now
        self.history.look()
        try:
            # Also one that began before another that it fenced.
            if any(life.has_recovered for life in self.living):
                self._hold_to_bounds()
            self.invariants.check(before, self.now, command=command, fence=fence)
        except AssertionError as error:  # the learner's own code may hold it up
            self.broken = self.broken or Violated(str(error))
            raise self.broken from error

    def begin(self) -> Life:
        bounds = self.bounds
        if self.invariants.bounds is not None and bounds.is_smaller(self.invariants.bounds):
            self.invariants.bounds = None
        settings = {"groups_per_step": bounds.groups_per_step, "max_lag": bounds.max_lag, "steps": STEPS}
        kept = {"checkpoint": {"every": 3, "keep": 2}, "weights": {"every": bounds.every}}
        rounds = {"every": self.rounds_every, "prompts": 1, "samples": 1, "deadline_s": 60.0}
        run = make_run(self.folder, learner=settings | kept | {"samples_every": 0}, evaluation=rounds)
        life = Life(run, WatchedRedisLink(self.url, self.client, self.look, outage_s=FOREVER_S))
        self.lives.append(life)
        return life

    def go_back(self, commands: int) -> None:
        is_full = self.is_full
        self.fill_memory(False)  # what was there has room
        if self.history.go_back(commands):
            self.did["redis set back"] += 1
            self.invariants.went_back(self.now)
            if self._bounds_held and self._bounds_held[-1] > len(self.history):
                self._bounds_held = [length for length in self._bounds_held if length <= len(self.history)]
                self._is_outgrown, self.invariants.bounds = True, None
        self.fill_memory(is_full)

    def forget_all(self) -> None:
        """An empty Redis takes this one's place."""
        self.starts += 1
        self.did["redis emptied"] += 1
        self.history.forget_all()
        self.invariants.went_back(self.now)

    def fill_memory(self, is_full: bool) -> None:
        """From now on Redis refuses whatever grows, or takes it again."""
        self.is_full = is_full
        self.client.config_set("maxmemory", int(is_full))

    def entry(self, group_id: str) -> Entry | None:
        stream, _, entry_id = self.now.where.get(group_id, "").partition(" ")
        if stream not in WORK_STREAMS:
            return None
        found: Any = self.client.xrange(self.keys(stream), entry_id, entry_id)
        return next(iter(entries_of(stream, found)), None)

    def delete_by_hand(self, entry: Entry, what: str) -> None:
        """Somebody deletes a group's `entry`, or what `where` says of it."""
        self.invariants.by_hand.add(entry.group_id)
        self.did["entries deleted" if what == "entry" else "`where` deleted"] += 1
        if what == "entry":
            self.client.xdel(self.keys(entry.stream), entry.entry_id)
        else:
            self.client.hdel(self.keys("where"), entry.group_id)
        self.history.look()

    def retry_a_dead_letter(self, pick: int) -> None:
        ended = self.invariants.ledger.outcomes.keys() - self.now.slots.keys()
        dead_letters = [place for place in self.now.streams["dead"] if place.group_id in ended]
        if dead_letters and not self.is_full:
            dead_letter = dead_letters[pick % len(dead_letters)]
            self.did["letters retried"] += 1
            self.client.hset(self.keys("retries"), dead_letter.group_id, dead_letter.entry_id)
            self.history.look()

    def unended(self) -> list[str]:
        return sorted((self.now.issued() | self.now.slots.keys()) - self.invariants.ledger.outcomes.keys())

    def see_who_has_ended(self) -> None:
        """A learner ends only because it was killed or a newer one has taken the run over."""
        if self.broken is not None:
            raise self.broken
        for life in self.lives:
            if life.is_running or life.is_killed:
                continue
            why = life.failure or repr(life.loop.error or f"by itself, with exit code {life.loop.result}")
            is_fenced = "has taken" in why and any(other.fence > life.fence for other in self.lives)
            if not is_fenced:
                self.broken = Violated(f"learner {life.fence} ended: {why}")
                raise self.broken
            life.kill()

    def describe(self) -> str:
        life = self.newest()
        places = {strand.name: strand.place for strand in life.strands}
        return (
            f"learner {life.fence} at {places}, version {self.now.version}, "
            f"{len(self.invariants.ledger.steps)} steps, slots {self.now.slots}, where {self.now.where}"
        )

    def close(self) -> None:
        for life in self.lives:
            life.kill()
        self.fill_memory(False)
        self.client.connection_pool.disconnect()

    def _hold_to_bounds(self) -> None:
        """From its recovery on a learner's commands are held to its settings.

        Where Redis was set back to before that, the groups of larger settings are in flight again, and nobody can know
        until the learner has noticed: then from where it has brought them down.
        """
        if self.invariants.bounds is None:
            self.invariants.read_ledger()
            if self._is_outgrown and self.invariants.too_much(self.now, self.bounds):
                return
            self._is_outgrown = False
            self._bounds_held.append(len(self.history))
        self.invariants.bounds = self.bounds

    def _lag_of(self, fence: int) -> int:
        return next(life.max_lag for life in self.lives if life.fence == fence)

    def _info(self, parse: Any) -> Any:
        return lambda reply, **options: parse(reply, **options) | {"run_id": f"start {self.starts}"}
