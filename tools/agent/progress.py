"""Report the start of `millrace agent`: plain lines on standard error, each with the seconds since the first.

In: the current activity. Out: a line at once. Imports nothing heavy, so that the first line appears before slow
imports.
"""

from __future__ import annotations

import sys
import time

from config.run import Run


class Progress:
    """Report progress. The seconds count from here."""

    def __init__(self) -> None:
        self._began = self.said_at = time.monotonic()

    def __call__(self, text: str) -> None:
        """Write a line."""
        self.said_at = time.monotonic()
        sys.stderr.write(f"{self.said_at - self._began:4.0f} s  {text}\n")
        sys.stderr.flush()


def what_starts(run: Run) -> str:
    """Describe what a run of one row starts."""
    redis = "on the Redis of REDIS_URL" if run.broker.url else "with a Redis of its own"
    engine = f"engine {run.generators.engine.type}, model {run.model.path}"
    return (
        f"starting run {run.name} {redis}: a collector, {run.generators.count} generator ({engine}), "
        f"{run.agents.count} agent, {run.scorers.workers} scorer; their logs: {run.folder / 'logs'}"
    )
