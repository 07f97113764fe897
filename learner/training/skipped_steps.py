"""This module counts steps in a row whose gradient was not finite, so that the weights stayed as they were.

In: the metrics of each step that was just committed. Out: nothing, or the end of the run with the reason. Used by the
learner's loop in rank 0. Replayed steps are not counted: each start of a run that ended for this reason may try again.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.errors import RunFailed
from learner.training.backend import SKIPPED


class SkippedSteps:
    """Counts the skipped steps since the last step that was applied.

    Args:
        most: `learner.max_skipped_steps`: so many in a row end the run.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._in_a_row = 0

    def count(self, version: int, metrics: Mapping[str, float]) -> None:
        """Count a step as skipped or applied.

        Args:
            version: optimizer steps done, this one included.
            metrics: what the backend returned for the step.
        Raises:
            RunFailed: too many in a row were skipped.
        """
        self._in_a_row = self._in_a_row + 1 if metrics.get(SKIPPED) else 0
        if self._in_a_row >= self._most:
            raise RunFailed(
                f"the gradients of {self._in_a_row} steps in a row, up to version {version}, were not finite, and "
                "the weights have not changed since. Look at the rewards and at learner.objective. Started again, the "
                f"run goes on from these weights; learner.max_skipped_steps={self._most} says how many are borne"
            )
