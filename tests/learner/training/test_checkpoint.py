"""Checkpoints on disk: what counts as one, which is used, which stay. The policy writes files that people can read."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from broker.errors import RunFailed
from learner.journal.ledger import Ledger
from learner.training.checkpoint import MANIFEST, Checkpoints, Progress, load, what_is_wrong
from tests.support.chain import make_run

pytestmark = [pytest.mark.model, pytest.mark.together("training")]


class Parts:
    """A policy of two ranks: each writes its part, and rank 0 what comes back."""

    def __init__(self, *, fails_at: str = "") -> None:
        self.fails_at = fails_at
        self.saved = 0
        self.loaded: list[Path] = []

    def save_checkpoint(self, folder: Path, state: dict[str, Any]) -> None:
        self.saved += 1
        (folder / "engine").mkdir(parents=True)
        for name in ("engine/rank-0.pt", "engine/rank-1.pt"):
            if name == self.fails_at:
                raise OSError(28, "No space left on device")
            (folder / name).write_bytes(f"{name} of version {state['version']}".encode())
        (folder / "state.json").write_text(json.dumps({"state": state}))

    def save_model(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        if self.fails_at == "model":
            raise OSError(28, "No space left on device")
        (folder / "model.safetensors").write_bytes(b"weights")

    def load_checkpoint(self, folder: Path) -> dict[str, Any]:
        self.loaded.append(folder)
        state: dict[str, Any] = json.loads((folder / "state.json").read_text())["state"]
        return state


def progress(version: int, *, fence: int = 3) -> Progress:
    return Progress(version=version, first_row=2 * version, fingerprint="f", fence=fence)


def make(tmp_path: Path, versions: range | tuple[int, ...] = (), *, keep: int = 3) -> tuple[Checkpoints, Any]:
    checkpoints, policy = Checkpoints(make_run(tmp_path, learner={"checkpoint": {"keep": keep}})), Parts()
    for version in versions:
        checkpoints.save(policy, progress(version))  # what it needs of a policy
    return checkpoints, policy


def names(checkpoints: Checkpoints) -> list[str]:
    return sorted(path.name for path in checkpoints.folder.iterdir())


def test_a_checkpoint_comes_back_as_it_was_saved_and_the_newest_few_stay(tmp_path: Path) -> None:
    checkpoints, policy = make(tmp_path, range(46, 51), keep=2)
    assert names(checkpoints) == ["step-000049", "step-000050"]
    assert checkpoints.oldest_version() == 49
    newest = checkpoints.newest_good()
    assert newest == checkpoints.folder / "step-000050"
    assert load(policy, newest) == progress(50)
    assert policy.loaded == [newest.absolute()]
    manifest = json.loads((newest / MANIFEST).read_text())
    assert sorted(manifest["files"]) == ["engine/rank-0.pt", "engine/rank-1.pt", "state.json"]
    assert manifest["files"]["engine/rank-0.pt"]["size"] == len("engine/rank-0.pt of version 50")


def test_each_is_exported_where_that_is_wanted_and_exports_stay(tmp_path: Path) -> None:
    run = make_run(tmp_path, learner={"checkpoint": {"keep": 1, "export": True}})
    checkpoints = Checkpoints(run)
    models = run.folder / "models"
    (models / "step-000002.tmp").mkdir(parents=True)  # as a kill leaves one
    with pytest.raises(RunFailed, match="No space left"):
        checkpoints.save(Parts(fails_at="model"), progress(1))
    assert not (models / "step-000001").exists()
    for version in (1, 2):  # the first one is whole, and its export is made up for
        checkpoints.save(Parts(), progress(version))
    assert sorted(path.name for path in models.iterdir()) == ["step-000001", "step-000002"]
    assert (models / "step-000002" / "model.safetensors").read_bytes() == b"weights"
    assert names(checkpoints) == ["step-000002"]


@pytest.mark.parametrize(("keep", "covered"), [(1, [2, 4, 6]), (2, [None, 2, 4]), (3, [None, None, 2])])
def test_fewer_than_shall_be_kept_cover_nothing(tmp_path: Path, keep: int, covered: list[int | None]) -> None:
    """The journal asks after each save: were the only one broken, the run would go on from its beginning."""
    checkpoints, policy = make(tmp_path, keep=keep)
    found = []
    for version in (2, 4, 6):
        checkpoints.save(policy, progress(version))
        found.append(checkpoints.oldest_version())
    assert found == covered
    (checkpoints.folder / "step-000006" / "state.json").unlink()
    assert checkpoints.oldest_version() is None, "a broken one is none"


def test_an_older_one_can_be_asked_for_and_of_broken_ones_none_is_good(tmp_path: Path) -> None:
    checkpoints, _ = make(tmp_path)
    assert (checkpoints.newest_good(), checkpoints.oldest_version()) == (None, None)
    checkpoints, _ = make(tmp_path, (30, 999_999, 1_000_000), keep=3)
    assert checkpoints.newest_good() == checkpoints.folder / "step-1000000", "in the order of numbers"
    assert checkpoints.newest_good(at_most=999_999) == checkpoints.folder / "step-999999"
    assert checkpoints.newest_good(at_most=29) is None
    assert checkpoints.oldest_version() == 30
    for folder in checkpoints.folder.iterdir():
        (folder / MANIFEST).unlink()
    assert (checkpoints.newest_good(), checkpoints.oldest_version()) == (None, None)
    with pytest.raises(RunFailed, match="nowhere: there is no such folder"):
        load(Parts(), tmp_path / "nowhere")


def in_a_files_place(folder: Path) -> None:
    (folder / "state.json").unlink()
    (folder / "state.json").mkdir()


def overwrite(file: Path, data: bytes) -> None:
    file.write_bytes(data)


FIRST, CHECKSUM = "engine/rank-0.pt", "another checksum than when it was written"
BREAKS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a file is gone": (lambda f: (f / "engine/rank-1.pt").unlink(), "engine/rank-1.pt is missing"),
    "a file is cut": (lambda f: os.truncate(f / FIRST, 5), f"{FIRST} has 5 bytes, and had 30"),
    "a bit is flipped": (
        lambda f: overwrite(f / FIRST, b"Engine/rank-0.pt of version 40"),
        f"{FIRST} has {CHECKSUM}",
    ),
    "no manifest": (lambda f: (f / MANIFEST).unlink(), f"{MANIFEST} is missing"),
    "half a manifest": (lambda f: os.truncate(f / MANIFEST, 20), f"{MANIFEST} can't be read: JSONDecodeError"),
    "another manifest": (lambda f: overwrite(f / MANIFEST, b"[]"), f"{MANIFEST} can't be read: TypeError"),
    "a manifest of nothing": (
        lambda f: overwrite(f / MANIFEST, b'{"files": {}}'),
        f"{MANIFEST} names no file",
    ),
    "a folder in a file's place": (in_a_files_place, "state.json"),
}  # fmt: skip


@pytest.mark.parametrize(("break_it", "reason"), BREAKS.values(), ids=BREAKS)
def test_a_broken_one_is_named_and_the_one_before_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, break_it: Callable[[Path], None], reason: str
) -> None:
    checkpoints, policy = make(tmp_path, (30, 40))
    broken = checkpoints.folder / "step-000040"
    break_it(broken)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert checkpoints.newest_good() == checkpoints.folder / "step-000030"
    (warning,) = caplog.messages
    assert warning.startswith(f"checkpoint_broken path={broken} reason=")
    assert reason in warning
    with pytest.raises(RunFailed, match="is broken"):
        load(policy, broken)
    assert policy.loaded == []


@pytest.mark.parametrize("how", ["a file is gone", "a bit is flipped"])
def test_a_broken_one_does_not_count_among_those_that_stay(tmp_path: Path, how: str) -> None:
    checkpoints, policy = make(tmp_path, (30, 40), keep=2)
    BREAKS[how][0](checkpoints.folder / "step-000040")
    if how == "a bit is flipped":  # which a look at sizes alone does not see
        assert checkpoints.newest_good() == checkpoints.folder / "step-000030"
    checkpoints.save(policy, progress(50))
    assert names(checkpoints) == ["step-000030", "step-000050"]  # a good one is not removed for a broken one


def test_one_of_void_steps_is_passed_over_by_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A learner that lost the run in the middle of a save leaves one whose last step is void."""
    checkpoints, policy = make(tmp_path)
    for version, fence in ((0, 0), (2, 1), (4, 2), (6, 2)):
        checkpoints.save(policy, progress(version, fence=fence))
    # Life 2 was cut off before step 4, by life 3, which got as far as step 5.
    ledger = Ledger(steps=[{"step": step, "fence": fence} for step, fence in enumerate((1, 1, 2, 3, 3))])
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert checkpoints.newest_good(ledger=ledger) == checkpoints.folder / "step-000002"
    event, why = f"checkpoint_of_other_steps path={checkpoints.folder}", "reason=it holds step"
    assert [message.partition(": an older")[0] for message in caplog.messages] == [
        f"{event}/step-000006 {why} 6 of incarnation 2, which the journal does not have",
        f"{event}/step-000004 {why} 4 of incarnation 2, and the journal has that step of incarnation 3",
    ]
    assert checkpoints.oldest_version() is None, "they cover nothing either"
    assert checkpoints.newest_good(ledger=Ledger()) is None
    checkpoints.save(policy, progress(4, fence=3))
    assert checkpoints.newest_good(ledger=ledger) == checkpoints.folder / "step-000004", "life 3 wrote it"
    checkpoints.save(
        policy, progress(7, fence=0)
    )  # which learner.resume=FOLDER copies, holds no step of a journal
    assert checkpoints.newest_good(ledger=Ledger()) == checkpoints.folder / "step-000007"


