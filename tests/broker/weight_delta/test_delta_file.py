"""Deltas of whole files: chains, other layouts, and every kind of damage."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from broker.weight_delta import layout as layouts
from broker.weight_delta.delta_file import Made, apply_deltas, split, write_delta
from broker.weight_delta.layout import NoLayout, read_layout
from broker.weight_delta.segment import BadDelta
from broker.weight_files import FILE, WeightStream, part_name
from tests.support.weight_files import Tensors, bfloat16, made_up, write_tensors


@pytest.fixture
def versions(tmp_path: Path) -> list[Path]:
    return [write_tensors(tmp_path / f"v{number}", made_up(number)) for number in range(5)]


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors end inside of segments, and segments inside of tensors."""
    monkeypatch.setattr(layouts, "SEGMENT_BYTES", 4096)


def delta_of(base: Sequence[Path], new: Sequence[Path], target: Path) -> Made:
    with WeightStream(base) as old, WeightStream(new) as changed:
        return write_delta(old, changed, target)


def chain_of(versions: list[Path]) -> list[Path]:
    chain = [version.with_suffix(".delta") for version in versions[1:]]
    for base, new, delta in zip(versions, versions[1:], chain, strict=False):
        delta_of([base], [new], delta)
    return chain


def changes(old: int, new: int) -> int:
    pairs = zip(made_up(old).values(), made_up(new).values(), strict=True)
    return sum(int((before != after).sum()) for (_, before), (_, after) in pairs)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_chain_makes_its_last_version_of_its_base_byte_for_byte(versions: list[Path], length: int) -> None:
    chain = chain_of(versions)[:length]
    target = versions[0].with_name("made")
    before = versions[0].read_bytes()
    apply_deltas([versions[0]], chain, target)
    assert target.read_bytes() == versions[length].read_bytes()
    assert versions[0].read_bytes() == before
    # Each writes its values once more, and nothing reverts.
    apply_deltas([target], chain, target.with_name("again"))
    assert target.with_name("again").read_bytes() == versions[length].read_bytes()


def test_fifty_steps_of_adamw_arrive_bit_for_bit_by_one_chain(tmp_path: Path) -> None:
    """AdamW as in https://arxiv.org/abs/1711.05101, algorithm 2, without decay; the weights are kept in float32."""
    chance = np.random.default_rng(0)
    weights = chance.normal(0.0, 0.02, 50_000).astype(np.float32)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    versions, shares = [write_tensors(tmp_path / "v0", {"w": ("BF16", bfloat16(weights))})], []
    for step in range(1, 51):
        gradient = chance.normal(0.0, 1e-3, weights.size).astype(np.float32)
        first = 0.9 * first + 0.1 * gradient
        second = 0.95 * second + 0.05 * gradient**2
        ratio = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.95**step)) + 1e-8)
        weights = (weights - 1e-6 * ratio).astype(np.float32)
        versions.append(write_tensors(tmp_path / f"v{step}", {"w": ("BF16", bfloat16(weights))}))
        made = delta_of(versions[-2:-1], versions[-1:], tmp_path / f"d{step}")
        shares.append(made.changed / made.elements)
    apply_deltas([versions[0]], [tmp_path / f"d{step}" for step in range(1, 51)], tmp_path / "made")
    assert (tmp_path / "made").read_bytes() == versions[-1].read_bytes()
    assert 0.005 < min(shares) <= max(shares) < 0.05


def test_changes_are_counted_in_elements(versions: list[Path]) -> None:
    made = delta_of(versions[:1], versions[1:2], versions[0].with_name("delta"))
    assert made.changed == changes(0, 1)
    assert made.elements == sum(values.size for _, values in made_up(0).values())
    assert made.size_bytes == versions[0].with_name("delta").stat().st_size


