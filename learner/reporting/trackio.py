"""Log to trackio, on this machine or in a space of the hub.

In: the records of steps. Out: a trackio run with the run's name. A continued run continues it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config.learner.reporting import TrackioConfig
from config.loading import run_tree
from config.run import Run
from learner.reporting.scalars import with_newest_round


class Trackio:
    """A `Logger` of curves."""

    def __init__(self, run: Run, config: TrackioConfig) -> None:
        """Start the trackio run, or continue it.

        Args:
            run: the resolved run; its configuration is logged, without secrets.
            config: project and space.
        """
        import trackio

        self._run: Any = trackio.init(
            project=config.project,
            name=run.name,
            space_id=config.space_id,
            resume="allow",
            config=run_tree(run),
        )

    def log(self, record: Mapping[str, Any]) -> None:
        """Log each number of a step, and of the newest ended round."""
        self._run.log(with_newest_round(record), step=record["step"])

    def sample(self, record: Mapping[str, Any]) -> None:
        """Do nothing: samples are in `samples.jsonl`."""

    def close(self) -> None:
        """Write remaining records."""
        self._run.finish()
