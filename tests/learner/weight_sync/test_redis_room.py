"""Whether weights have room in Redis beside groups of one turn and of episodes."""

from __future__ import annotations

from typing import Any

import redis

from broker.connection import RedisLink
from broker.keys import EPISODES, PROMPTS, Keys
from broker.protocol.run_reader import MEMORY_SHARE, TURNS_SHARE
from learner.weight_sync.redis_room import RedisRoom

MIB = 1 << 20


class Limited:
    """A Redis that says to have a limit, and to use nothing."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def pipeline(self, **_: Any) -> Any:
        pipe = self._client.pipeline(transaction=False)
        execute = pipe.execute
        pipe.execute = lambda: [{"used_memory": 0, "maxmemory": 100 * MIB}, *execute()[1:]]  # type: ignore[assignment, misc]
        return pipe


def test_the_turns_of_episodes_count_besides_prompts(link: RedisLink, keys: Keys) -> None:
    room = RedisRoom(Limited(link.client), keys, budget=0, mean_bytes=lambda: MIB)  # type: ignore[arg-type]
    free = int(100 * MIB * MEMORY_SHARE)
    assert not room.lack(free - 1)
    assert "maxmemory is 100 MiB" in room.lack(free + 1)
    link.client.xadd(keys.stream(PROMPTS), {"v": "1"})
    link.client.xadd(keys.stream(EPISODES), {"v": "1"})
    to_come = int((1 + TURNS_SHARE) * MIB)
    assert not room.lack(free - to_come - 1)
    assert "they need 101 MiB" in room.lack(free - to_come + 1)
