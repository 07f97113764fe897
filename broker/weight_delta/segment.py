"""Encode which elements of a segment have changed, and their new values.

In: a segment's old and new elements, as unsigned integers of their width: an element has changed where its bits have.
Out: streams, which `overwrite` decodes into the new elements on a copy of the old ones. Changed elements are
overwritten and never added or XORed, so applying a delta twice gives the same as once.

Positions are the gaps between changed elements, minus one, in order. Gaps and values are split into planes of bytes of
equal rank, and zstd compresses each plane: its Huffman coder does the work, giving frequent bytes few bits. Where
changes are random, a gap's low byte and the number of 256s above it are nearly independent, so the split costs little.
A float is first rotated left by its sign bit, which puts the whole exponent into one byte, and leaves the mantissa's
noise in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from broker.errors import Permanent

LEVEL = 1  # of zstd: higher levels search for repetitions, and there are none
TURNED = (2, 4)  # widths of elements that may be floats
MAX_GAP_PLANES = 4


class BadDelta(Permanent):
    """A delta is damaged, or belongs to other weights. Full weights still work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The encoded delta of one segment."""

    changed: int  # elements
    gaps: Sequence[bytes]  # planes, the lowest first
    values: Sequence[bytes]  # planes, one for each byte of an element

    @property
    def size_bytes(self) -> int:
        """Return the total size."""
        return sum(map(len, (*self.gaps, *self.values)))


def encode(old: NDArray[Any], new: NDArray[Any]) -> Streams:
    """Encode the delta from `old` to `new`, two arrays of one unsigned type and length."""
    positions = np.flatnonzero(old != new)
    if not positions.size:
        return Streams(changed=0, gaps=(), values=())
    gaps = (np.diff(positions, prepend=-1) - 1).astype(np.uint32)
    planes = max(1, (int(gaps.max()).bit_length() + 7) // 8)
    coder = zstandard.ZstdCompressor(level=LEVEL, write_content_size=True, write_checksum=False)
    return Streams(
        changed=positions.size,
        gaps=[coder.compress(plane) for plane in _planes(gaps, planes)],
        values=[coder.compress(plane) for plane in _planes(_turned(new[positions]), new.itemsize)],
    )


def overwrite(elements: NDArray[Any], streams: Streams) -> None:
    """Overwrite the changed elements of `elements` with the new values, in place.

    Raises:
        BadDelta: the streams do not fit such a segment.
    """
    count, width = streams.changed, elements.itemsize
    if not count:
        return
    if not (
        0 < len(streams.gaps) <= MAX_GAP_PLANES and len(streams.values) == width and count <= elements.size
    ):
        raise BadDelta("a segment's delta does not fit the segment")
    gaps = _joined([_plane(coded, count) for coded in streams.gaps], np.dtype(np.uint32))
    positions = np.cumsum(gaps.astype(np.int64) + 1) - 1
    if int(positions[-1]) >= elements.size:
        raise BadDelta("a segment's delta reaches beyond its end")
    elements[positions] = _turned_back(
        _joined([_plane(coded, count) for coded in streams.values], elements.dtype)
    )


def _planes(numbers: NDArray[Any], count: int) -> list[bytes]:
    """Return the bytes of rank 0, 1, ... of all numbers."""
    return [(numbers >> numbers.dtype.type(8 * rank)).astype(np.uint8).tobytes() for rank in range(count)]


def _joined(planes: Sequence[NDArray[np.uint8]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Undo `_planes`."""
    numbers = np.zeros(planes[0].size, dtype)
    for rank, plane in enumerate(planes):
        numbers |= plane.astype(dtype) << dtype.type(8 * rank)
    return numbers


def _plane(coded: bytes, count: int) -> NDArray[np.uint8]:
    try:
        if zstandard.frame_content_size(coded) != count:  # before memory is allocated for a damaged frame
            raise BadDelta("a stream of a delta has another length than it should")
        plane = zstandard.ZstdDecompressor().decompress(coded, max_output_size=count, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BadDelta(f"a stream of a delta is damaged: {error}") from error
    if len(plane) != count:
        raise BadDelta("a stream of a delta has another length than it should")
    return np.frombuffer(plane, np.uint8)


def _turned(values: NDArray[Any]) -> NDArray[Any]:
    if values.itemsize not in TURNED:
        return values
    one, rest = values.dtype.type(1), values.dtype.type(8 * values.itemsize - 1)
    turned: NDArray[Any] = (values << one) | (values >> rest)
    return turned


def _turned_back(values: NDArray[Any]) -> NDArray[Any]:
    if values.itemsize not in TURNED:
        return values
    one, rest = values.dtype.type(1), values.dtype.type(8 * values.itemsize - 1)
    turned: NDArray[Any] = (values >> one) | (values << rest)
    return turned
