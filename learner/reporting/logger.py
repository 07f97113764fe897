"""The seam of the loggers: a logger receives a run's metrics and sample answers.

In: objects that JSON holds. Out: what the logger makes of them. Rank 0 calls a logger between two steps, so it should
not wait long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Logger(Protocol):
    """A receiver of metrics."""

    def log(self, record: Mapping[str, Any]) -> None:
        """Take the object of one step, or of evaluation rounds that ended after the last step.

        Args:
            record: `step`, and the metrics by name; `evaluations` with the rounds that have ended since the last
                object. A step's object has `reward_mean`. A step that is trained again is logged only if it was not
                in the metrics file before.
        """
        ...

    def sample(self, record: Mapping[str, Any]) -> None:
        """Take one sample answer: `step`, `group`, `prompt`, `answer`, `reward`, `reason` and more.

        Of an episode, `messages` too: what was said behind the prompt, of which `answer` is the last.
        """
        ...

    def close(self) -> None:
        """Finish: nothing more comes."""
        ...
