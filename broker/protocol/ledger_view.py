"""Read what a ledger is compared with: groups issued, groups in flight, entries of the streams.

In: a run's keys. Out: a `LedgerView`, and a `Cursor` to compare the view with afterwards. `millrace audit` needs both.
Only reads, a page at a time, and never copies all payloads of a stream. The streams are read from `prompts` on, in the
order that groups travel: a group that moves meanwhile may be seen twice, but is not missed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from broker import group_ids
from broker.connection import RedisLink
from broker.keys import WORK_STREAMS, Keys
from broker.protocol.leftovers import leftovers

PAGE = 500  # entries whose headers are read at once
RETRY = "retry:"  # prefix of fields of `cursor`


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The groups issued so far, from Redis."""

    issued: int  # the feeder's count
    position: int  # the next ordinal
    retries: Mapping[str, int]  # ordinal -> number of issued retries
    seq: int  # learner scripts that took effect
    is_there: bool  # False: this Redis knows nothing of the run

    def ids(self) -> set[str]:
        """Return the ids of all training groups that were ever issued."""
        again = (
            group_ids.retried(ordinal, number)
            for ordinal, count in self.retries.items()
            for number in range(1, count + 1)
        )
        return {*map(str, range(self.position)), *again}

    def retries_of(self, group_id: str) -> int:
        """Return the number of issued retries of this group's ordinal."""
        return self.retries.get(str(group_ids.ordinal_of(group_id)), 0)

    def names(self, group_id: str) -> bool:
        """Return whether this group was issued."""
        ordinal, number = group_ids.order_of(group_id)
        return 0 <= ordinal < self.position and number <= self.retries_of(group_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """The keys of a run. All but the streams is of one moment."""

    server: str  # run id of the Redis that answered
    cursor: Cursor
    slots: frozenset[str]
    where: Mapping[str, str]  # group -> "STREAM ENTRY"
    requests: frozenset[str]  # dead groups to retry, requested by an operator
    entries: Mapping[str, Mapping[str, int]]  # stream -> group -> number of its entries; "?": of no group
    leftovers: tuple[str, ...] = ()  # of episodes that no group plays any more

    def streams_of(self, group_id: str) -> list[str]:
        """Return the streams with an entry of the group, the last stream first."""
        return [stream for stream in reversed(WORK_STREAMS) if group_id in self.entries[stream]]


def look(link: RedisLink, keys: Keys) -> LedgerView:
    """Read the view, in an order that is correct while the run continues."""
    server = server_of(link)
    cursor, slots, where, requests = link.script("ledger_view", keys.scripts())
    return LedgerView(
        server=server,
        cursor=cursor_of(dict(zip(cursor[::2], cursor[1::2], strict=True))),
        slots=frozenset(slot.decode() for slot in slots),
        where=_pairs(where),
        requests=frozenset(_pairs(requests)),
        entries={stream: Counter(_groups(link, keys, stream)) for stream in WORK_STREAMS},
        leftovers=leftovers(link, keys),
    )


def read_cursor(link: RedisLink, keys: Keys) -> Cursor:
    """Read the cursor."""
    found: Any = link(lambda client: client.hgetall(keys.cursor))
    return cursor_of(found)


def is_known(link: RedisLink, keys: Keys) -> bool:
    """Return whether this Redis knows the run: a learner has claimed it, or has issued groups."""
    return bool(link(lambda client: client.exists(keys.cursor) or client.hexists(keys.run, "fence")))


def server_of(link: RedisLink) -> str:
    """Return the run id of the Redis that answers; each server start has its own."""
    return str(link(lambda client: client.info("server"))["run_id"])


def cursor_of(found: Mapping[bytes, bytes]) -> Cursor:
    """Read the hash `cursor`."""
    fields = {field.decode(): value.decode() for field, value in found.items()}
    retries = {
        field.removeprefix(RETRY): int(count) for field, count in fields.items() if field.startswith(RETRY)
    }
    return Cursor(
        issued=int(fields.get("issued", 0)),
        position=int(fields.get("position", 0)),
        retries=retries,
        seq=int(fields.get("seq", 0)),
        is_there="position" in fields,
    )


def _pairs(flat: list[bytes]) -> dict[str, str]:
    words = [word.decode(errors="replace") for word in flat]
    return dict(zip(words[::2], words[1::2], strict=True))


def _groups(link: RedisLink, keys: Keys, stream: str) -> Iterator[str]:
    first = "-"
    while True:
        page = [
            word.decode(errors="replace")
            for word in link.script("headers", keys.scripts(), stream, first, PAGE)
        ]
        yield from page[1::2]
        if len(page) < 2 * PAGE:
            return
        first = f"({page[-2]}"
