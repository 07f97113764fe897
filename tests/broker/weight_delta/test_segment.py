"""The coding of one segment: bits in, the same bits out, whatever they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from broker.weight_delta.segment import BadDelta, Streams, encode, overwrite
from tests.support.weight_files import bfloat16

ZEROS = np.zeros(1000, np.uint16)
WIDTHS = [np.uint8, np.uint16, np.uint32, np.uint64]


def entropy_bits(numbers: NDArray[Any]) -> float:
    """Bits in all of `numbers`, each coded by how often it occurs among them: the bound of a coder without context."""
    _, counts = np.unique(numbers, return_counts=True)
    return float(-(counts * np.log2(counts / counts.sum())).sum())


@st.composite
def pairs(draw: st.DrawFn) -> tuple[NDArray[Any], NDArray[Any]]:
    dtype = np.dtype(draw(st.sampled_from(WIDTHS)))
    size = draw(st.integers(0, 3000))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    old = chance.integers(0, 2 ** (8 * dtype.itemsize), size, dtype=dtype)
    new = old.copy()
    changed = chance.random(size) < draw(st.sampled_from([0.0, 0.001, 0.02, 0.5, 1.0]))
    new[changed] = chance.integers(0, 2 ** (8 * dtype.itemsize), int(changed.sum()), dtype=dtype)
    return old, new


@settings(max_examples=300)
@given(pairs())
def test_what_was_coded_may_be_written_twice(pair: tuple[NDArray[Any], NDArray[Any]]) -> None:
    old, new = pair
    streams = encode(old, new)
    assert streams.changed == int((old != new).sum())
    held = old.copy()
    for _ in range(2):
        overwrite(held, streams)
        assert held.tobytes() == new.tobytes()


BITS = {
    "one element, the last": ([7] * 1000, [7] * 999 + [8]),
    "the first": ([7, 7], [8, 7]),
    "a NaN's payload": ([0x7FC0, 0x7FC1], [0x7FC1, 0x7FC1]),
    "a NaN's sign": ([0x7FC0], [0xFFC0]),
    "zero's sign": ([0x0000, 0x3F80], [0x8000, 0x3F80]),
    "nothing": ([0x7FC0, 0x8000, 1], [0x7FC0, 0x8000, 1]),
    "all": ([1, 2, 3], [4, 5, 6]),
    "no element": ([], []),
}


@pytest.mark.parametrize("name", BITS)
def test_bits_count_and_not_what_they_mean_as_numbers(name: str) -> None:
    old, new = (np.array(side, np.uint16) for side in BITS[name])
    overwrite(old, encode(old, new))
    assert old.tolist() == new.tolist()


def test_gaps_of_every_size_arrive() -> None:
    positions = np.cumsum([0, 1, 255, 256, 257, 65_535, 65_536, 65_537])
    old = np.zeros(positions[-1] + 1, np.uint8)
    new = old.copy()
    new[positions] = 1
    streams = encode(old, new)
    assert len(streams.gaps) == 3
    overwrite(old, streams)
    assert np.flatnonzero(old).tolist() == positions.tolist()


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("step", "share", "most"), [(1e-6, 0.02, 1.03), (1e-5, 0.14, 1.03), (1e-4, 0.61, 1.1)]
)
def test_changes_of_random_bfloat16_weights_take_little_more_than_the_entropy_of_gaps_and_values(
    step: float, share: float, most: float
) -> None:
    chance = np.random.default_rng(0)
    weights = chance.normal(0.0, 0.02, 2_000_000).astype(np.float32)
    noise = chance.uniform(-step, step, weights.size).astype(np.float32)
    old, new = bfloat16(weights), bfloat16(weights + noise)
    streams = encode(old, new)
    positions = np.flatnonzero(old != new)
    assert streams.changed / old.size == pytest.approx(share, rel=0.2)
    bound = entropy_bits(np.diff(positions, prepend=-1)) + entropy_bits(new[positions])
    assert 1.0 <= 8 * streams.size_bytes / bound < most
    if streams.changed <= 0.02 * old.size:
        assert streams.size_bytes <= 0.03 * old.nbytes


FAULTS: dict[str, tuple[Callable[[Streams], Streams], str]] = {
    "a plane of values less": (lambda right: replace(right, values=right.values[:1]), "does not fit"),
    "no gaps": (lambda right: replace(right, gaps=()), "does not fit"),
    "more than there are": (lambda right: replace(right, changed=1001), "does not fit"),
    "fewer than were coded": (lambda right: replace(right, changed=10), "another length"),
    "no frame": (lambda right: replace(right, gaps=[b"x"]), "damaged"),
    "a frame more": (lambda right: replace(right, gaps=[right.gaps[0] * 2]), "damaged"),
    "of a longer segment": (
        lambda _: encode(np.repeat(ZEROS, 2), np.repeat(np.array([0, 1], np.uint16), 1000)),
        "beyond its end",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_delta_that_does_not_fit_is_refused_and_no_other_error_comes_of_it(fault: str) -> None:
    spoil, said = FAULTS[fault]
    with pytest.raises(BadDelta, match=said):
        overwrite(ZEROS.copy(), spoil(encode(ZEROS, np.arange(1000, dtype=np.uint16))))
