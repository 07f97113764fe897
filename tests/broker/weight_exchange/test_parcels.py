"""Parcels: the way from the weights that are held, the seal of a chunk, and what is read back of what was written."""

from __future__ import annotations

import json

import pytest

from broker.weight_exchange.parcels import (
    Manifest,
    Parcel,
    Wish,
    manifest_text,
    read_manifest_text,
    read_wish_text,
    sealed,
    unsealed,
    way,
    wish_text,
)


def delta(base: int, version: int, size_bytes: int = 10) -> Parcel:
    return Parcel(
        name=f"delta-{base}-{version}",
        version=version,
        checksum=f"sum {version}",
        base=f"sum {base}",
        size_bytes=size_bytes,
        chunk_bytes=4,
    )


def full(version: int, size_bytes: int = 100) -> Parcel:
    return Parcel(
        name=f"full-{version}",
        version=version,
        checksum=f"sum {version}",
        base="",
        size_bytes=size_bytes,
        chunk_bytes=4,
    )


def manifest(*deltas: Parcel, version: int = 7, anchor: Parcel | None = None) -> Manifest:
    return Manifest(version=version, checksum=f"sum {version}", size_bytes=100, deltas=deltas, anchor=anchor)


CHAIN = (delta(4, 5), delta(5, 6), delta(6, 7))
WAYS = {
    "the newest": (manifest(*CHAIN), "sum 7", 6, []),
    "one behind": (manifest(*CHAIN), "sum 6", 6, ["delta-6-7"]),
    "three behind": (manifest(*CHAIN), "sum 4", 4, ["delta-4-5", "delta-5-6", "delta-6-7"]),
    "behind the chain": (manifest(*CHAIN), "sum 3", 3, None),
    "nothing is held": (manifest(*CHAIN), "", -1, None),
    "an anchor alone": (manifest(anchor=full(7)), "", -1, ["full-7"]),
    "an anchor, and the chain from it": (
        manifest(*CHAIN, anchor=full(5)),
        "",
        -1,
        ["full-5", "delta-5-6", "delta-6-7"],
    ),
    "the chain, where an anchor is dearer": (
        manifest(*CHAIN, anchor=full(7)),
        "sum 4",
        4,
        ["delta-4-5", "delta-5-6", "delta-6-7"],
    ),
    "an anchor that is cheaper than the chain": (
        manifest(*CHAIN, anchor=full(7, 20)),
        "sum 4",
        4,
        ["full-7"],
    ),
    "an anchor from which nothing goes on": (manifest(*CHAIN, anchor=full(3)), "sum 1", 1, ["full-3"]),
    "one that is no newer than the engine's": (manifest(*CHAIN, anchor=full(3)), "", 3, None),
    "one that is held": (manifest(*CHAIN, anchor=full(3)), "sum 3", 2, None),
}


@pytest.mark.parametrize("name", WAYS)
def test_the_way_takes_the_fewest_bytes_to_the_newest_version(name: str) -> None:
    given, held, above, names = WAYS[name]
    found = way(given, held=held, above=above)
    assert (None if found is None else [parcel.name for parcel in found]) == names


def test_a_parcel_is_cut_into_chunks_of_which_the_last_is_short() -> None:
    parcel = delta(1, 2, 10)
    assert (parcel.chunks, parcel.all_chunks) == (3, 0b111)
    assert [parcel.extent(chunk) for chunk in range(3)] == [(0, 4), (4, 4), (8, 2)]


def test_only_what_was_sealed_for_this_place_is_unsealed() -> None:
    parcel = delta(1, 2, 10)
    value = sealed(parcel.name, 1, b"data")
    assert unsealed(parcel, 1, value) == b"data"
    assert unsealed(parcel, 0, value) is None  # another place
    assert unsealed(delta(2, 3), 1, value) is None  # another parcel
    assert unsealed(parcel, 2, sealed(parcel.name, 2, b"data")) is None  # longer than the last chunk
    for bit in range(8 * len(value)):
        damaged = bytearray(value)
        damaged[bit // 8] ^= 1 << bit % 8
        assert unsealed(parcel, 1, bytes(damaged)) is None
    assert unsealed(parcel, 1, b"") is None


def test_texts_are_read_back_as_they_were() -> None:
    given = manifest(*CHAIN, anchor=full(5))
    assert read_manifest_text(manifest_text(given)) == given
    wish = Wish(count=3, version=-1, held="sum 1", lacks={"full-7": 1 << 5000, "delta-6-7": 0})
    assert read_wish_text(wish_text(wish)) == wish


def test_a_wish_lacks_all_of_a_parcel_that_it_does_not_name_and_never_more_than_there_is() -> None:
    wish = Wish(count=1, version=0, held="", lacks={"delta-1-2": 0b1010})
    assert (wish.chunks_of(delta(1, 2)), wish.chunks_of(delta(2, 3))) == (0b010, 0b111)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("no size", {"size_bytes": 0}),
        ("chunks of nothing", {"chunk_bytes": 0}),
        ("more chunks than anybody cuts", {"size_bytes": 10**15, "chunk_bytes": 1}),
        ("a path for a name", {"name": "../../weights"}),
    ],
)
def test_a_parcel_that_nobody_made_is_none(name: str, damage: dict[str, object]) -> None:
    text = json.loads(manifest_text(manifest(*CHAIN)))
    text["deltas"][1] |= damage
    assert read_manifest_text(json.dumps(text)) is None
