"""Find data of episodes in Redis that no group plays any more, for `millrace audit`; there must be none.

In: a run's keys. Out: a line for each leftover. Only reads, each pair of keys at one moment, so that the result is
correct while the run continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import redis

from broker.connection import RedisLink
from broker.keys import EPISODES, POLICY_CALLS, Keys
from broker.monitoring.snapshot import keys_of, names_of

PAGE = 500  # calls that are checked at once


def leftovers(link: RedisLink, keys: Keys) -> tuple[str, ...]:
    """Return a line for each leftover: turns of groups that are not in `episodes`, calls that nobody waits for."""
    return (*_turns(link, keys), *_calls(link, keys))


def _turns(link: RedisLink, keys: Keys) -> Iterator[str]:
    groups = link(lambda client: names_of(client, keys.turns("")))

    def attempt(client: redis.Redis) -> list[Any]:
        with client.pipeline(transaction=True) as pipe:
            for group_id in groups:
                pipe.exists(keys.turns(group_id))
                pipe.hget(keys.where, group_id)
            return list(pipe.execute())

    found = iter(link(attempt))
    for group_id, is_there, where in zip(groups, found, found, strict=True):
        if is_there and not (where or b"").startswith(EPISODES.encode() + b" "):
            yield f"turns of group {group_id}, which is not in {EPISODES}"


def _calls(link: RedisLink, keys: Keys) -> Iterator[str]:
    prefix = keys.stream(POLICY_CALLS)
    for key in link(lambda client: keys_of(client, prefix)):
        stream, first = key.decode().removeprefix(keys.prefix), "-"
        while page := _page(link, keys, stream, first):
            for entry, call, asked in page:
                if call and asked != f"{stream} {entry}".encode():
                    group_id = call[b"group"].decode(errors="replace")
                    yield f"call {entry} in {stream}, which group {group_id} does not ask"
            first = f"({page[-1][0]}"


def _page(link: RedisLink, keys: Keys, stream: str, first: str) -> list[tuple[str, dict[bytes, bytes], Any]]:
    """Return entry, fields ({}: gone meanwhile) and the call that its group has recorded, for some calls."""
    listed: Any = link(lambda client: client.xrange(keys.stream(stream), min=first, count=PAGE))

    def attempt(client: redis.Redis) -> list[Any]:
        with client.pipeline(transaction=True) as pipe:
            for entry, call in listed:
                pipe.xrange(keys.stream(stream), entry, entry)
                pipe.hget(
                    keys.turns(call[b"group"].decode()), b":".join((b"asked", call[b"k"], call[b"key"]))
                )
            return list(pipe.execute())

    found = iter(link(attempt)) if listed else iter(())
    return [
        (entry.decode(), call if still else {}, asked)
        for (entry, call), still, asked in zip(listed, found, found, strict=True)
    ]
