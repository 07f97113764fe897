"""Frame the records of a ledger's file, and find the complete records among a file's bytes.

In: a record, or a file. Out: the bytes to append, or every complete record with its place, and the damage between them.
Used by `learner.journal` to write and by `learner.journal.ledger` to read. An incomplete record at the end of a file
was being written when its incarnation ended. A broken record with others after it was once complete, and its bytes have
changed since.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgpack

FRAME = struct.Struct("<II")  # bytes of the body, its CRC-32
_KIND = b"\xa4kind"  # the first key of every record, after the one to three bytes of a map's header


@dataclass(frozen=True, slots=True)
class Whole:
    """A complete record, with its place."""

    record: Mapping[str, Any]
    start: int  # of its frame, in bytes from the beginning of the file
    end: int


@dataclass(frozen=True, slots=True)
class Broken:
    """Bytes that are no record."""

    start: int
    end: int  # start of the next complete record, or end of the file (or the incarnation)
    is_tail: bool  # the bytes end the file: no other record follows, complete or torn


def framed(record: Mapping[str, Any]) -> bytes:
    """Return a record's bytes in the file. Its first key must be `kind`, which is used to find records after damage."""
    body = msgpack.packb(record, use_bin_type=True)
    return FRAME.pack(len(body), zlib.crc32(body)) + bytes(body)


def step_number(record: Mapping[str, Any]) -> int:
    """Return the step number of a record as shown to people: the version that the step makes.

    Step n goes from version n - 1 to version n, so the first step is step 1. On disk a record's `step` counts from 0:
    it is the version that the step starts from, and stays so. Use this for whatever is printed, logged, raised,
    exported or compared with a number that a user typed; not for training or writing.
    """
    return int(record["step"]) + 1


def published_in(record: Mapping[str, Any]) -> dict[int, str]:
    """Return the checksums of the versions published between the last step's record and this one.

    Records from before weights were published behind the step have one, of the version that the step starts from.
    """
    if "weights" in record:
        return {record["step"]: record["weights"]}
    return {int(version): checksum for version, checksum in record["published"]}


def scan(path: Path, *, until: int | None = None) -> Iterator[Whole | Broken]:
    """Yield every record and every damaged section in a ledger's file, in order.

    Args:
        until: valid bytes; those after them are void. None: the whole file.
    """
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        limit = size if until is None else min(size, until)
        position = 0
        while position < limit:
            found = _record_at(stream, position, limit) or _next_record(stream, position, limit)
            yield found
            position = found.end


def first_record(path: Path) -> Whole | Broken | None:
    """Read the first record (or damage) of a ledger's file; None for an empty file."""
    return next(scan(path), None)


def _record_at(stream: BinaryIO, position: int, limit: int) -> Whole | None:
    stream.seek(position)
    frame = stream.read(FRAME.size)
    if len(frame) < FRAME.size:
        return None
    length, checksum = FRAME.unpack(frame)
    start, end = position, position + FRAME.size + length
    if not length or end > limit:  # 0 bytes have the CRC 0: a tail of zeros, as a power cut leaves it
        return None
    body = stream.read(length)
    if zlib.crc32(body) != checksum:
        return None
    return Whole(msgpack.unpackb(body, raw=False), start, end)


def _next_record(stream: BinaryIO, position: int, limit: int) -> Broken:
    """Return the broken bytes at `position`, up to the next whole record.

    A broken record's length can't be trusted, so the rest is searched for the beginning of every record. Where none is
    found, but the length fits and bytes follow it, the next record is the torn one: an incarnation writes nothing after
    a record that it could not finish.
    """
    stream.seek(position)
    rest = stream.read(limit - position)
    mark = rest.find(_KIND)
    while mark >= 0:
        for head in (1, 3):
            start = position + mark - head - FRAME.size
            if start > position and _record_at(stream, start, limit):
                return Broken(position, start, is_tail=False)
        mark = rest.find(_KIND, mark + 1)
    length = FRAME.unpack_from(rest)[0] if len(rest) >= FRAME.size else 0
    return Broken(position, limit, is_tail=not (length and any(rest[FRAME.size + length :])))
