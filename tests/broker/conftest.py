"""A run's keys in a real Redis, with a learner that owns them."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from broker import codec
from broker.connection import RedisLink
from broker.keys import WORK_STREAMS, Keys
from broker.protocol.run_owner import Issued, NewGroup, RunOwner
from broker.protocol.streams import Entry, entries_of, hand_over
from tests.support.groups import a_prompt, an_announcement


class Board:
    """What lies where in one run, and the moves of its roles."""

    def __init__(self, link: RedisLink, keys: Keys) -> None:
        self.link = link
        self.keys = keys
        self.client: Any = link.client
        self.learner = RunOwner(link, keys)
        self.learner.claim(0)

    def issue(self, *ids: int, budget: int = 100, newest: int = 0) -> Issued:
        groups = [self.group(str(number)) for number in ids]
        return self.learner.issue(ids[0], ids[-1] + 1, budget, newest, groups)

    def group(self, group_id: str) -> NewGroup:
        """Return a group as the feeder hands it to `issue`."""
        return NewGroup(group_id, codec.encode_prompt(a_prompt(group_id)))

    def announce(self, version: int) -> None:
        self.learner.announce(an_announcement(version))

    def move(self, entry: Entry, to: str) -> bool:
        """Return a worker's hand-over with a result that carries the entry's own header."""
        return hand_over(self.link, self.keys, entry, to, result_of(entry))

    def where(self, group_id: str) -> str | None:
        """STREAM ENTRY of a group."""
        found = self.client.hget(self.keys("where"), group_id)
        return found.decode() if isinstance(found, bytes) else None

    def entry(self, group_id: str) -> Entry:
        place = self.where(group_id)
        assert place is not None, f"{group_id} is nowhere"
        stream, entry_id = place.split(" ")
        (entry,) = entries_of(stream, self.client.xrange(self.keys(stream), entry_id, entry_id))
        assert entry.group_id == group_id
        return entry

    def ids(self, stream: str) -> list[str]:
        return [entry.group_id for entry in entries_of(stream, self.client.xrange(self.keys(stream)))]

    def slots(self) -> dict[str, int]:
        """Group id to floor."""
        found = self.client.zrange(self.keys("slots"), 0, -1, withscores=True)
        return {name.decode(): int(floor) for name, floor in found}

    def hash(self, suffix: str) -> dict[str, str]:
        found = self.client.hgetall(self.keys(suffix))
        return {name.decode(): value.decode() for name, value in found.items()}

    def state(self) -> dict[str, Any]:
        """Everything but idle times, to see that nothing changed."""
        state: dict[str, Any] = {}
        for key in sorted(self.client.scan_iter(match="rl:*")):
            kind = self.client.type(key)
            if kind == b"stream":
                groups = [(group["name"], group["pending"]) for group in self.client.xinfo_groups(key)]
                state[key.decode()] = (self.client.xrange(key), groups)
            elif kind == b"zset":
                state[key.decode()] = self.client.zrange(key, 0, -1, withscores=True)
            elif kind == b"hash":
                state[key.decode()] = self.client.hgetall(key)
            else:
                state[key.decode()] = self.client.get(key)
        return state

    def audit(self) -> None:
        """Each slot has one entry in the work streams, where `where` says."""
        places: dict[str, list[str]] = {}
        for stream in WORK_STREAMS:
            for entry in entries_of(stream, self.client.xrange(self.keys(stream))):
                places.setdefault(entry.group_id, []).append(f"{stream} {entry.entry_id}")
        for group_id in self.slots():
            assert places.get(group_id) == [self.where(group_id)]


class LosesReplies:
    """A client whose next so many scripts run, and whose replies are lost on the way."""

    def __init__(self, client: redis.Redis, count: int = 1) -> None:
        self.client = client
        self.left = count

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def evalsha(self, *args: Any) -> Any:
        return self._lose(self.client.evalsha(*args))

    def eval(self, *args: Any) -> Any:
        return self._lose(self.client.eval(*args))

    def _lose(self, reply: Any) -> Any:
        if self.left:
            self.left -= 1
            raise redis.ConnectionError("the reply was lost")
        return reply


def result_of(entry: Entry) -> codec.Fields:
    """Fields of a result: the entry's own header, and who made it."""
    return {"v": "1", "group": entry.group_id, "floor": str(entry.floor), "at": "1.000", "payload": b"result"}


@pytest.fixture
def board(link: RedisLink, keys: Keys) -> Board:
    """Return a run with nothing in it, owned by a first learner."""
    return Board(link, keys)
