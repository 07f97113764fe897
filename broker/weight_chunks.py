"""This module keeps a version's weights in Redis, in chunks, for generators that do not see the learner's folder.

Three kinds of keys of a run, all of which expire:
  `weights:VERSION:CHUNK`   a part of that version's file
  `weights_chunks`          hash, the manifest: which version it is, its size and checksum; or why there is none
  `weights_wanted`          hash, generator -> "HELD COUNT": the version that it holds, and how often it has asked
The learner's relay (`learner.weight_sync.relay`) writes the first two, and only while somebody asks; generators write
the third (`generators.weight_sync.redis_fetch`). No script of the protocol reads any of these keys: deleting one delays
a generator, and does no other harm. The functions raise redis-py's errors.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import redis

from broker.keys import Keys

CHUNK_BYTES = 32 << 20  # Redis does nothing else while it takes one: some tens of milliseconds
EXPIRY_S = 300  # of what a learner has put there that has died since


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of the chunks that lie in Redis."""

    version: int
    checksum: str  # sha256 of the whole file, hex, as announced
    size_bytes: int
    chunks: int  # how many there are
    trouble: str = ""  # why there are none, for people; "" where they are there


def refusal(size_bytes: int, most_bytes: int) -> str:
    """Say why weights of this size do not go through Redis; "" where they may."""
    if size_bytes <= most_bytes:
        return ""
    return (
        f"they have {size_bytes} bytes, and learner.weights.redis_max_bytes={most_bytes} lets no more through "
        "Redis: raise it, or mount the learner's folder here"
    )


def read_manifest(client: redis.Redis, keys: Keys) -> Manifest | None:
    """Read the manifest; None where there is none that can be read."""
    found: Any = client.hgetall(keys.weights_chunks)
    try:
        text = {field.decode(): value.decode() for field, value in found.items()}
        return Manifest(
            version=int(text["version"]),
            checksum=text["checksum"],
            size_bytes=int(text["size_bytes"]),
            chunks=int(text["chunks"]),
            trouble=text["trouble"],
        )
    except (KeyError, ValueError):
        return None


def write_manifest(client: redis.Redis, keys: Keys, manifest: Manifest) -> None:
    """Write the manifest behind its chunks; chunks and manifest expire together."""
    fields: dict[Any, Any] = {name: str(getattr(manifest, name)) for name in Manifest.__slots__}
    with client.pipeline(transaction=True) as pipe:
        pipe.delete(keys.weights_chunks)
        pipe.hset(keys.weights_chunks, mapping=fields)
        _extend(pipe, keys, manifest)
        pipe.execute()


def extend(client: redis.Redis, keys: Keys, manifest: Manifest) -> None:
    """Let a version's chunks and manifest stay for another EXPIRY_S seconds."""
    with client.pipeline(transaction=False) as pipe:
        _extend(pipe, keys, manifest)
        pipe.execute()


def remove(client: redis.Redis, keys: Keys, manifest: Manifest) -> None:
    """Remove a version, the manifest first: a generator that reads the chunks notices, and begins anew."""
    discard_manifest(client, keys)
    if manifest.chunks:
        client.unlink(*(keys.weights_chunk(manifest.version, chunk) for chunk in range(manifest.chunks)))


def read_chunk(client: redis.Redis, keys: Keys, version: int, chunk: int) -> bytes | None:
    """Read a part of a version; None where it is gone."""
    data = client.get(keys.weights_chunk(version, chunk))
    return data if isinstance(data, bytes) else None


def discard_manifest(client: redis.Redis, keys: Keys) -> None:
    """Remove the manifest: the chunks are not what was announced, and the learner has to write them again."""
    client.delete(keys.weights_chunks)


def ask(client: redis.Redis, keys: Keys, generator: str, *, held: int, count: int) -> None:
    """Ask for weights newer than version `held`, which this generator holds, for the `count`th time."""
    with client.pipeline(transaction=True) as pipe:
        pipe.hset(keys.weights_wanted, generator, f"{held} {count}")
        pipe.expire(keys.weights_wanted, EXPIRY_S)
        pipe.execute()


def wishes(client: redis.Redis, keys: Keys) -> dict[str, tuple[int, int]]:
    """Read the wishes: generator -> the version that it holds, and how often it has asked."""
    found: Any = client.hgetall(keys.weights_wanted)
    asked: dict[str, tuple[int, int]] = {}
    for generator, value in found.items():
        with suppress(ValueError):  # somebody else's field
            held, count = map(int, value.split())
            asked[generator.decode(errors="replace")] = held, count
    return asked


def _extend(pipe: Any, keys: Keys, manifest: Manifest) -> None:
    pipe.expire(keys.weights_chunks, EXPIRY_S)
    for chunk in range(manifest.chunks):
        pipe.expire(keys.weights_chunk(manifest.version, chunk), EXPIRY_S)
