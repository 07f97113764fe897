"""A long run of tests goes on with what has not passed on this commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

import pytest

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
