"""Write and read the groups of each step: payloads next to the ledger, in files of bounded size.

In: scored groups, with their advantages. Out: msgpack of each step in a payload file, `payload-FENCE-NNN.bin`, and the
same groups again. Written by `learner.journal`, read by recovery and the tools; needs no torch. A payload is completely
on disk before the ledger names it; a payload without a record is void.

A payload has everything needed to train or score a step again, except the completions' text, which would take half as
much space as the ids: the tokenizer decodes it again (`generators.decoding`). A group is stored as on the wire, with
its arrays separate.
"""

from __future__ import annotations

import logging
import os
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgpack
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from broker.codec import IDS, LOGPROBS, Get, built, checked, pack, unpack
from broker.errors import BadMessage, Permanent
from broker.messages import ScoredGroup
from learner.journal.disk import sync, write_all
from learner.journal.records import step_number
from learner.journal.schema_2 import tree_of

log = logging.getLogger(__name__)

MIB = 1 << 20
PAYLOAD_SCHEMA = 4  # the schema written
# 1 had the groups as on the wire. 2 has no segments: a completion is its one segment, and every token trained. 3, such
# columns with segments, was in no release.
READABLE = (2, 4)
_HEAD_BYTES = struct.Struct("<I")
_NAME = re.compile(r"payload-(\d+)-(\d+)\.bin")

Advantages = Sequence[
    Sequence[float | None]
]  # a list per group, a number per completion; None: the completion did not train


class JournalError(Permanent):
    """A journal is unreadable; the message names the file and the place in it."""


class PayloadGone(JournalError):
    """A step's payload file is missing: removed by retention or by a person."""


@dataclass(frozen=True, slots=True, order=True)
class PayloadFile:
    """A file of payloads, from its name."""

    fence: int  # of the incarnation that wrote the file
    number: int  # 0, 1, 2 … in that incarnation
    path: Path


def payload_files(folder: Path) -> list[PayloadFile]:
    """List the existing payload files, the oldest first."""
    found = ((_NAME.fullmatch(path.name), path) for path in folder.glob("payload-*.bin"))
    return sorted(PayloadFile(int(match[1]), int(match[2]), path) for match, path in found if match)


@dataclass(slots=True)
class PackedGroup:
    """A group in a payload."""

    group: ScoredGroup
    head: bytes = b""  # msgpack of the group without text; each array is replaced by its length
    arrays: dict[str, list[NDArray[Any]]] = field(
        default_factory=lambda: {IDS: [], LOGPROBS: []}
    )  # by type, in order

    @classmethod
    def of(cls, group: ScoredGroup) -> PackedGroup:
        """Pack a group."""
        packed = cls(group)
        rollout = group.rollout
        silent = tuple(replace(completion, text="") for completion in rollout.completions)
        packed.head = pack(replace(group, rollout=replace(rollout, completions=silent)), packed._put)
        return packed

    def _put(self, array: NDArray[Any]) -> int:
        self.arrays[array.dtype.str].append(array)
        return len(array)


class StepEncoder:
    """Encode payloads in one reused buffer: allocating two megabytes costs more than the copy."""

    def __init__(self) -> None:
        self._buffer = np.empty(0, np.uint8)
        self._packed: dict[str, PackedGroup] = {}  # of groups that wait for their step, by id

    def prepare(self, group: ScoredGroup) -> None:
        """Pack a group on arrival: packing a whole step at once takes as long as a fast disk's write."""
        self._packed[group.group_id] = PackedGroup.of(group)

    def discard(self, group_ids: Iterable[str]) -> None:
        """Discard packed groups that have ended."""
        for group_id in group_ids:
            self._packed.pop(group_id, None)

    def encode(self, step: int, groups: Sequence[ScoredGroup], advantages: Advantages) -> memoryview:
        """Encode the payload of one step, the groups in the order of training. The next call reuses its memory.

        Format: the length of a msgpack map (u32), the map, all token ids (i32), all log-probabilities (f32);
        little-endian, concatenated. In the map each group is its own msgpack, with the length of each array in its
        place. So each array is copied once: for a step of two megabytes, nesting the wire's bytes would take as long as
        the disk does.
        """
        packed = [self._known(group) for group in groups]
        arrays = {
            dtype: [array for one in packed for array in one.arrays[dtype]] for dtype in (IDS, LOGPROBS)
        }
        sizes = {dtype: sum(map(len, own)) * np.dtype(dtype).itemsize for dtype, own in arrays.items()}
        head = msgpack.packb(
            {
                "schema": PAYLOAD_SCHEMA,
                "step": step,
                "ids_bytes": sizes[IDS],
                "groups": [one.head for one in packed],
                "advantages": [list(of_group) for of_group in advantages],
            }
        )
        position = _HEAD_BYTES.size + len(head)
        payload = self._room(position + sum(sizes.values()))
        payload[:position] = np.frombuffer(_HEAD_BYTES.pack(len(head)) + head, np.uint8)
        for dtype, own in arrays.items():
            np.concatenate(own, out=payload[position : position + sizes[dtype]].view(dtype))
            position += sizes[dtype]
        return payload.data

    def _known(self, group: ScoredGroup) -> PackedGroup:
        known = self._packed.get(group.group_id)
        # It may have arrived again, with other scores.
        return known if known is not None and known.group is group else PackedGroup.of(group)

    def _room(self, size: int) -> NDArray[np.uint8]:
        if len(self._buffer) < size:
            self._buffer = np.empty(size, np.uint8)
        return self._buffer[:size]


