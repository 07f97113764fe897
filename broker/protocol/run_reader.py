"""Read the state of one run in Redis: slots, cursor, places of groups, entries and memory.

In: a link and the run's keys. Out: typed answers, so that no caller names a key. Nothing here changes Redis except
`dead_letter_entry` and `discard_retry_requests`, which need no fence. The guarded scripts are in
`broker.protocol.run_owner`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from broker.connection import RedisLink
from broker.keys import EPISODES, PROMPTS, WORK_STREAMS, Keys
from broker.monitoring.snapshot import names_of
from broker.protocol.run_state import fields_of
from broker.protocol.streams import Entry, dead_letter_entry, entries_by_stream, entries_of, read_entry

READ_COUNT = 64  # entries per read
TURNS_SHARE = 3.0  # of a group's memory until its hand-over: turns, ends that repeat them, and the payload
MEMORY_SHARE = 0.8  # of maxmemory: the learner issues nothing above it, so that what is there can leave


@dataclass(frozen=True, slots=True)
class Memory:
    """Redis's memory, and how much of the work is still to be sampled, at one moment."""

    used_bytes: int
    limit_bytes: int  # `maxmemory`; 0: there is no limit
    to_come: float  # memory that prompts in flight will need once sampled, in groups
    slots: int


@dataclass(frozen=True, slots=True)
class EntryPlace:
    """The entry that `where` names for a group."""

    stream: str
    entry_id: str

    def __str__(self) -> str:
        return f"{self.stream} {self.entry_id}"


@dataclass(frozen=True, slots=True)
class Sighting:
    """The place of one group, from a reconciliation."""

    group_id: str
    stream: str
    entry_id: str
    issued_at: str  # Unix seconds in decimals; "?": not in the header; "": the group is in no entry


class RunReader:
    """Read one run's state in Redis; every method waits out an outage as the link does.

    Args:
        link: to the run's Redis.
        keys: of the run.
    """

    def __init__(self, link: RedisLink, keys: Keys) -> None:
        self.link = link
        self.keys = keys

    def slots(self) -> dict[str, int]:
        """Return the groups without an outcome, and the floor of each, lowest floor first."""
        key = self.keys.slots
        found: Any = self.link(lambda client: client.zrange(key, 0, -1, withscores=True))
        return {group_id.decode(): int(floor) for group_id, floor in found}

    def slot_count(self) -> int:
        """Return the number of groups without an outcome."""
        return int(self.link(lambda client: client.zcard(self.keys.slots)))

    def position(self) -> int:
        """Return the next ordinal to issue; 0 where Redis does not know the run."""
        return self._cursor("position")

    def issued_retry(self, ordinal: int) -> int:
        """Return the number of a group's newest issued retry; 0 for none."""
        return self._cursor(f"retry:{ordinal}")

    def version(self) -> int | None:
        """Return the newest announced policy version; None for none."""
        found = fields_of(self.link, self.keys, "version")[0]
        return int(found) if found else None

    def status(self) -> str:
        """Return the status that a learner wrote; "" for none."""
        return fields_of(self.link, self.keys, "status")[0]

    def where(self) -> list[str]:
        """Return the ids of all groups, evaluation groups included, with an entry in `where`."""
        found: Any = self.link(lambda client: client.hkeys(self.keys.where))
        return [group_id.decode() for group_id in found]

    def places(self, group_ids: Sequence[str]) -> list[EntryPlace | None]:
        """Return the entry of each group, in the given order; None where `where` has none."""
        if not group_ids:
            return []
        found: Any = self.link(lambda client: client.hmget(self.keys.where, group_ids))
        return [EntryPlace(*place.decode().split(" ", 1)) if place else None for place in found]

    def reconcile_view(self, group_ids: Sequence[str]) -> list[Sighting]:
        """Find those of `group_ids` that have a slot. The answer may contain other groups, too."""
        reply = self.link.script("reconcile_view", self.keys.scripts(), *group_ids)
        words = [word.decode() for word in reply]
        return [Sighting(*four) for four in zip(*[iter(words)] * 4, strict=True)]

    def read(self, last: Mapping[str, str], *, block_s: float) -> list[Entry]:
        """Read new entries of some streams, oldest first within a stream; at most 64 of each.

        Args:
            last: the entry id after which each stream is read.
            block_s: seconds to wait where there are none.
        """
        wanted: dict[Any, Any] = {self.keys.stream(stream): entry_id for stream, entry_id in last.items()}
        reply = self.link(
            lambda client: client.xread(wanted, count=READ_COUNT, block=max(1, int(block_s * 1000)))
        )
        return [
            entry
            for key, items in entries_by_stream(reply)
            for entry in entries_of(key.decode().rsplit(":", 1)[1], items)
        ]

    def fetch(self, place: EntryPlace) -> list[Entry]:
        """Read the entry at a place; an empty list where it is gone."""
        found = read_entry(self.link, self.keys, place.stream, place.entry_id)
        return [] if found is None else [found]

    def dead_letter_entry(self, entry: Entry, *, reason: str) -> None:
        """Hand an entry over to `dead`; a foreign entry, which `where` does not name, is rejected there."""
        dead_letter_entry(self.link, self.keys, entry, reason=reason)

    def depths(self) -> dict[str, int]:
        """Count the entries of each work stream."""

        def attempt(client: redis.Redis) -> list[int]:
            with client.pipeline(transaction=False) as pipe:
                for stream in WORK_STREAMS:
                    pipe.xlen(self.keys.stream(stream))
                return list(pipe.execute())

        return dict(zip(WORK_STREAMS, self.link(attempt), strict=True))

    def memory(self) -> Memory:
        """Read Redis's memory, and the work in flight."""
        return self.link(lambda client: memory_of(client, self.keys))

    def processes(self, role: str) -> list[str]:
        """Return the processes of a role that have a heartbeat, as HOST-PID."""
        return self.link(lambda client: names_of(client, self.keys.alive(role, "")))

    def retry_requests(self) -> list[str]:
        """Return the ids of the dead groups that an operator asked to retry."""
        found: Any = self.link(lambda client: client.hkeys(self.keys.retries))
        return [group_id.decode() for group_id in found]

    def discard_retry_requests(self, group_ids: Iterable[str]) -> None:
        """Delete requests that were handled."""
        if wanted := list(group_ids):
            self.link(lambda client: client.hdel(self.keys.retries, *wanted))

    def _cursor(self, field: str) -> int:
        found: Any = self.link(lambda client: client.hget(self.keys.cursor, field))
        return int(found or 0)


def memory_of(client: redis.Redis, keys: Keys) -> Memory:
    """Read Redis's memory, and a run's work in flight. Raises redis.RedisError: Redis is away."""
    with client.pipeline(transaction=False) as pipe:
        pipe.info("memory")
        pipe.xlen(keys.stream(PROMPTS))
        pipe.xlen(keys.stream(EPISODES))
        pipe.zcard(keys.slots)
        memory, prompts, episodes, slots = pipe.execute()
    to_come = int(prompts) + TURNS_SHARE * int(episodes)
    return Memory(int(memory["used_memory"]), int(memory.get("maxmemory", 0)), to_come, int(slots))
