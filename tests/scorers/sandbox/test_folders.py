"""Folders that a program has left: counted and removed, however it made them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scorers.sandbox.folders import BLOCK_BYTES, TOO_MANY_BYTES, folder_bytes, remove_folder


def nest(folder: Path, depth: int, name: str) -> None:
    """Folders in folders, deeper than any path may be long."""
    here = Path.cwd()
    os.chdir(folder)
    for _ in range(depth):
        Path(name).mkdir()
        os.chdir(name)
    os.chdir(here)


@pytest.mark.parametrize(("depth", "name"), [(3000, "d"), (500, "d" * 200)])
def test_folder_too_deep_for_a_path_or_a_recursion_is_too_large_and_can_be_removed(tmp_path: Path, depth: int,
                                                                                   name: str) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    nest(folder, depth, name)
    assert folder_bytes(folder) >= TOO_MANY_BYTES
    remove_folder(folder)
    assert not folder.exists()


def test_what_a_program_makes_is_removed_and_what_its_links_name_is_not(tmp_path: Path) -> None:
    folder, kept = tmp_path / "scratch", tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "to_folder").symlink_to(kept)
    (folder / "a" / "to_file").symlink_to(kept / "file")
    (folder / os.fsdecode(b"\xff\n")).mkdir()
    os.mkfifo(folder / "a" / "pipe")
    (folder / "a" / "b" / "file").write_bytes(b"x" * 10_000)
    (folder / "a").chmod(0)
    remove_folder(folder)
    remove_folder(folder)                   # gone is fine
    assert not folder.exists()
    assert (kept / "file").read_text() == "x"


def test_every_file_and_folder_counts_a_block_at_least(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "empty").touch()
    (tmp_path / "link").symlink_to("/usr")
    assert folder_bytes(tmp_path) == 3 * BLOCK_BYTES
