"""What lies in the work streams, how much of it is taken, and what is the oldest.

In: a run's keys. Out: a `StreamState` a stream, for `broker.monitoring.snapshot` and `broker.monitoring.stall_warning`.
It only reads, and never a payload.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import redis

from broker.connection import script_text
from broker.keys import GROUP, PROMPTS, ROLLOUTS, WORK_STREAMS, Keys
from broker.protocol.streams import NOBODY

SHARED = (PROMPTS, ROLLOUTS)  # streams with a consumer group


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """One stream at one moment."""

    depth: int = 0  # entries
    leased: int = 0  # of these, those that somebody has taken; none of `scored` and `dead`
    oldest_s: float = 0.0  # age of the first entry in this stream, by Redis' clock; 0 where there is none
    oldest_entry: str = ""
    oldest_group: str = ""

    @property
    def waiting(self) -> int:
        """Entries that nobody has taken: the consumer group's lag."""
        return self.depth - self.leased


def ask(pipe: Any, keys: Keys) -> int:
    """Queue the questions of `states_of` on a pipeline that raises no errors. Returns how many they are."""
    pipe.time()
    for stream in WORK_STREAMS:
        pipe.xlen(keys(stream))
        pipe.eval(_headers(), len(keys.scripts()), *keys.scripts(), stream, "-", 1)
    for stream in SHARED:
        pipe.xpending(keys(stream), GROUP)
    return 1 + 2 * len(WORK_STREAMS) + len(SHARED)


def states_of(reply: list[Any]) -> tuple[float, dict[str, StreamState]]:
    """Redis' time in Unix seconds, and the streams by name. Raises RedisError where one of the answers is one."""
    seconds, microseconds = _checked(reply[0])
    now = seconds + microseconds / 1e6
    leases = dict(zip(SHARED, map(_leased, reply[1 + 2 * len(WORK_STREAMS) :]), strict=True))
    states = {}
    for place, stream in enumerate(WORK_STREAMS):
        depth = _checked(reply[1 + 2 * place])
        first = [word.decode(errors="replace") for word in _checked(reply[2 + 2 * place])]
        entry, group = first or ("", "")
        began = int(entry.partition("-")[0]) / 1000 if entry else now
        states[stream] = StreamState(
            depth=depth,
            leased=min(depth, leases.get(stream, 0)),
            oldest_s=max(0.0, now - began),
            oldest_entry=entry,
            oldest_group=group,
        )
    return now, states


@cache
def _headers() -> str:
    return script_text("headers")


def _leased(reply: Any) -> int:
    """Entries of a consumer group in somebody's hands; 0 where there is no such group (yet)."""
    if isinstance(reply, redis.ResponseError):
        return 0
    consumers = _checked(reply)["consumers"]
    return sum(int(consumer["pending"]) for consumer in consumers if consumer["name"] != NOBODY.encode())


def _checked(reply: Any) -> Any:
    if isinstance(reply, redis.RedisError):
        raise reply
    return reply
