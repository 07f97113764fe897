"""This cache keeps what served models have said, so that the same answer to the same prompt is judged once.

In: the name of a question, a hash of model, prompt and answer. Out: the reply, where one is kept. `RunReplies` keeps
replies in Redis for all workers of a run, `ProcessReplies` in this process. A cache that can't be read or written
counts as empty: nothing waits for it.

The replies of some hours lie in a few hashes, which go as a whole: a key for each reply would slow down everybody who
looks for a run's keys.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from typing import Any, Final, Protocol

import redis

from scorers.served_model.concurrency_limits import Shared

log = logging.getLogger(__name__)

PERIOD_S: Final = 6 * 3600  # a reply is kept for at least one period, and for less than two
MOST_OWN: Final = 10_000  # replies of one process


class Replies(Protocol):
    """A cache keeps replies. Any thread may use it."""

    def find(self, name: str) -> bytes | None:
        """Look a reply up by its name. None: there is none, or the cache can't be read."""
        ...

    def keep(self, name: str, reply: bytes) -> None:
        """Keep a reply for a while. Never raises."""
        ...


class RunReplies:
    """This cache keeps replies in Redis, for all workers of a run."""

    def __init__(self, shared: Shared) -> None:
        self._client = shared.link.client
        self._keys = shared.keys

    def find(self, name: str) -> bytes | None:
        """Look a reply up, see `Replies`."""
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for age in (0, 1):
                    pipe.hget(self._place(name, age), name)
                found: list[Any] = pipe.execute()
        except redis.RedisError as error:
            log.warning("reply_not_looked_up error=%s", error)
            return None
        return next((reply for reply in found if reply is not None), None)

    def keep(self, name: str, reply: bytes) -> None:
        """Keep a reply, see `Replies`."""
        place = self._place(name, 0)
        try:
            with self._client.pipeline(transaction=False) as pipe:
                pipe.hset(place, name, reply)
                pipe.expire(place, 2 * PERIOD_S)
                pipe.execute()
        except redis.RedisError as error:  # Redis' memory is full, say
            log.warning("reply_not_kept error=%s", error)

    def _place(self, name: str, age: int) -> str:
        """Name the hash of a reply kept `age` periods ago. A period has sixteen hashes, so that none is large."""
        return self._keys.replies(int(time.time() // PERIOD_S) - age, name[0])


class ProcessReplies:
    """This cache keeps replies in this process; the reply that was asked for longest ago goes first."""

    def __init__(self) -> None:
        self._replies: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, name: str) -> bytes | None:
        """Look a reply up, see `Replies`."""
        with self._lock:
            if name in self._replies:
                self._replies.move_to_end(name)
            return self._replies.get(name)

    def keep(self, name: str, reply: bytes) -> None:
        """Keep a reply, see `Replies`."""
        with self._lock:
            self._replies[name] = reply
            while len(self._replies) > MOST_OWN:
                self._replies.popitem(last=False)
