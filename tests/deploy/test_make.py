"""`make` and an environment that is not its own: a `.venv` that is a link is left as it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose `.venv` is a link to an environment that others use, too."""
    shared, folder = tmp_path / "shared", tmp_path / "checkout"
    (shared / "bin").mkdir(parents=True)
    python = shared / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/../calls"\nexit 1\n')
    python.chmod(0o755)
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "scripts", "requirements"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile)(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(shared)
    return folder


@pytest.mark.parametrize(
    ("target", "words"),
    [("setup", ".venv is a link to"), ("setup GPU=1", ".venv is a link to"), ("clean", ".venv is a link to")],
)
@pytest.mark.parametrize("installed", ["", "installed-cpu", "installed-gpu"])
def test_an_environment_behind_a_link_is_not_touched(
    checkout: Path, target: str, words: str, installed: str
) -> None:
    shared = (checkout / ".venv").resolve()
    if installed:
        (shared / installed).touch()
    before = {path: path.stat().st_mtime_ns for path in shared.rglob("*")}
    done = subprocess.run(
        ["make", *target.split()], cwd=checkout, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    is_there = installed and target.startswith("setup")  # then there is nothing to say
    assert is_there or words in done.stdout + done.stderr
    assert (checkout / ".venv").is_symlink()
    assert {path: path.stat().st_mtime_ns for path in shared.rglob("*")} == before, (
        "and its Python was not called"
    )


def test_a_link_that_leads_nowhere_is_said(checkout: Path) -> None:
    shutil.rmtree((checkout / ".venv").resolve())
    done = subprocess.run(
        ["make", "setup"], cwd=checkout, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert "leads nowhere" in done.stderr