OTHERS: dict[str, Tensors] = {
    "a tensor more": made_up(1) | {"bias": ("F32", np.zeros(3, np.uint32))},
    "a tensor less": {name: value for name, value in made_up(1).items() if name != "norm"},
    "another type": made_up(1) | {"norm": ("I32", np.zeros(300, np.uint32))},
    "another shape": made_up(1) | {"norm": ("F32", np.zeros(301, np.uint32))},
    "another name": {"other" if name == "norm" else name: value for name, value in made_up(1).items()},
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_layout_has_no_delta_and_is_no_base(versions: list[Path], tmp_path: Path, other: str) -> None:
    strange = write_tensors(tmp_path / "strange", OTHERS[other])
    with pytest.raises(NoLayout, match="other names, types or shapes"):
        delta_of(versions[:1], [strange], tmp_path / "delta")
    with pytest.raises(BadDelta, match="other names, types or shapes"):
        apply_deltas([strange], chain_of(versions)[:1], tmp_path / "made")


def laid_out(header: bytes | list[tuple[int, int]], size: int | None = None) -> bytes:
    """Return a file with that header, or with tensors at these places."""
    if isinstance(header, list):
        tensors = {f"t{i}": {"dtype": "U8", "data_offsets": at} for i, at in enumerate(header)}
        header = json.dumps(tensors).encode()
    return (len(header) if size is None else size).to_bytes(8, "little") + header + b"1234"


HEADS: dict[str, bytes] = {
    "text": b"weights 7",
    "nothing": b"",
    "a header longer than the file": laid_out(b"{}", 1000),
    "no JSON": laid_out(b"{]"),
    "a list": laid_out(b"[]"),
    "two names for the same bytes": laid_out([(0, 4), (0, 4)]),
    "a hole": laid_out([(0, 2), (3, 4)]),
    "bytes behind the last tensor": laid_out(b"{}"),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_file_that_is_not_laid_out_as_safetensors_say_has_no_delta(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(HEADS[name])
    with WeightStream([tmp_path / "file"]) as stream, pytest.raises(NoLayout):
        read_layout(stream)


def test_a_base_that_differs_elsewhere_is_noticed_by_tensor(versions: list[Path], tmp_path: Path) -> None:
    chain = chain_of(versions)
    damaged = bytearray(versions[0].read_bytes())
    damaged[-3] ^= 1  # of `head`; `empty` has no bytes
    versions[0].write_bytes(damaged)
    with pytest.raises(BadDelta, match=r"1 of 8 tensors have another checksum than they should, head first"):
        apply_deltas([versions[0]], chain[:1], tmp_path / "made")


def test_a_chain_without_a_link_or_in_another_order_is_noticed(versions: list[Path], tmp_path: Path) -> None:
    first, second, third, _ = chain_of(versions)
    for chain in ([first, third], [second], [second, first], [first, third, second]):
        with pytest.raises(BadDelta, match="another checksum"):
            apply_deltas([versions[0]], chain, tmp_path / "made")


def test_no_damage_to_a_delta_gives_weights_of_another_content(versions: list[Path], tmp_path: Path) -> None:
    (delta,) = chain_of(versions)[:1]
    right, wanted, chance = delta.read_bytes(), versions[1].read_bytes(), random.Random(0)
    noticed = 0
    for number in range(400):
        data = bytearray(right)
        if number % 4 == 3:
            del data[chance.randrange(len(data)) :]
        else:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        delta.write_bytes(data)
        try:
            apply_deltas([versions[0]], [delta], tmp_path / "made")
        except BadDelta:
            noticed += 1
        else:  # a bit that decides nothing, as a frame's reserved ones
            assert (tmp_path / "made").read_bytes() == wanted
    assert noticed > 390


def in_parts(folder: Path, tensors: Tensors, *cuts: int) -> list[Path]:
    """Write tensors as several files, which end before these of them."""
    folder.mkdir()
    items = list(tensors.items())
    bounds = [0, *cuts, len(items)]
    return [
        write_tensors(folder / part_name(number, len(bounds) - 1), dict(items[begin:end]))
        for number, (begin, end) in enumerate(pairwise(bounds))
    ]


@pytest.mark.parametrize("cuts", [(1,), (3,), (3, 6), (1, 2, 3, 4, 5, 6, 7)])
def test_deltas_of_several_files_give_these_files_again(tmp_path: Path, cuts: tuple[int, ...]) -> None:
    versions = [in_parts(tmp_path / str(number), made_up(number), *cuts) for number in range(4)]
    chain = [tmp_path / f"d{number}" for number in range(1, 4)]
    for base, new, delta in zip(versions, versions[1:], chain, strict=False):
        made = delta_of(base, new, delta)
    assert made.changed == changes(2, 3)
    apply_deltas(versions[0], chain, tmp_path / "made")
    files = split(tmp_path / "made", tmp_path / "again")
    assert [file.name for file in files] == [file.name for file in versions[3]]
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in versions[3]]
    assert not (tmp_path / "made").exists()


def test_versions_that_were_cut_elsewhere_have_no_delta(versions: list[Path], tmp_path: Path) -> None:
    cut = in_parts(tmp_path / "cut", made_up(1), 3)
    with pytest.raises(NoLayout):
        delta_of(versions[:1], cut, tmp_path / "delta")
    with pytest.raises(BadDelta, match="other names, types or shapes"):
        apply_deltas(cut, chain_of(versions)[:1], tmp_path / "made")


def test_what_is_no_safetensors_file_stays_one_file(tmp_path: Path) -> None:
    (tmp_path / "made").write_text("weights 7")
    (file,) = split(tmp_path / "made", tmp_path / "again")
    assert (file.name, file.read_text()) == (FILE, "weights 7")
