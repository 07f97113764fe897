"""Read the layout of a file of weights: its tensors, and the segments in which deltas are encoded.

In: the stream of a version's safetensors files (https://huggingface.co/docs/safetensors, "Format": eight bytes of
length, a header of JSON, the tensors' bytes). Out: a `Layout`. Two versions have a delta only if their headers are
equal byte for byte: the same names, types and shapes in the same places. Any other layout raises `NoLayout`, and those
weights travel whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from broker.errors import Permanent
from broker.weight_files import WeightStream

SEGMENT_BYTES = 16 << 20  # a multiple of every element's width; a delta takes a few times as much memory
LENGTH_BYTES = 8
HEADER_LIMIT = 100_000_000  # safetensors' own
WIDTHS = {  # bytes of an element, by safetensors' names; all others are treated as bytes, which is correct for any
    **dict.fromkeys(("BF16", "F16", "I16", "U16"), 2),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F64", "I64", "U64"), 8),
}


class NoLayout(Permanent):
    """The weights are no safetensors files with contiguous tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """A part of the stream: a tensor, or a segment."""

    begin: int  # bytes from the start of the stream
    end: int
    width: int  # bytes of an element

    @property
    def size_bytes(self) -> int:
        """Return the size."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The bytes before the tensors of a file."""

    begin: int  # of its file, bytes from the start of the stream
    data: bytes

    @property
    def end(self) -> int:
        """Return the position where the tensors begin."""
        return self.begin + len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The parts of a version's weights, in the order of the stream."""

    heads: tuple[Head, ...]  # of each file
    tensors: tuple[Extent, ...]
    names: tuple[str, ...]  # of the tensors
    segments: tuple[Extent, ...]

    @property
    def fingerprint(self) -> bytes:
        """Return a value that is equal for versions of the same layout."""
        return xxhash.xxh3_128_digest(b"".join(head.data for head in self.heads))

    @property
    def parts(self) -> list[tuple[int, Head | int]]:
        """Return the position of each head and each segment, in order; a segment by its number."""
        heads = [(head.begin, head) for head in self.heads]
        segments = [(segment.begin, number) for number, segment in enumerate(self.segments)]
        return sorted([*heads, *segments], key=lambda part: part[0])


def read_layout(stream: WeightStream) -> Layout:
    """Read the layout of a version's weights.

    Raises:
        NoLayout: a file is no safetensors file, or its tensors overlap or leave gaps.
        OSError: a file can't be read.
    """
    heads: list[Head] = []
    named: list[tuple[str, Extent]] = []
    segments: list[Extent] = []
    end = 0
    while end < stream.size_bytes or not heads:
        head = Head(begin=end, data=_head(stream, end))
        tensors = _tensors(head)
        end = head.end
        for name, tensor in tensors:
            if tensor.begin != end or tensor.end < end or tensor.size_bytes % tensor.width:
                raise NoLayout(f"its tensor {name} does not lie right behind the one before it")
            end = tensor.end
        if end > stream.size_bytes:
            raise NoLayout(f"its tensors end at byte {end} of {stream.size_bytes}")
        heads.append(head)
        named += tensors
        segments += _segments([tensor for _, tensor in tensors])
    return Layout(
        heads=tuple(heads),
        tensors=tuple(tensor for _, tensor in named),
        names=tuple(name for name, _ in named),
        segments=tuple(segments),
    )


def _head(stream: WeightStream, at: int) -> bytes:
    length = int.from_bytes(stream.read(LENGTH_BYTES, at), "little")
    left = stream.size_bytes - at
    if left < LENGTH_BYTES or length > min(HEADER_LIMIT, left - LENGTH_BYTES):
        raise NoLayout(f"there is no header of safetensors at byte {at}")
    return stream.read(LENGTH_BYTES + length, at)


def _tensors(head: Head) -> list[tuple[str, Extent]]:
    try:
        header: dict[str, Any] = json.loads(head.data[LENGTH_BYTES:])
        found = []
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            begin, end = (head.end + int(offset) for offset in tensor["data_offsets"])
            found.append((name, Extent(begin=begin, end=end, width=WIDTHS.get(tensor["dtype"], 1))))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NoLayout(f"its header of safetensors can't be read: {error}") from error
    return sorted(found, key=lambda pair: (pair[1].begin, pair[1].end))


def _segments(tensors: Sequence[Extent]) -> Iterator[Extent]:
    """Join a file's adjacent tensors of one width, and split what is longer than a segment.

    Longer inputs compress better, up to a segment's length.
    """
    runs: list[Extent] = []
    for tensor in tensors:
        if runs and runs[-1].width == tensor.width:
            runs[-1] = Extent(begin=runs[-1].begin, end=tensor.end, width=tensor.width)
        elif tensor.size_bytes:
            runs.append(tensor)
    for run in runs:
        for begin in range(run.begin, run.end, SEGMENT_BYTES):
            yield Extent(begin=begin, end=min(run.end, begin + SEGMENT_BYTES), width=run.width)