def read_step(folder: Path, record: Mapping[str, Any]) -> tuple[list[ScoredGroup], list[list[float | None]]]:
    """Read groups and advantages of a step, in training order.

    Every completion's `text` is "": `generators.decoding` decodes it from the token ids.

    Args:
        folder: the journal's.
        record: the step's, from `Ledger.steps`, or one of `Ledger.collected`.
    Raises:
        PayloadGone: the payload's file is missing.
        JournalError: the payload is damaged or unreadable.
    """
    where = f"{folder / record['file']}: {_named(record)}"
    return decode_step(read_payload(folder, record), where)


def decode_step(payload: bytes, where: str) -> tuple[list[ScoredGroup], list[list[float | None]]]:
    """Decode the output of `StepEncoder.encode`; every completion's `text` is "".

    Args:
        payload: of one step.
        where: the payload's name in errors.
    Raises:
        JournalError: it is unreadable.
    """
    ids_at = _HEAD_BYTES.size + _HEAD_BYTES.unpack_from(payload)[0]
    tree = msgpack.unpackb(payload[_HEAD_BYTES.size : ids_at])
    if tree["schema"] not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise JournalError(f"{where} has schema version {tree['schema']}, this program reads {known}")
    positions = {IDS: ids_at, LOGPROBS: ids_at + tree["ids_bytes"]}

    def get(count: int, dtype: str) -> NDArray[Any]:
        start = positions[dtype]
        positions[dtype] = start + count * np.dtype(dtype).itemsize
        return np.frombuffer(payload[start : positions[dtype]], dtype)

    try:
        return [group_of(group, tree["schema"], get) for group in tree["groups"]], tree["advantages"]
    except BadMessage as error:
        raise JournalError(f"{where} can't be decoded: {error}") from error


def read_payload(folder: Path, record: Mapping[str, Any]) -> bytes:
    """Read the bytes of a step's payload, and check their checksum. Raises as `read_step` does."""
    path = folder / record["file"]
    where = f"{path}: {_named(record)}"
    try:
        with path.open("rb") as stream:
            stream.seek(record["offset"])
            payload: bytes = stream.read(record["length"])
    except FileNotFoundError:
        raise PayloadGone(
            f"{where} is gone with its file: retention (learner.journal) removes what checkpoints cover"
        ) from None
    except OSError as error:
        raise JournalError(f"{where} can't be read: {error.strerror}") from error
    if len(payload) != record["length"] or zlib.crc32(payload) != record["crc32"]:
        raise JournalError(
            f"{where} is damaged: {record['length']} bytes from byte {record['offset']} on have "
            "changed since they were written"
        )
    return payload


def _named(record: Mapping[str, Any]) -> str:
    """Return a payload's name in errors."""
    if record.get("kind") == "collected":
        return f"the payload of {len(record['ids'])} collected groups from {record['ids'][0]} on"
    return f"the payload of step {step_number(record)}"


class PayloadWriter:
    """Writes the payload files of one incarnation of the learner. The disk's errors reach the caller as OSError."""

    def __init__(self, folder: Path, fence: int, *, segment_mb: int) -> None:
        self._folder = folder
        self._fence = fence
        self._limit = segment_mb * MIB
        self._number = 0
        self._stream: BinaryIO | None = None
        self._size = 0

    @property
    def current(self) -> Path | None:
        """The current payload file; None before the first payload."""
        return None if self._stream is None else Path(self._stream.name)

    def append(self, payload: bytes | memoryview) -> tuple[str, int]:
        """Write one payload; returns, once it is on disk, the file's name and the offset in bytes."""
        stream = self._stream
        if stream is None or (self._size and self._size + len(payload) > self._limit):
            stream = self._begin_file()
        offset = self._size
        write_all(stream, payload)
        os.fsync(stream.fileno())
        self._size += len(payload)
        return Path(stream.name).name, offset

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()

    def _begin_file(self) -> BinaryIO:
        self.close()
        path = self._folder / f"payload-{self._fence:06d}-{self._number:03d}.bin"
        self._stream = path.open("xb", buffering=0)
        sync(self._folder)
        self._number += 1
        self._size = 0
        return self._stream


def group_of(packed: bytes, schema: int, get: Get) -> ScoredGroup:
    """Decode a group of a payload of that schema; every completion's text is "". Raises BadMessage.

    Args:
        get: called for the arrays of each type, in order.
    """
    if schema == PAYLOAD_SCHEMA:
        return unpack(packed, ScoredGroup, get)
    return built(checked(lambda: tree_of(msgpack.unpackb(packed), get)), ScoredGroup)
