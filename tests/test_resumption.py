"""A long run of tests goes on with what has not passed on this commit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from tests.support.paths import ROOT
from tests.support.resumption import Resumption

Outcome = Literal["passed", "failed", "skipped"]
Stage = Literal["setup", "call", "teardown"]
REPORTS: dict[str, dict[Stage, Outcome]] = {
    "passes[a b\n]": {"setup": "passed", "call": "passed", "teardown": "passed"},
    "fails": {"setup": "passed", "call": "failed", "teardown": "passed"},
    "skips": {"setup": "skipped", "teardown": "passed"},
    "skips in its middle": {"setup": "passed", "call": "skipped", "teardown": "passed"},
    "leaves a mess": {"setup": "passed", "call": "passed", "teardown": "failed"},
    "is cut off": {"setup": "passed", "call": "passed"},
}


class Item:
    """A collected test."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


class Config:
    """A configuration whose hook keeps what was deselected."""

    def __init__(self) -> None:
        self.hook = self
        self.deselected: list[str] = []

    def pytest_deselected(self, items: list[Item]) -> None:
        """Keep the names."""
        self.deselected += [item.nodeid for item in items]


def run(folder: Path, commit: str) -> list[str]:
    """Run what an earlier run of the commit has not passed; return what was left out."""
    resumption, config = Resumption(folder, commit), Config()
    items: Any = [Item(nodeid) for nodeid in REPORTS]
    resumption.pytest_collection_modifyitems(cast("pytest.Config", config), items)
    for nodeid in [item.nodeid for item in items]:
        for when, outcome in REPORTS[nodeid].items():
            report = pytest.TestReport(nodeid, ("", 0, ""), {}, outcome, None, when)
            resumption.pytest_runtest_logreport(report)
    assert sorted([*config.deselected, *(item.nodeid for item in items)]) == sorted(REPORTS)
    return config.deselected


PASSED = ["passes[a b\n]"]


@pytest.mark.parametrize(
    ("second", "left_out", "then"),
    [("abc", PASSED, PASSED), ("abd", [], PASSED), ("abc with changes", [], []), ("unknown", [], [])],
)
def test_what_passed_whole_is_left_out_on_the_same_commit_alone(
    tmp_path: Path, second: str, left_out: list[str], then: list[str]
) -> None:
    assert run(tmp_path, "abc") == []
    assert [run(tmp_path, second), run(tmp_path, second)] == [left_out, then]


FILES = {
    "conftest.py": """
from pathlib import Path
from tests.support.resumption import resumption
from tests.support.scheduling import FilesTogether
def pytest_configure(config): config.pluginmanager.register(resumption(config, Path("passed"), "abc"), "resumption")
def pytest_xdist_make_scheduler(config, log): return FilesTogether(config, log)
""",
    "pytest.ini": "[pytest]",
    "test_a.py": """
import os, time
from pathlib import Path
def test_passes(): pass
def test_is_killed():
    if os.path.exists("mended"): return
    while not any("test_b.py" in file.read_text() for file in Path("passed").glob("*")): time.sleep(0.01)
    os.kill(os.getpid(), 9)
def test_passes_too(): pass
""",
    "test_b.py": "def test_b(): pass",
}


@pytest.mark.process
def test_a_worker_that_dies_fails_its_test_alone_and_what_passed_is_written_down_once(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = (
        f"{sys.executable} -P -m pytest -p xdist -p no:cacheprovider --numprocesses 2 --dist loadfile".split()
    )

    def said() -> str:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout + done.stderr

    first = said()
    assert "1 failed, 3 passed in " in first, first
    assert "crashed while running 'test_a.py::test_is_killed'" in first
    passed = (tmp_path / "passed" / "abc.txt").read_text(encoding="utf-8").split("\0")
    assert sorted(passed) == ["", "test_a.py::test_passes", "test_a.py::test_passes_too", "test_b.py::test_b"]
    (tmp_path / "mended").touch()
    assert "1 passed in " in said()
