"""What tests of data have in common: here no row is shown to a scorer, but where a module asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest

from config.run import Run
from learner.data.refused import RefusedRows
from learner.data.store import RowStore
from tests.support.chain import make_run
from tests.support.ingested import with_data

SHOWN = "rows_are_shown"  # a mark of modules whose rows really are


@pytest.fixture(autouse=True)
def _takes_every_row(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the process of the scorers with one that refuses nothing: a unit test starts none."""

    def ask(_: RefusedRows, stores: Sequence[RowStore], answers: IO[bytes]) -> None:
        del stores
        answers.write(b'{"rows": 0, "unchecked": {}}\n')

    if not getattr(request.module, SHOWN.upper(), False):
        monkeypatch.setattr(RefusedRows, "_ask", ask)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run with a cache of its own."""
    return with_data(make_run(tmp_path), cache_dir=tmp_path / "cache")


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have what `datasets` keeps lie in the test's own folder."""
    import datasets  # takes a second

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
