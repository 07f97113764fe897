"""The files of a version on disk, and their bytes as one stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.weight_files import FILE, INDEX, WeightStream, part_name, weight_files

THREE = [part_name(number, 3) for number in range(3)]


def lay_down(folder: Path, names: list[str]) -> None:
    for number, name in enumerate(names):
        (folder / name).write_bytes(bytes([number]) * (number + 1))


@pytest.mark.parametrize("names", [[FILE], THREE, [part_name(number, 12) for number in range(12)]])
def test_the_files_are_found_in_their_order_and_nothing_else(tmp_path: Path, names: list[str]) -> None:
    lay_down(tmp_path, names)
    for other in (INDEX, "config.json", "adapter_model.safetensors", "model-1.safetensors"):
        (tmp_path / other).write_text("{}")
    assert weight_files(tmp_path) == tuple(tmp_path / name for name in names)


@pytest.mark.parametrize(
    ("names", "lacks"),
    [
        ([], FILE),
        (THREE[:1], FILE),
        (THREE[:2], "model-00001-of-00002.safetensors"),
        (["model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"], "model-00001-of-00002"),
    ],
)
def test_weights_that_are_not_all_there_are_no_weights(tmp_path: Path, names: list[str], lacks: str) -> None:
    lay_down(tmp_path, names)
    with pytest.raises(FileNotFoundError, match="No such file") as raised:
        weight_files(tmp_path)
    assert lacks in str(raised.value.filename)


def test_a_stream_is_the_files_one_behind_another_also_when_their_names_are_gone(tmp_path: Path) -> None:
    lay_down(tmp_path, THREE)  # of 1, 2 and 3 bytes
    whole = bytes([0, 1, 1, 2, 2, 2])
    with WeightStream(weight_files(tmp_path)) as stream:
        for name in THREE:
            (tmp_path / name).unlink()
        assert stream.size_bytes == 6
        for at in range(8):
            for size in range(8):
                assert stream.read(size, at) == whole[at : at + size], (size, at)


def test_a_stream_that_has_become_shorter_says_how_much_it_read(tmp_path: Path) -> None:
    lay_down(tmp_path, THREE)
    with WeightStream(weight_files(tmp_path)) as stream:
        (tmp_path / THREE[2]).write_bytes(b"")
        assert stream.read(6, 0) == bytes([0, 1, 1])


def test_files_of_which_one_is_gone_are_no_stream_and_none_stays_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    lay_down(tmp_path, THREE)
    files = weight_files(tmp_path)
    files[2].unlink()
    with pytest.raises(FileNotFoundError):
        WeightStream(files)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
