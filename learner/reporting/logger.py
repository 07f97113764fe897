"""The seam of the loggers: a logger receives a run's metrics and sample answers.

In: JSON objects. Out: up to the logger. Rank 0 calls a logger between two steps, so it should return soon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Logger(Protocol):
    """A receiver of metrics."""

    def log(self, record: Mapping[str, Any]) -> None:
        """Log the record of one step, or of evaluation rounds that ended after the last step.

        Args:
            record: `step`, and the metrics by name; `evaluations` with the rounds that have ended since the last
                record. A step's record has `reward_mean`. A replayed step is logged only if the metrics file does not
                have it.
        """
        ...

    def sample(self, record: Mapping[str, Any]) -> None:
        """Log one sample answer: `step`, `group`, `prompt`, `answer`, `reward`, `reason` and more.

        For an episode, also `messages`: everything after the prompt, of which `answer` is the last.
        """
        ...

    def close(self) -> None:
        """Finish: no more records follow."""
        ...
