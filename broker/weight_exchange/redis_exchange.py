"""Exchange weights in Redis, for generators that reach nothing else of the learner's.

Three kinds of keys of a run, all of which expire:
  `weights:BUNDLE:CHUNK`   a sealed chunk
  `weights_chunks`         the manifest, JSON: the bundles on offer, or why there are none
  `weights_wanted`         hash, generator -> its request, JSON
The learner's relay writes the first two, and only while a generator asks; generators write the third. No script of the
protocol reads these keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.exceptions import OutOfMemoryError

from broker.keys import Keys
from broker.weight_exchange.bundles import (
    Manifest,
    WeightsRequest,
    manifest_text,
    read_manifest_text,
    read_request_text,
    request_text,
)
from broker.weight_exchange.exchange import Chunk, ExchangeAway, ExchangeCutOff, ExchangeFull

EXPIRY_S = 300  # of what a learner stored that has died since


class RedisExchange:
    """An `Exchange` in a run's Redis."""

    place = "Redis"
    others_wait = True

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def read_manifest(self) -> Manifest | None:
        """Read the manifest."""
        with _said_plainly():
            found = self._client.get(self._keys.weights_chunks)
        return read_manifest_text(found) if isinstance(found, bytes) else None

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest, with an expiry."""
        with _said_plainly():
            self._client.set(self._keys.weights_chunks, manifest_text(manifest), ex=EXPIRY_S)

    def clear(self) -> None:
        """Remove the manifest first: a generator notices, and asks again."""
        manifest = self.read_manifest()
        with _said_plainly():
            self._client.delete(self._keys.weights_chunks)
        if manifest:
            self.drop((bundle.name, chunk) for bundle in manifest.bundles for chunk in range(bundle.chunks))

    def put(self, chunk: Chunk, value: bytes) -> None:
        """Store a chunk, with an expiry. Redis does nothing else meanwhile."""
        with _said_plainly():
            self._client.set(self._keys.weights_chunk(*chunk), value, ex=EXPIRY_S)

    def has_settled(self) -> bool:
        """Return whether the disk has caught up: when it is two seconds behind, Redis accepts no writes."""
        with _said_plainly():
            info: Any = self._client.info("persistence")
        return not int(info.get("aof_pending_bio_fsync", 0))

    def get(self, chunk: Chunk) -> bytes | None:
        """Read a chunk."""
        with _said_plainly():
            data = self._client.get(self._keys.weights_chunk(*chunk))
        return data if isinstance(data, bytes) else None

    def drop(self, chunks: Iterable[Chunk]) -> None:
        """Remove chunks; Redis frees their memory in the background."""
        names = [self._keys.weights_chunk(*chunk) for chunk in chunks]
        with _said_plainly():
            for begin in range(0, len(names), 1000):
                self._client.unlink(*names[begin : begin + 1000])

    def present(self, chunks: Iterable[Chunk]) -> set[Chunk]:
        """Return which chunks are stored, in one round trip."""
        asked = list(chunks)
        with _said_plainly(), self._client.pipeline(transaction=False) as pipe:
            for chunk in asked:
                pipe.exists(self._keys.weights_chunk(*chunk))
            found = pipe.execute()
        return {chunk for chunk, is_there in zip(asked, found, strict=True) if is_there}

    def prolong(self, chunks: Iterable[Chunk]) -> None:
        """Extend the expiry of the chunks and the manifest."""
        with _said_plainly(), self._client.pipeline(transaction=False) as pipe:
            pipe.expire(self._keys.weights_chunks, EXPIRY_S)
            for chunk in chunks:
                pipe.expire(self._keys.weights_chunk(*chunk), EXPIRY_S)
            pipe.execute()

    def ask(self, generator: str, request: WeightsRequest) -> None:
        """Write the request into the hash of all requests."""
        with _said_plainly(), self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.weights_wanted, generator, request_text(request))
            pipe.expire(self._keys.weights_wanted, EXPIRY_S)
            pipe.execute()

    def requests(self) -> dict[str, WeightsRequest]:
        """Read the requests; skip invalid fields."""
        with _said_plainly():
            found: Any = self._client.hgetall(self._keys.weights_wanted)
        read = {name.decode(errors="replace"): read_request_text(text) for name, text in found.items()}
        return {name: request for name, request in read.items() if request}


@contextmanager
def _said_plainly() -> Iterator[None]:
    try:
        yield
    except OutOfMemoryError as error:
        raise ExchangeFull(f"Redis is full: {error}") from error
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise ExchangeCutOff(f"Redis does not answer: {error}") from error
    except redis.RedisError as error:
        raise ExchangeAway(f"Redis does not answer as it should: {error}") from error
