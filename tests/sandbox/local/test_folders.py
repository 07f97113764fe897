"""Folders that a program or a killed scorer has left: counted and removed, however they were made, and no others."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.local.folders import BLOCK_BYTES, TOO_MANY_BYTES, folder_bytes, remove_folder
from sandbox.local.supervisors import FORGOTTEN_S, PREFIX, Supervisors
from tests.sandbox.conftest import processes_below
from tests.support.paths import ROOT
from tests.support.waiting import wait_until

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


@pytest.mark.parametrize(("depth", "name"), [(500, "d" * 200), (3000, "d")])
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


@pytest.mark.parametrize("looks", [1000, 3000])
def test_folder_that_turns_into_a_link_while_it_is_counted_leads_nowhere(tmp_path: Path, looks: int) -> None:
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
        counts = {folder_bytes(folder, ENOUGH) for _ in range(looks)}
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


SCORER = """
import sys, time
from sandbox.local.supervisors import FORGOTTEN_S, PREFIX, Supervisors
mine = Supervisors()
base = mine.base()
(base / "program-x").mkdir()
(base / "program-x" / "main.py").write_text("pass")
print(base, mine._idle[0]._process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def mine() -> Iterator[Supervisors]:
    with closing(Supervisors()) as found:
        yield found


def age(path: Path, seconds: float) -> None:
    """Let nobody have touched it for so long."""
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def scorer(temporary: Path) -> tuple[subprocess.Popen[str], Path, int]:
    """Start a process with a sandbox's folder. Return it with the folder and the pid of its supervisor."""
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", SCORER], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )
    assert process.stdout is not None
    base, _, supervisor = process.stdout.readline().strip().rpartition(" ")
    return process, Path(base), int(supervisor)


def kill(process: subprocess.Popen[str], supervisor: int) -> None:
    """Kill a scorer with its supervisor, as an out-of-memory killer or a container's end does."""
    os.kill(supervisor, signal.SIGKILL)
    process.kill()
    process.communicate()
    wait_until(lambda: str(supervisor) not in processes_below(1))


@pytest.mark.prove
def test_the_folder_of_a_killed_scorer_is_removed_by_the_next_one(temporary: Path, mine: Supervisors) -> None:
    process, base, supervisor = scorer(temporary)
    kill(process, supervisor)
    assert (base / "program-x").is_dir()
    own = mine.base()
    assert [path for path in temporary.iterdir() if path.name.startswith(PREFIX)] == [own]


def test_the_folder_of_a_scorer_that_lives_stays(temporary: Path, mine: Supervisors) -> None:
    process, base, supervisor = scorer(temporary)
    try:
        mine.base()
        age(base, 2 * FORGOTTEN_S)
        with closing(Supervisors()) as another:
            another.base()
        assert (base / "program-x" / "main.py").is_file()
    finally:
        kill(process, supervisor)


def test_a_folder_without_a_lock_is_removed_when_nobody_has_touched_it_for_a_day(
    temporary: Path, mine: Supervisors
) -> None:
    young, old = temporary / f"{PREFIX}young", temporary / f"{PREFIX}old"
    for folder in (young, old):
        (folder / "run-x").mkdir(parents=True)
        (folder / "run-x").chmod(0)
    age(old, FORGOTTEN_S + 60)
    mine.base()
    assert young.is_dir()
    assert not old.exists()


def test_a_link_a_file_and_another_user_s_folder_stay(
    temporary: Path, mine: Supervisors, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = temporary / "kept"
    kept.mkdir()
    (kept / "file").touch()
    link, file, others = (temporary / f"{PREFIX}{name}" for name in ("link", "file", "others"))
    link.symlink_to(kept)
    file.touch()
    others.mkdir()
    for path in (link, file, others):
        age(path, 2 * FORGOTTEN_S)
    monkeypatch.setattr("sandbox.local.supervisors.os.getuid", lambda: others.stat().st_uid + 1)
    mine.base()
    assert (kept / "file").is_file()
    assert (link.is_symlink(), file.is_file(), others.is_dir()) == (True, True, True)


def test_a_closed_sandbox_leaves_nothing(temporary: Path, mine: Supervisors) -> None:
    assert mine.base().is_dir()
    mine.close()
    assert list(temporary.iterdir()) == []


def test_a_fork_has_a_folder_of_its_own_and_leaves_its_parent_s(temporary: Path, mine: Supervisors) -> None:
    base = mine.base()
    pid = os.fork()
    if pid == 0:  # its own folder sweeps, too
        code = 1
        try:
            code = 0 if mine.base() != base and base.is_dir() else 1
            mine.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert base.is_dir()
