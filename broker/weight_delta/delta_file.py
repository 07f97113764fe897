"""Write the delta between two versions of the weights to a file, and apply a chain of deltas to a base.

In: two versions of one layout. Out: one file with the changed elements and a checksum of every resulting tensor:

    MAGIC | streams of segment 0, 1, ... | index (msgpack) | length of the index, 8 bytes

Made by the learner's relay, applied by the generators' receiver, one segment in memory at a time. The base is never
changed. A failure raises; the file at the target is then invalid, and the caller removes it.
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

from broker.weight_delta.layout import Extent, Head, Layout, NoLayout, read_layout
from broker.weight_delta.segment import BadDelta, Streams, encode, overwrite
from broker.weight_files import WeightStream, part_name

MAGIC = b"millrace delta 1\n"
LENGTH_BYTES = 8
COPIED_BYTES = 16 << 20
SUM_BYTES = 16  # of a tensor's checksum: XXH3, 128 bits; against accidents, not against writers to Redis
TYPES = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A finished delta."""

    size_bytes: int
    elements: int  # of the whole file
    changed: int


class TensorSums:
    """The checksum of each tensor, of bytes that arrive in the stream's order."""

    def __init__(self, layout: Layout) -> None:
        self._tensors = layout.tensors
        self._sums = bytearray()
        self._hasher = xxhash.xxh3_128()
        self._taken = 0  # bytes of the current tensor so far

    def update(self, data: memoryview) -> None:
        """Add the next bytes of the tensors."""
        while data:
            size_bytes = self._tensors[len(self._sums) // SUM_BYTES].size_bytes
            part = data[: size_bytes - self._taken]
            self._hasher.update(part)
            self._taken += len(part)
            data = data[len(part) :]
            if self._taken == size_bytes:
                self._sums += self._hasher.digest()
                self._hasher.reset()
                self._taken = 0

    @property
    def digests(self) -> bytes:
        """Return the concatenated checksums of all tensors, once all bytes have arrived."""
        missing = len(self._tensors) - len(self._sums) // SUM_BYTES  # empty ones at the end
        return bytes(self._sums) + missing * xxhash.xxh3_128_digest(b"")


def write_delta(base: WeightStream, new: WeightStream, target: Path) -> Made:
    """Write the delta from the weights `base` to the weights `new`.

    Raises:
        NoLayout: a file is no safetensors file, or their headers differ: they have no delta.
        OSError: a file can't be read or written.
    """
    layout = read_layout(new)
    if read_layout(base).heads != layout.heads:
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


def apply_deltas(base: Sequence[Path], deltas: Sequence[Path], target: Path) -> None:
    """Apply a chain of deltas to `base`, write the resulting stream, and check each tensor's checksum.

    Args:
        base: files of the version that the first delta starts from.
        target: one file, whatever the number of files in `base`; `split` makes several of it.
    Raises:
        BadDelta: a delta is damaged or belongs to another base, or a resulting tensor has another checksum.
        OSError: a file can't be read or written.
    """
    with ExitStack() as files:
        source = files.enter_context(WeightStream(base))
        try:
            layout = read_layout(source)
        except NoLayout as error:
            raise BadDelta(f"{base[0]} is no base of a delta: {error}") from error
        chain = [Delta(files.enter_context(delta.open("rb")), layout) for delta in deltas]
        sums = TensorSums(layout)
        stream = files.enter_context(target.open("wb"))
        for _, part in layout.parts:
            if isinstance(part, Head):
                stream.write(part.data)
                continue
            elements = _read(source, layout.segments[part])
            for delta in chain:
                overwrite(elements, delta.streams(part))
            data = elements.data.cast("B")
            sums.update(data)
            stream.write(data)
        _compare(layout, sums.digests, chain[-1].sums)


def split(stream: Path, folder: Path) -> tuple[Path, ...]:
    """Make a version's files of their stream, and remove the stream.

    Files are copied one at a time from the stream's end, and the stream is truncated: this needs disk space for only
    one more file.

    Args:
        folder: the target, on the disk of `stream`; made if it is missing.
    Raises:
        OSError: a file can't be written.
    """
    folder.mkdir(exist_ok=True)
    with WeightStream([stream]) as whole:
        try:
            begins = [head.begin for head in read_layout(whole).heads]
        except NoLayout:  # the loader reports it
            begins = [0]
        files = tuple(folder / part_name(number, len(begins)) for number in range(len(begins)))
        end = whole.size_bytes
        for begin, file in list(zip(begins, files, strict=True))[:0:-1]:
            with file.open("wb") as target:
                for at in range(begin, end, COPIED_BYTES):
                    target.write(whole.read(min(COPIED_BYTES, end - at), at))
            os.truncate(stream, begin)
            end = begin
    stream.rename(files[0])
    return files


class Delta:
    """An open delta, whose segments are read on demand.

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


def _read(stream: WeightStream, segment: Extent) -> NDArray[Any]:
    """Read a segment's elements into newly allocated memory."""
    data = bytearray(segment.size_bytes)
    if (count := stream.read_into(memoryview(data), segment.begin)) != len(data):
        raise OSError(f"the weights end at byte {segment.begin + count}, before their tensors do")
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
