"""Read and delete dead letters of the stream `dead`, and request retries of their groups.

In: a run's keys, and ids of dead letters or groups. Out: the dead letters in Redis, the requests in the hash `retries`,
and the retry counts of the cursor. `millrace dead` uses it; the learner issues the requested retries (lua/issue.lua).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from broker import codec, group_ids
from broker.connection import RedisLink
from broker.keys import DEAD, Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Requested and issued retries, from Redis."""

    is_known: bool  # False: this Redis knows nothing of the run
    requests: Mapping[str, str]  # dead group -> entry of its dead letter; not issued yet
    counts: Mapping[int, int]  # ordinal -> number of issued retries, of groups that were over, too


def read_retries(link: RedisLink, keys: Keys) -> Retries:
    """Return the open requests and the issued retries."""
    found: Any = link(
        lambda client: (
            client.exists(keys.cursor, keys.run, keys.stream(DEAD)),
            client.hgetall(keys.retries),
            client.hgetall(keys.cursor),
        )
    )
    is_known, requests, cursor = found
    return Retries(
        is_known=bool(is_known),
        requests={group.decode(): entry.decode() for group, entry in requests.items()},
        counts={
            int(field.removeprefix(b"retry:")): int(count)
            for field, count in cursor.items()
            if field.startswith(b"retry:")
        },
    )


def read_page(
    link: RedisLink, keys: Keys, first: str, last: str, *, count: int
) -> list[tuple[str, codec.Raw]]:
    """Read up to `count` dead letters between two entry ids of XRANGE: id and fields, the oldest first."""
    found: Any = link(lambda client: client.xrange(keys.stream(DEAD), first, last, count=count))
    return [(entry.decode(), raw) for entry, raw in found]


def request(link: RedisLink, keys: Keys, dead_letters: Sequence[tuple[str, str]]) -> list[str]:
    """Request retries of dead groups. Returns the groups whose dead letters still exist.

    Args:
        dead_letters: group and entry of each.
    """
    flat = [part for pair in dead_letters for part in pair]
    return [group.decode() for group in link.script("request_retries", keys.scripts(), *flat)]


def remove(link: RedisLink, keys: Keys, entries: Sequence[str], *, requests: Sequence[str]) -> int:
    """Delete dead letters, and the requests of the groups `requests`. Returns how many dead letters existed."""

    def attempt(client: redis.Redis) -> Any:
        with client.pipeline(transaction=True) as pipe:
            pipe.xdel(keys.stream(DEAD), *entries)
            if requests:
                pipe.hdel(keys.retries, *requests)
            return pipe.execute()[0]

    return int(link(attempt))


def read_issued(link: RedisLink, keys: Keys, ids: Sequence[str]) -> tuple[set[str], dict[str, str]]:
    """Read which retries were issued, by the cursor's counts, and the place of each: `STREAM ENTRY`, or ""."""
    fields = [f"retry:{group_ids.ordinal_of(group_id)}" for group_id in ids]

    def attempt(client: redis.Redis) -> Any:
        with client.pipeline(transaction=True) as pipe:
            pipe.hmget(keys.cursor, fields)
            pipe.hmget(keys.where, list(ids))
            return pipe.execute()

    counts, places = link(attempt)
    issued = {
        group_id
        for group_id, count in zip(ids, counts, strict=True)
        if int(count or 0) >= group_ids.retry_of(group_id)
    }
    return issued, {group_id: (place or b"").decode() for group_id, place in zip(ids, places, strict=True)}