def test_an_interrupted_save_counts_for_nothing_and_a_whole_one_stays(tmp_path: Path) -> None:
    checkpoints, policy = make(tmp_path, (30,))
    full: Any = Parts(fails_at="engine/rank-1.pt")
    with pytest.raises(RunFailed, match=r"step-000040 can't be written: .*No space left on device"):
        checkpoints.save(full, progress(40))
    assert names(checkpoints) == ["step-000030", "step-000040.tmp"]
    assert checkpoints.newest_good() == checkpoints.folder / "step-000030"
    checkpoints.save(policy, progress(50))
    assert names(checkpoints) == ["step-000030", "step-000050"]
    checkpoints, policy = make(tmp_path / "whole", (30,))
    checkpoints.save(policy, progress(30))
    assert policy.saved == 1
    (checkpoints.folder / "step-000030" / "state.json").unlink()
    checkpoints.save(policy, progress(30))
    assert policy.saved == 2
    assert what_is_wrong(checkpoints.folder / "step-000030") is None


@pytest.mark.parametrize("numbers", [10, 1_000_000])
@pytest.mark.parametrize("is_zip", [True, False])
def test_what_torch_says_of_a_full_disk_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbers: int, *, is_zip: bool
) -> None:
    """It says it in several ways, and those of a zip file do not name the disk."""

    def fill(*_: object) -> None:
        torch.save(torch.zeros(numbers), "/dev/full", _use_new_zipfile_serialization=is_zip)

    checkpoints, policy = make(tmp_path)
    monkeypatch.setattr(policy, "save_checkpoint", fill)
    with pytest.raises(RunFailed, match=r"step-000040 can't be written: .*Make room or mend the disk"):
        checkpoints.save(policy, progress(40))


def test_a_rank_that_dies_in_a_save_is_no_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_a_rank(*_: object) -> None:
        raise RuntimeError("[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:23456")

    checkpoints, policy = make(tmp_path)
    monkeypatch.setattr(policy, "save_checkpoint", lose_a_rank)
    told = r"^\[\.\./gloo/transport/tcp/pair\.cc:534\] Connection closed by peer"
    with pytest.raises(RuntimeError, match=told):
        checkpoints.save(policy, progress(40))
