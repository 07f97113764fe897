"""The board in Redis on which learner and generators arrange that weights go directly; the weights go elsewhere.

Two keys of a run, both of which expire:
  `weights_direct`          the epoch and its last round, JSON: the learner's
  `weights_direct_wanted`   hash, generator -> its wish, JSON
No script of the protocol reads these keys: without them generators read the announced files. Every method may raise
redis.RedisError.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import redis

from broker.direct_weights.records import Epoch, Wish, epoch_text, read_epoch_text, read_wish_text, wish_text
from broker.keys import Keys

EXPIRY_S = 300  # of what somebody has written that has died since
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Board:
    """The keys of one run."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def write_epoch(self, epoch: Epoch) -> None:
        """Write an epoch in the place of the one before."""
        self._client.set(self._keys.weights_direct, epoch_text(epoch), ex=EXPIRY_S)

    def read_epoch(self) -> Epoch | None:
        """Read the epoch; None where there is none that can be read."""
        found = self._client.get(self._keys.weights_direct)
        return read_epoch_text(found) if isinstance(found, bytes) else None

    def prolong(self) -> None:
        """Let the epoch stay on."""
        self._client.expire(self._keys.weights_direct, EXPIRY_S)

    def clear(self) -> None:
        """Remove the epoch."""
        self._client.delete(self._keys.weights_direct)

    def ask(self, generator: str, wish: Wish) -> None:
        """Write a generator's wish in the place of the one before."""
        with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.weights_direct_wanted, generator, wish_text(wish))
            pipe.expire(self._keys.weights_direct_wanted, EXPIRY_S)
            pipe.execute()

    def withdraw(self, generator: str) -> None:
        """Remove a generator's wish."""
        self._client.hdel(self._keys.weights_direct_wanted, generator)

    def wishes(self) -> dict[str, Wish]:
        """Read the wishes, by generator; somebody else's fields are none."""
        found: Any = self._client.hgetall(self._keys.weights_direct_wanted)
        read = {name.decode(errors="replace"): read_wish_text(text) for name, text in found.items()}
        return {name: wish for name, wish in read.items() if wish}


def this_machine() -> str:
    """Return what tells this machine from others: containers of one machine have the same."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()
