"""This module reads how a file of weights is laid out: its tensors, and the segments in which deltas are coded.

In: a safetensors file (https://huggingface.co/docs/safetensors, "Format": eight bytes of length, a header of JSON, the
tensors' bytes). Out: a `Layout`. Two versions have a delta only if their headers are equal byte for byte: the same
names, types and shapes in the same places. What is not laid out so raises `NoLayout`, and travels as full weights.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import xxhash

from broker.errors import Permanent

SEGMENT_BYTES = 16 << 20  # a multiple of every element's width; a delta takes a few times as much memory
LENGTH_BYTES = 8
HEADER_LIMIT = 100_000_000  # safetensors' own
WIDTHS = {  # bytes of an element, by safetensors' names; all others are taken byte by byte, which is right for any
    **dict.fromkeys(("BF16", "F16", "I16", "U16"), 2),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F64", "I64", "U64"), 8),
}


class NoLayout(Permanent):
    """A file is not one of safetensors whose tensors lie side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """A part of a file: a tensor, or a segment."""

    begin: int  # bytes from the start of the file
    end: int
    width: int  # bytes of an element

    @property
    def size_bytes(self) -> int:
        """Return how long it is."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The parts of a file of weights, in the order in which they lie there."""

    head: bytes  # everything before the tensors
    tensors: tuple[Extent, ...]
    names: tuple[str, ...]  # of the tensors
    segments: tuple[Extent, ...]

    @property
    def size_bytes(self) -> int:
        """Return the size of the whole file."""
        return self.tensors[-1].end if self.tensors else len(self.head)

    @property
    def fingerprint(self) -> bytes:
        """Return what two files of the same layout have in common."""
        return xxhash.xxh3_128_digest(self.head)


def read_layout(descriptor: int) -> Layout:
    """Read the layout of an open file.

    Raises:
        NoLayout: it is no safetensors file, or its tensors overlap or leave holes.
        OSError: it can't be read.
    """
    size_bytes = os.fstat(descriptor).st_size
    length = int.from_bytes(os.pread(descriptor, LENGTH_BYTES, 0), "little")
    if size_bytes < LENGTH_BYTES or length > min(HEADER_LIMIT, size_bytes - LENGTH_BYTES):
        raise NoLayout("it does not begin with a header of safetensors")
    head = os.pread(descriptor, LENGTH_BYTES + length, 0)
    named = _tensors(head)
    end = len(head)
    for name, tensor in named:
        if tensor.begin != end or tensor.end < end or tensor.size_bytes % tensor.width:
            raise NoLayout(f"its tensor {name} does not lie right behind the one before it")
        end = tensor.end
    if end != size_bytes:
        raise NoLayout(f"its tensors end at byte {end} of {size_bytes}")
    tensors = tuple(tensor for _, tensor in named)
    return Layout(
        head=head, tensors=tensors, names=tuple(name for name, _ in named), segments=_segments(tensors)
    )


def _tensors(head: bytes) -> list[tuple[str, Extent]]:
    try:
        header: dict[str, Any] = json.loads(head[LENGTH_BYTES:])
        found = []
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            begin, end = (len(head) + int(offset) for offset in tensor["data_offsets"])
            found.append((name, Extent(begin=begin, end=end, width=WIDTHS.get(tensor["dtype"], 1))))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NoLayout(f"its header of safetensors can't be read: {error}") from error
    return sorted(found, key=lambda pair: (pair[1].begin, pair[1].end))


def _segments(tensors: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """Join neighbours of one width, and cut what is longer than a segment: coding gets better with length, up to it."""
    runs: list[Extent] = []
    for tensor in tensors:
        if runs and runs[-1].width == tensor.width:
            runs[-1] = Extent(begin=runs[-1].begin, end=tensor.end, width=tensor.width)
        elif tensor.size_bytes:
            runs.append(tensor)
    return tuple(
        Extent(begin=begin, end=min(run.end, begin + SEGMENT_BYTES), width=run.width)
        for run in runs
        for begin in range(run.begin, run.end, SEGMENT_BYTES)
    )
