"""Record how workers died, for the dead letter of the group that killed them.

In: how a process ended and its last lines, from its supervisor (the scorers' pool, `millrace up`). Out: the hash
`died:HOST-PID`, which Redis removes after a day, and the text of a dead letter once a group has used up its attempts.
The record decides nothing: leases and scripts decide which worker's result counts. A death that could not be recorded
costs a sentence of a dead letter.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from broker.connection import RedisLink
from broker.keys import Keys, error_field
from broker.protocol.leases import Consumer
from broker.protocol.streams import TRACEBACK_BYTES, Entry
from config.logs import mask

log = logging.getLogger(__name__)

TTL_S = 86_400
LAST_LINES = 40


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a process: how, when, and with which last lines."""

    how: str  # "was killed by SIGSEGV"
    last_lines: str  # last lines of its output, oldest first


def record_death(
    client: redis.Redis, keys: Keys, *, host: str, pid: int, how: str, last_lines: Iterable[str]
) -> None:
    """Record that the process `pid` of `host` has died. Raises no error of Redis, which may be away.

    Args:
        how: see `how_it_ended`.
        last_lines: of its log; the last `LAST_LINES` are kept, without the secrets of this process.
    """
    key = keys.died(f"{host}-{pid}")
    fields: dict[Any, Any] = {
        "how": how,
        "last_lines": mask("\n".join(list(last_lines)[-LAST_LINES:]))[-TRACEBACK_BYTES:],
    }
    try:
        with client.pipeline(transaction=True) as pipe:  # never a hash that does not expire
            pipe.hset(key, mapping=fields)
            pipe.expire(key, TTL_S)
            pipe.execute()
    except redis.RedisError as error:
        log.warning("death_unrecorded process=%s-%d how=%r error=%s", host, pid, how, error)


def deaths_of(link: RedisLink, keys: Keys, names: Sequence[str]) -> dict[str, Death]:
    """Read the deaths of the workers `names`, each HOST-PID-HEX, by name; those without a record are left out."""

    def attempt(client: redis.Redis) -> list[dict[bytes, bytes]]:
        with client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hgetall(keys.died(name.rpartition("-")[0]))
            return list(pipe.execute())

    return {
        name: Death(found[b"how"].decode(), found[b"last_lines"].decode(errors="replace"))
        for name, found in zip(names, link(attempt), strict=True)
        if found
    }


def dead_letter_exhausted(consumer: Consumer, entry: Entry, *, attempts: int, most: int, what: str) -> None:
    """Hand an entry that used up its attempts over to `dead`, with all that is known of the workers that tried it.

    Args:
        consumer: of the worker that has just begun the entry once too often.
        attempts: number before this one.
        most: broker.max_attempts.
        what: the attempts in words, such as "generators began this prompt".
    """
    link, keys = consumer.link, consumer.keys
    values: list[Any] = link(
        lambda client: client.hmget(keys.tries, [entry.group_id, error_field(entry.group_id)])
    )
    began, error = (value.decode(errors="replace") if value else "" for value in values)
    names = began.split()[:-1][-attempts:]
    deaths = deaths_of(link, keys, list(dict.fromkeys(names)))
    reason = f"{attempts} {what} and none finished it (broker.max_attempts={most})"
    if names:
        reason += ": " + ", ".join(
            _words(name, times, deaths.get(name)) for name, times in Counter(names).items()
        )
    if error:
        reason += f"; the last error: {error.rstrip().splitlines()[-1]}"
    parts = [error.rstrip()] if error else []
    parts += [
        f"The last lines of {name}, which {deaths[name].how}:\n{deaths[name].last_lines}"
        for name in reversed(names)
        if name in deaths
    ][:1]
    consumer.dead_letter_entry(entry, reason=reason, attempts=attempts, traceback="\n\n".join(parts))


def _words(name: str, times: int, death: Death | None) -> str:
    often = f" {times} times" if times > 1 else ""
    return f"{name}{often} ({death.how})" if death else f"{name}{often}"
