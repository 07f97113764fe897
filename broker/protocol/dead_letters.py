"""Read and delete dead letters of the stream `dead`, and request retries of their groups.

In: a run's keys, and ids of dead letters or groups. Out: the dead letters in Redis, and the requests in the hash
`retries`. `millrace dead` uses it; the learner issues the requested retries (lua/issue.lua).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from broker import codec
from broker.connection import RedisLink
from broker.keys import DEAD, Keys


def is_known(link: RedisLink, keys: Keys) -> bool:
    """Return whether this Redis knows the run, or has dead letters of it."""
    return bool(link(lambda client: client.exists(keys.cursor, keys.run, keys.stream(DEAD))))


def read_requests(link: RedisLink, keys: Keys) -> dict[str, str]:
    """Return the requested retries that are not issued yet: dead group -> entry of its dead letter."""
    found: Any = link(lambda client: client.hgetall(keys.retries))
    return {group.decode(): entry.decode() for group, entry in found.items()}


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
