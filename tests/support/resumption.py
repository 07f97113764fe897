"""Goes on with a long run of tests where an earlier one was interrupted: `pytest --resume FOLDER`.

In: each test's reports. Out: a file in the folder for each commit, with a line for each test that passed; the next run
of the same commit leaves those out. A checkout with changes, or without git, has no commit to go by, and begins from
nothing. Under xdist the workers read the file while they collect, and the controller alone writes it, once tests run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

NO_COMMIT = ("with changes", "unknown")  # in what `benchmarks.results.commit` says


class Resumption:
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
        self._passed = frozenset(text.split("\0"))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what passed before."""
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self._passed])
        items[:] = [item for item in items if item.nodeid not in self._passed]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write down a test whose last report has come, if none of its reports was of a failure or a skip."""
        if not report.passed:
            self._failed.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self._failed:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\0")
