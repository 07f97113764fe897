"""Every row of a source at once, as small tests look at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config.data import SourceConfig
from config.run import Run
from config.scorers import ScorersConfig
from learner.data.ingest import ingest
from learner.data.row import Row


def load_rows(run: Run, source: SourceConfig) -> tuple[list[Row], str]:
    """Read `source` and return its rows and the fingerprint of the data."""
    found = ingest(run, source)
    return list(found.rows.rows()), found.fingerprint


def with_data(run: Run, **update: Any) -> Run:
    """Return the run with other keys of `data`."""
    return run.model_copy(update={"data": run.data.model_copy(update=update)})


def with_tasks(run: Run, tasks: Mapping[str, Any]) -> Run:
    """Return the run with these tasks, of which each is a section or the keys of its scorer."""
    sections = {name: {"scorer": task} if isinstance(task, dict) else task for name, task in tasks.items()}
    return run.model_copy(update={"scorers": ScorersConfig.model_validate({"tasks": sections})})
