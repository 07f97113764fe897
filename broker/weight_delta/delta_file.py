"""This module makes a file of what differs between two versions of the weights, and a version of a base and a chain.

In: two safetensors files of one layout. Out: one file with the changed elements and a checksum of every resulting
tensor:

    MAGIC | streams of segment 0, 1, ... | index (msgpack) | length of the index, 8 bytes

Made by the learner's relay, applied by the generators' receiver, one segment in memory at a time. The base is never
changed. A file that can't be made or applied raises; what lies at the target then is no version, and the caller removes
it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgpack
import numpy as np
import xxhash
from numpy.typing import NDArray

from broker.weight_delta.layout import Extent, Layout, NoLayout, read_layout
from broker.weight_delta.segment import BadDelta, Streams, encode, overwrite

MAGIC = b"millrace delta 1\n"
LENGTH_BYTES = 8
SUM_BYTES = 16  # of a tensor's checksum: XXH3, 128 bits. It finds accidents; whoever may write to Redis may do anything
TYPES = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a delta has become."""

    size_bytes: int
    elements: int  # of the whole file
    changed: int


class TensorSums:
    """The checksum of each tensor, of bytes that come in the order in which they lie in the file."""

    def __init__(self, layout: Layout) -> None:
        self._tensors = layout.tensors
        self._sums = bytearray()
        self._hasher = xxhash.xxh3_128()
        self._at = len(layout.head)

    def update(self, data: memoryview) -> None:
        """Take the next bytes of the file."""
        while data:
            end = self._tensors[len(self._sums) // SUM_BYTES].end
            part = data[: end - self._at]
            self._hasher.update(part)
            self._at += len(part)
            data = data[len(part) :]
            if self._at == end:
                self._sums += self._hasher.digest()
                self._hasher.reset()

    @property
    def digests(self) -> bytes:
        """Return the checksums of all tensors one behind the other, once all bytes have come."""
        missing = len(self._tensors) - len(self._sums) // SUM_BYTES  # empty ones at the end
        return bytes(self._sums) + missing * xxhash.xxh3_128_digest(b"")


def write_delta(base: int, new: int, target: Path) -> Made:
    """Write what makes the open file `new` of the open file `base`.

    Raises:
        NoLayout: one is no safetensors file, or their headers differ: there is no delta of them.
        OSError: a file can't be read or written.
    """
    layout = read_layout(new)
    if read_layout(base).head != layout.head:
        raise NoLayout("its tensors have other names, types or shapes than those of the version before")
    sums, segments, changed = TensorSums(layout), [], 0
    with target.open("wb") as stream:
        stream.write(MAGIC)
        for segment in layout.segments:
            before, after = _read(base, segment), _read(new, segment)
            streams = encode(before, after)
            for coded in (*streams.gaps, *streams.values):
                stream.write(coded)
            segments.append([streams.changed, [*map(len, streams.gaps)], [*map(len, streams.values)]])
            changed += streams.changed
            sums.update(after.data.cast("B"))
        index = msgpack.packb(
            {"layout": layout.fingerprint, "sums": sums.digests, "segments": segments}, use_bin_type=True
        )
        stream.write(index + len(index).to_bytes(LENGTH_BYTES, "little"))
        size_bytes = stream.tell()
    elements = sum(tensor.size_bytes // tensor.width for tensor in layout.tensors)
    return Made(size_bytes=size_bytes, elements=elements, changed=changed)


def apply_deltas(base: Path, deltas: Sequence[Path], target: Path) -> None:
    """Write to `target` what a chain of deltas makes of `base`, and compare each resulting tensor's checksum.

    Raises:
        BadDelta: a delta is damaged or belongs to another base, or a tensor is not what it should be.
        OSError: a file can't be read or written.
    """
    with ExitStack() as files:
        source = files.enter_context(base.open("rb"))
        try:
            layout = read_layout(source.fileno())
        except NoLayout as error:
            raise BadDelta(f"{base} is no base of a delta: {error}") from error
        chain = [Delta(files.enter_context(delta.open("rb")), layout) for delta in deltas]
        sums = TensorSums(layout)
        stream = files.enter_context(target.open("wb"))
        stream.write(layout.head)
        for number, segment in enumerate(layout.segments):
            elements = _read(source.fileno(), segment)
            for delta in chain:
                overwrite(elements, delta.streams(number))
            data = elements.data.cast("B")
            sums.update(data)
            stream.write(data)
        _compare(layout, sums.digests, chain[-1].sums)


class Delta:
    """An open delta, whose segments are read as they are asked for.

    Raises:
        BadDelta: it is damaged, or belongs to weights of another layout.
    """

    def __init__(self, stream: BinaryIO, layout: Layout) -> None:
        self._stream = stream
        end = os.fstat(stream.fileno()).st_size - LENGTH_BYTES
        length = int.from_bytes(os.pread(stream.fileno(), LENGTH_BYTES, max(end, 0)), "little")
        try:
            if stream.read(len(MAGIC)) != MAGIC or not 0 <= length <= end - len(MAGIC):
                raise BadDelta("the file is no delta, or cut off")
            index: dict[str, Any] = msgpack.unpackb(os.pread(stream.fileno(), length, end - length))
            self.sums: bytes = index["sums"]
            self._segments = [
                (int(changed), [*map(int, gaps)], [*map(int, values)])
                for changed, gaps, values in index["segments"]
            ]
            is_of_layout = index["layout"] == layout.fingerprint
        except (ValueError, KeyError, TypeError, msgpack.UnpackException) as error:
            raise BadDelta(f"the index of a delta can't be read: {error}") from error
        if not is_of_layout or len(self._segments) != len(layout.segments):
            raise BadDelta("the delta belongs to weights of other names, types or shapes")
        self._offsets = list(self._lay_out(end - length))

    def streams(self, number: int) -> Streams:
        """Read the delta of one segment."""
        changed, gaps, values = self._segments[number]
        at, read = self._offsets[number], []
        for size in (*gaps, *values):
            read.append(os.pread(self._stream.fileno(), size, at))
            at += size
        return Streams(changed=changed, gaps=read[: len(gaps)], values=read[len(gaps) :])

    def _lay_out(self, end: int) -> Iterator[int]:
        at = len(MAGIC)
        for changed, gaps, values in self._segments:
            yield at
            if min((changed, *gaps, *values)) < 0:
                raise BadDelta("the index of a delta has a negative size")
            at += sum((*gaps, *values))
        if at != end:
            raise BadDelta("the streams of a delta are longer or shorter than its index says")


def _read(descriptor: int, segment: Extent) -> NDArray[Any]:
    """Read a segment's elements into memory of their own."""
    data = bytearray(segment.size_bytes)
    view, at = memoryview(data), 0
    while at < len(data):
        count = os.preadv(descriptor, [view[at:]], segment.begin + at)
        if not count:
            raise OSError(f"the file ends at byte {segment.begin + at}, before its tensors do")
        at += count
    return np.frombuffer(data, TYPES[segment.width])


def _compare(layout: Layout, found: bytes, expected: bytes) -> None:
    if found == expected:
        return
    differing = [
        name
        for number, name in enumerate(layout.names)
        if found[number * SUM_BYTES : (number + 1) * SUM_BYTES]
        != expected[number * SUM_BYTES : (number + 1) * SUM_BYTES]
    ]
    raise BadDelta(
        f"{len(differing)} of {len(layout.names)} tensors have another checksum than they should"
        + (f", {differing[0]} first" if differing else "")
    )
