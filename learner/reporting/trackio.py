"""This logger keeps a run in trackio, on this machine or in a space of the hub.

In: the objects of steps. Out: a run of the same name as here. A run that goes on is the same run there.
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
        """Begin the run there, or go on with it.

        Args:
            run: the resolved run; its configuration goes along, without secrets.
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
        """Keep each number of a step, and of the newest round that has ended."""
        self._run.log(with_newest_round(record), step=record["step"])

    def sample(self, record: Mapping[str, Any]) -> None:
        """Keep nothing: samples are in `samples.jsonl`."""

    def close(self) -> None:
        """Write what is left."""
        self._run.finish()
