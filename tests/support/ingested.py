"""Every row of a source at once, as small tests look at them."""

from __future__ import annotations

from config.data import SourceConfig
from config.run import Run
from learner.data.ingest import ingest
from learner.data.row import Row


def load_rows(run: Run, source: SourceConfig) -> tuple[list[Row], str]:
    """Read `source` and return its rows and the fingerprint of the data."""
    found = ingest(run, source)
    return list(found.rows.rows()), found.fingerprint
