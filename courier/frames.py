"""A frame is what one broadcast moves: a seal, and a bucket's bytes behind it.

In: the bytes of a version's files, cut into buckets of bounded size. Out: frames, whose seal is over the epoch, the
round, the frame's number and its bytes, so that a bucket of another place is none. A frame whose seal says `void` ends
its round for everybody. Pure functions; sender and receivers use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import xxhash

SEAL_BYTES = 16


@dataclass(frozen=True, slots=True)
class Bucket:
    """A part of one file."""

    number: int  # of its round, from 0
    file: int  # the file's place in the version
    begin: int  # its first byte in that file
    size_bytes: int


def buckets_of(sizes_bytes: Sequence[int], bucket_bytes: int) -> Iterator[Bucket]:
    """Cut files into buckets of at most `bucket_bytes`; no bucket has bytes of two files."""
    number = 0
    for file, size in enumerate(sizes_bytes):
        for begin in range(0, size, bucket_bytes):
            yield Bucket(number, file, begin, min(bucket_bytes, size - begin))
            number += 1


def seal(place: str, data: memoryview) -> bytes:
    """Return the seal of a bucket's bytes in their place, see `place_of`."""
    hasher = xxhash.xxh3_128(place.encode())
    hasher.update(data)
    return hasher.digest()


def void_seal(place: str) -> bytes:
    """Return the seal of the frame that ends a round early."""
    return xxhash.xxh3_128(f"void/{place}".encode()).digest()


def place_of(epoch: str, round_number: int, bucket: Bucket) -> str:
    """Name the place of a bucket."""
    return f"{epoch}/{round_number}/{bucket.number}/"
