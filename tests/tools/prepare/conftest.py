"""What the tests of preparations share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scorers.api import all_tasks
from scorers.child.row_worker import RowScorer


@pytest.fixture(scope="session")
def scorer() -> Iterator[RowScorer]:
    """Every scorer of this version, in this process."""
    rows = RowScorer(all_tasks())
    yield rows
    rows.close()
