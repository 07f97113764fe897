"""The worker that scores single rows, in this process: for tests of what becomes of a result, not of the worker.

In: a verb that starts workers. Out: they score with what a worker has, a `RowScorer`, and start no process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scorers.api import RowWorkerClient, ScoringFailed
from scorers.child.frames import PREFETCH, TRY
from scorers.child.row_worker import RowScorer
from scorers.rows import judged_lines, row_workers
from tools.judge_check import command as judge_check


class RowWorkerHere(RowWorkerClient):
    """Scores in this process, one row at a time."""

    _scorer: RowScorer | None = None

    def begin(self) -> None:
        """Start nothing."""

    def close(self, grace_s: float = 0.0) -> int:
        if self._scorer is not None:
            self._scorer.close()
        self._scorer = None
        return super().close(grace_s)

    def _exchange(self, kind: bytes, line: bytes) -> bytes | None:
        if self._is_stopped:
            raise ScoringFailed("stopped")
        self._scorer = self._scorer or RowScorer(self.config)
        if kind == PREFETCH:
            self._scorer.prefetch(line)
            return None
        answer = self._scorer.trial if kind == TRY else self._scorer.result
        return json.dumps(answer(line)).encode("ascii")


@pytest.fixture
def scored_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have every verb that scores rows do so in this process; a scorer in the test's folder is the test's own."""
    for module in (row_workers, judged_lines, judge_check):
        monkeypatch.setattr(module, "RowWorkerClient", RowWorkerHere)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name, module in sys.modules.copy().items():
        if str(getattr(module, "__file__", "")).startswith(f"{tmp_path}/"):
            del sys.modules[name]
