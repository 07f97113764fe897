"""Bundles: the way from the weights that are held, the seal of a chunk, and what is read back of what was written."""

from __future__ import annotations

import json

import pytest

from broker.weight_exchange.bundles import (
    Bundle,
    Manifest,
    WeightsRequest,
    manifest_text,
    read_manifest_text,
    read_request_text,
    request_text,
    sealed,
    unsealed,
    way,
)


def bundle(name: str, version: int, base: str, size_bytes: int) -> Bundle:
    sizes = {"size_bytes": size_bytes, "chunk_bytes": 4}
    return Bundle(name=name, version=version, checksum=f"sum {version}", base=base, **sizes)


def delta(base: int, version: int, size_bytes: int = 10) -> Bundle:
    return bundle(f"delta-{base}-{version}", version, f"sum {base}", size_bytes)


def full(version: int, size_bytes: int = 100) -> Bundle:
    return bundle(f"full-{version}", version, "", size_bytes)


def manifest(*deltas: Bundle, version: int = 7, base_version: Bundle | None = None) -> Manifest:
    return Manifest(
        version=version, checksum=f"sum {version}", size_bytes=100, deltas=deltas, anchor=base_version
    )


CHAIN = (delta(4, 5), delta(5, 6), delta(6, 7))
WHOLE = "delta-4-5 delta-5-6 delta-6-7"
# Deltas and a base version; what is held and what the engine has; the bundles on the way
WAYS: dict[str, tuple[tuple[Bundle, ...], Bundle | None, str, int, str | None]] = {
    "the newest": (CHAIN, None, "sum 7", 6, ""),
    "one behind": (CHAIN, None, "sum 6", 6, "delta-6-7"),
    "three behind": (CHAIN, None, "sum 4", 4, WHOLE),
    "behind the chain": (CHAIN, None, "sum 3", 3, None),
    "nothing is held": (CHAIN, None, "", -1, None),
    "a base version alone": ((), full(7), "", -1, "full-7"),
    "a base version, and the chain from it": (CHAIN, full(5), "", -1, "full-5 delta-5-6 delta-6-7"),
    "the chain, where a base version is dearer": (CHAIN, full(7), "sum 4", 4, WHOLE),
    "a base version that is cheaper than the chain": (CHAIN, full(7, 20), "sum 4", 4, "full-7"),
    "a base version from which nothing goes on": (CHAIN, full(3), "sum 1", 1, "full-3"),
    "one that is no newer than the engine's": (CHAIN, full(3), "", 3, None),
    "one that is held": (CHAIN, full(3), "sum 3", 2, None),
}


@pytest.mark.parametrize("name", WAYS)
def test_the_way_takes_the_fewest_bytes_to_the_newest_version(name: str) -> None:
    deltas, base_version, held, above, names = WAYS[name]
    found = way(manifest(*deltas, base_version=base_version), held=held, above=above)
    assert (None if found is None else " ".join(bundle.name for bundle in found)) == names


def test_a_bundle_is_cut_into_chunks_of_which_the_last_is_short() -> None:
    one = delta(1, 2, 10)
    assert (one.chunks, one.all_chunks) == (3, 0b111)
    assert [one.extent(chunk) for chunk in range(3)] == [(0, 4), (4, 4), (8, 2)]


def test_only_what_was_sealed_for_this_place_is_unsealed() -> None:
    one = delta(1, 2, 10)
    value = sealed(one.name, 1, b"data")
    assert unsealed(one, 1, value) == b"data"
    assert unsealed(one, 0, value) is None  # another place
    assert unsealed(delta(2, 3), 1, value) is None  # another bundle
    assert unsealed(one, 2, sealed(one.name, 2, b"data")) is None  # longer than the last chunk
    for bit in range(8 * len(value)):
        damaged = bytearray(value)
        damaged[bit // 8] ^= 1 << bit % 8
        assert unsealed(one, 1, bytes(damaged)) is None
    assert unsealed(one, 1, b"") is None


def test_texts_are_read_back_as_they_were() -> None:
    given = manifest(*CHAIN, base_version=full(5))
    assert read_manifest_text(manifest_text(given)) == given
    request = WeightsRequest(count=3, version=-1, held="sum 1", lacks={"full-7": 1 << 5000, "delta-6-7": 0})
    assert read_request_text(request_text(request)) == request


def test_a_request_lacks_all_of_a_bundle_that_it_does_not_name_and_never_more_than_there_is() -> None:
    request = WeightsRequest(count=1, version=0, held="", lacks={"delta-1-2": 0b1010})
    assert (request.chunks_of(delta(1, 2)), request.chunks_of(delta(2, 3))) == (0b010, 0b111)


@pytest.mark.parametrize(
    "damage",
    [
        {"size_bytes": 0},
        {"chunk_bytes": 0},
        {"size_bytes": 10**15, "chunk_bytes": 1},  # more chunks than anybody cuts
        {"name": "../../weights"},
    ],
    ids=str,
)
def test_a_bundle_that_nobody_made_is_none(damage: dict[str, object]) -> None:
    text = json.loads(manifest_text(manifest(*CHAIN)))
    text["deltas"][1] |= damage
    assert read_manifest_text(json.dumps(text)) is None
