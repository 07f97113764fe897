"""Goes on with a long run of tests where an earlier one was interrupted: `pytest --resume FOLDER`.

In: each test's reports. Out: a file in the folder for each commit, with a line for each test that passed; the next run
of the same commit leaves those out. A checkout with changes, or without git, has no commit to go by, and begins from
nothing. Under xdist the controller alone reads and writes the file. Its workers are told what it read, so that one that
takes the place of another which died collects the same tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.workermanage import WorkerController

NO_COMMIT = ("with changes", "unknown")  # in what `benchmarks.results.commit` says


class LeftOut:
    """What passed before and is not run again: all that an xdist worker knows of it.

    Args:
        passed: the names of these tests.
    """

    def __init__(self, passed: Iterable[str]) -> None:
        self._passed = frozenset(passed)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what passed before."""
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self._passed])
        items[:] = [item for item in items if item.nodeid not in self._passed]


class Resumption(LeftOut):
    """What passed before, and what passes now.

    Args:
        folder: of the files.
        commit: as `benchmarks.results.commit` names it.
    """

    def __init__(self, folder: Path, commit: str) -> None:
        self._file = folder / f"{commit.replace(' ', '-')}.txt"
        self._failed: set[str] = set()
        if any(word in commit for word in NO_COMMIT):
            self._file.unlink(missing_ok=True)
        text = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
        super().__init__(text.split("\0"))

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell a worker what passed before."""
        node.workerinput["passed"] = sorted(self._passed)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write down a test whose last report has come, if none of its reports was of a failure or a skip."""
        if not report.passed:
            self._failed.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self._failed:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\0")


def resumption(config: pytest.Config, folder: Path, commit: str) -> LeftOut:
    """Return the plugin of this process: an xdist worker's, or that of the process that reports."""
    told = getattr(config, "workerinput", None)
    return Resumption(folder, commit) if told is None else LeftOut(told["passed"])
