"""Folders that a program has left: counted and removed, however it made them."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

import pytest

from scorers.sandbox.local.folders import BLOCK_BYTES, TOO_MANY_BYTES, folder_bytes, remove_folder

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

ENOUGH = 1 << 40
RENAME_EXCHANGE = 2
LIBC = ctypes.CDLL(None)
OPEN = os.open


def nest(folder: Path, depth: int, name: str) -> None:
    """Folders in folders, deeper than any path may be long."""
    here = Path.cwd()
    os.chdir(folder)
    for _ in range(depth):
        Path(name).mkdir()
        os.chdir(name)
    os.chdir(here)


@pytest.mark.parametrize(("depth", "name"), [(3000, "d"), (500, "d" * 200)])
def test_folder_too_deep_for_a_path_or_a_recursion_is_too_large_and_can_be_removed(
    tmp_path: Path, depth: int, name: str
) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    nest(folder, depth, name)
    assert folder_bytes(folder, ENOUGH) >= TOO_MANY_BYTES
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
    remove_folder(folder)  # gone is fine
    assert not folder.exists()
    assert (kept / "file").read_text() == "x"


def test_every_file_and_folder_counts_a_block_at_least(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "empty").touch()
    (tmp_path / "link").symlink_to("/usr")
    assert folder_bytes(tmp_path, ENOUGH) == 3 * BLOCK_BYTES


def test_nothing_is_counted_beyond_what_is_enough(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "file").touch()
    assert 10 * BLOCK_BYTES < folder_bytes(tmp_path, 10 * BLOCK_BYTES) <= 12 * BLOCK_BYTES


def test_folder_that_turns_into_a_link_while_it_is_counted_leads_nowhere(tmp_path: Path) -> None:
    folder, outside = tmp_path / "scratch", tmp_path / "outside"
    (folder / "d").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    outside.mkdir()
    for number in range(20):
        (outside / str(number)).touch()
    attacker = os.fork()
    while attacker == 0:
        LIBC.renameat2(-1, bytes(folder / "d"), -1, bytes(folder / "link"), RENAME_EXCHANGE)
    try:
        counts = {folder_bytes(folder, ENOUGH) for _ in range(3000)}
    finally:
        os.kill(attacker, signal.SIGKILL)
        os.waitpid(attacker, 0)
    assert max(counts) <= 4 * BLOCK_BYTES  # an entry may be seen under both names, and nothing else


def test_a_folder_that_nobody_can_list_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()

    def refuse(path: object, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "closed":
            raise PermissionError(path)  # root, who may run this, is refused nothing
        return OPEN(path, flags, dir_fd=dir_fd)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    assert folder_bytes(tmp_path, ENOUGH) >= TOO_MANY_BYTES
