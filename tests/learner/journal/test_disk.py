"""What is put on the disk so that a power cut can't take it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from learner.journal.writer import Journal
from learner.training.checkpoint import Checkpoints, Progress
from tests.support.chain import FilePolicy, make_run


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the files and folders that were put on the disk, in order."""
    found: list[Path] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", note)
    return found


@pytest.mark.parametrize(
    "made_before", [False, True], ids=["all are new", "somebody has just made the run's"]
)
def test_the_names_of_a_new_journals_folders_are_on_the_disk_before_its_first_record(
    tmp_path: Path, synced: list[Path], *, made_before: bool
) -> None:
    folder = tmp_path.resolve() / "runs" / "demo" / "journal"
    if made_before:
        folder.parent.mkdir(parents=True)
    Journal(folder, 1, run="demo").close()
    names = [folder.parent, folder.parent.parent, tmp_path.resolve()]  # what holds journal, demo and runs
    assert synced[:3] == names
    assert synced[-2:] == [folder, folder / "ledger-000001.log"]
    synced.clear()
    Journal(folder, 2, run="demo").close()
    assert not set(names) & set(synced), "a later life finds them there"


def test_the_checkpoints_folder_is_on_the_disk_with_the_first(tmp_path: Path, synced: list[Path]) -> None:
    checkpoints = Checkpoints(make_run(tmp_path))
    checkpoints.save(FilePolicy(), Progress(version=2, first_row=4, fingerprint="f"))
    folder = checkpoints.folder.resolve()
    assert {folder, folder.parent, folder.parent.parent} <= set(synced)
    assert synced[-1] == folder, "the checkpoint's own name comes last"


def test_what_may_not_be_listed_is_nobodys_to_put_on_the_disk(
    tmp_path: Path, synced: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the folder that holds all users' homes often is; root may list any, hence the pretence."""
    home = tmp_path.resolve()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != home)
    Journal(home / "demo" / "journal", 1, run="demo").close()
    assert home / "demo" in synced
    assert not {home, *home.parents} & set(synced)
