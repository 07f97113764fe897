"""Count consecutive steps whose gradient was not finite, so that the weights did not change.

In: the metrics of each step that was just committed. Out: nothing, or the end of the run with the reason. Used by the
learner's loop in rank 0. Replayed steps are not counted: each restart of a run that ended for this reason may try
again.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.errors import RunFailed
from learner.training.backend import SKIPPED


class SkippedSteps:
    """Count the skipped steps since the last applied step.

    Args:
        most: `learner.max_skipped_steps`: that many in a row end the run.
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
            RunFailed: too many consecutive steps were skipped.
        """
        self._in_a_row = self._in_a_row + 1 if metrics.get(SKIPPED) else 0
        if self._in_a_row >= self._most:
            raise RunFailed(
                f"the gradients of {self._in_a_row} steps in a row, up to version {version}, were not finite, and "
                "the weights have not changed since. Look at the rewards and at learner.objective. Started again, the "
                f"run goes on from these weights; learner.max_skipped_steps={self._most} says how many are borne"
            )
