"""Define what travels through an exchange: bundles in chunks, their manifest, and a generator's request.

A **bundle** is a delta, or a version's full weights: a base version. The manifest lists the learner's bundles: a chain
of deltas from an older version to the newest, and at most one base version, from which the chain continues. A generator
takes the cheapest **way** from the weights that it holds, and lists the chunks it lacks in its request
(`WeightsRequest`); the learner stores these, a few at a time, and removes those that nobody lacks. So a lost or damaged
chunk is stored again, and a generator that joins late lacks other chunks than the rest.

A chunk carries a checksum over its bundle's name, its number and its bytes, so a chunk in the wrong place is invalid.
Pure functions and records; both ends of an exchange use them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import xxhash

SEAL_BYTES = 16
REQUEST_LIMIT = 1_000_000  # characters: about a million chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A version's full weights, or a delta from other weights."""

    name: str
    version: int  # the version it produces
    checksum: str  # of that version, as announced
    base: str  # checksum of the version that the delta applies to; "": full weights, file after file
    size_bytes: int  # of the bundle
    chunk_bytes: int

    @property
    def chunks(self) -> int:
        """Return the number of chunks."""
        return math.ceil(self.size_bytes / self.chunk_bytes)

    @property
    def all_chunks(self) -> int:
        """Return the set of all chunks, one bit each."""
        return (1 << self.chunks) - 1

    def extent(self, chunk: int) -> tuple[int, int]:
        """Return the position of a chunk, and its bytes."""
        begin = chunk * self.chunk_bytes
        return begin, min(self.chunk_bytes, self.size_bytes - begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The bundles on offer."""

    version: int  # the newest
    checksum: str  # as announced
    size_bytes: int  # of its files
    deltas: tuple[
        Bundle, ...
    ] = ()  # the base of each is the result of the one before; the last results in the newest
    anchor: Bundle | None = None  # the base version, by its name on the wire
    trouble: str = ""  # why nothing is on offer, for people; "" where something is

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        """Return the deltas and the base version."""
        return (*self.deltas, self.anchor) if self.anchor else self.deltas


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRequest:
    """A generator's request. Its count rises with each request, which shows that the generator lives."""

    count: int
    version: int  # in its engine; -1: none
    held: str  # checksum of the version that deltas can be applied to; "": none
    lacks: Mapping[str, int] = field(default_factory=dict)  # bundles begun -> chunks lacking, one bit each

    def chunks_of(self, bundle: Bundle) -> int:
        """Return the chunks still lacking of a bundle, one bit each: all, where it has not begun."""
        return self.lacks.get(bundle.name, bundle.all_chunks) & bundle.all_chunks


def way(manifest: Manifest, *, held: str, above: int) -> tuple[Bundle, ...] | None:
    """Return the bundles from the held weights to newer ones, in order; () where the held ones are the newest.

    Args:
        held: checksum of the weights to start from; "": none.
        above: versions up to this one are useless.
    Returns:
        The bundles with the fewest bytes to the newest version. If none lead there, a base version of a useful version;
        None without one.
    """
    if held == manifest.checksum:
        return ()
    base_version = manifest.anchor
    ways = [deltas for deltas in [_deltas_from(manifest, held)] if deltas]
    if base_version and base_version.checksum == manifest.checksum:
        ways.append((base_version,))
    elif base_version and (deltas := _deltas_from(manifest, base_version.checksum)):
        ways.append((base_version, *deltas))
    if ways:
        return min(ways, key=lambda bundles: sum(bundle.size_bytes for bundle in bundles))
    return (
        (base_version,)
        if base_version and base_version.version > above and base_version.checksum != held
        else None
    )


def _deltas_from(manifest: Manifest, checksum: str) -> tuple[Bundle, ...]:
    for number, delta in enumerate(manifest.deltas):
        if delta.base == checksum:
            return manifest.deltas[number:]
    return ()


def refusal(size_bytes: int, most_bytes: int) -> str:
    """Say why weights of this size may not travel; "" where they may."""
    if most_bytes:
        return ""
    return (
        f"they have {size_bytes} bytes, and learner.weights.redis_max_bytes=0 lets none through Redis: raise it, or "
        "mount the learner's folder here"
    )


def sealed(name: str, chunk: int, data: bytes) -> bytes:
    """Return a chunk as stored: its checksum, then its bytes."""
    return _seal(name, chunk, data) + data


def unsealed(bundle: Bundle, chunk: int, value: bytes) -> bytes | None:
    """Return a chunk's bytes; None if the checksum does not match."""
    data = value[SEAL_BYTES:]
    is_right = value[:SEAL_BYTES] == _seal(bundle.name, chunk, data) and len(data) == bundle.extent(chunk)[1]
    return data if is_right else None


def _seal(name: str, chunk: int, data: bytes) -> bytes:
    hasher = xxhash.xxh3_128(f"{name}/{chunk}/".encode())
    hasher.update(data)
    return hasher.digest()


def manifest_text(manifest: Manifest) -> str:
    """Encode a manifest as JSON."""
    return json.dumps(asdict(manifest))


def read_manifest_text(text: str | bytes) -> Manifest | None:
    """Decode a manifest; None where it is invalid."""
    try:
        found: dict[str, Any] = json.loads(text)
        base_version = found.pop("anchor")
        deltas = tuple(_bundle(delta) for delta in found.pop("deltas"))
        return Manifest(
            version=int(found["version"]),
            checksum=str(found["checksum"]),
            size_bytes=int(found["size_bytes"]),
            deltas=deltas,
            anchor=_bundle(base_version) if base_version else None,
            trouble=str(found["trouble"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _bundle(found: Mapping[str, Any]) -> Bundle:
    bundle = Bundle(
        name=str(found["name"]),
        version=int(found["version"]),
        checksum=str(found["checksum"]),
        base=str(found["base"]),
        size_bytes=int(found["size_bytes"]),
        chunk_bytes=int(found["chunk_bytes"]),
    )
    if (
        "/" in bundle.name
        or bundle.size_bytes < 1
        or bundle.chunk_bytes < 1
        or bundle.chunks > 4 * REQUEST_LIMIT
    ):
        raise ValueError(f"{bundle} is no bundle")
    return bundle


def request_text(request: WeightsRequest) -> str:
    """Encode a request as JSON; sets of chunks are hexadecimal."""
    lacks = {name: f"{chunks:x}" for name, chunks in request.lacks.items()}
    return json.dumps(
        {"count": request.count, "version": request.version, "held": request.held, "lacks": lacks}
    )


def read_request_text(text: str | bytes) -> WeightsRequest | None:
    """Decode a request; None where it is invalid."""
    if len(text) > REQUEST_LIMIT:
        return None
    try:
        found: dict[str, Any] = json.loads(text)
        return WeightsRequest(
            count=int(found["count"]),
            version=int(found["version"]),
            held=str(found["held"]),
            lacks={str(name): int(chunks, 16) for name, chunks in found["lacks"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
