"""Check whether Redis has room for weights besides the groups, by the feeder's own measure.

In: the additional bytes. Out: why there is no room, for people, or "". Used by the relay before it writes to Redis:
groups come first, and a full Redis stops the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import redis

from broker.keys import Keys
from broker.protocol.run_reader import MEMORY_SHARE, memory_of


class RedisRoom:
    """The room that a run's groups leave in its Redis.

    Args:
        budget: groups that may be without an outcome.
        mean_bytes: returns the mean size of a sampled group in Redis.
    """

    def __init__(
        self, client: redis.Redis, keys: Keys, *, budget: int, mean_bytes: Callable[[], float]
    ) -> None:
        self._client = client
        self._keys = keys
        self._budget = budget
        self._mean_bytes = mean_bytes

    def lack(self, more_bytes: int) -> str:
        """Return why Redis has no room for `more_bytes` besides a full budget of groups; "" where it has.

        Raises:
            redis.RedisError: Redis is away.
        """
        memory = memory_of(self._client, self._keys)
        limit = memory.limit_bytes
        to_come = (memory.to_come + max(0, self._budget - memory.slots)) * self._mean_bytes()
        lacking = memory.used_bytes + to_come + more_bytes - MEMORY_SHARE * limit
        if not limit or lacking <= 0:
            return ""
        return (
            f"Redis has no room for them: maxmemory is {limit >> 20} MiB, and beside a full budget of groups they "
            f"need {math.ceil((limit + lacking / MEMORY_SHARE) / 2**20)} MiB"
        )
