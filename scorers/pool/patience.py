"""A worker's patience is how long one case of a program may take while other groups may be waiting.

In: the numbers of answers that were scored, and each group that was put off. Out: seconds. Kept by each scorer worker
for itself. Where answers take long as a rule, putting them off would only score them twice, so patience grows.
"""

from __future__ import annotations

from typing import Final

WINDOW: Final = 256  # answers after which older ones count half
LEAST: Final = 4  # groups put off before patience may grow: the first answers of a run say little
SHARE: Final = 0.1  # of the answers that may be put off


class Patience:
    """This object says how long a case may take, and doubles that when too many answers are put off."""

    def __init__(self, seconds: float | None) -> None:
        """Begin with `seconds`; None: nothing is ever put off."""
        self._seconds = seconds
        self._answers = 0.0
        self._put_off = 0.0

    @property
    def seconds(self) -> float | None:
        """Return the seconds of a case, or None where there is no bound."""
        return self._seconds

    def scored(self, answers: int) -> None:
        """Count answers that were scored in time."""
        self._answers += answers
        if self._answers > WINDOW:
            self._answers /= 2
            self._put_off /= 2

    def put_off(self) -> bool:
        """Count an answer for which its group was put off. Returns whether patience has grown."""
        self._put_off += 1
        self._answers += 1
        if self._seconds is None or self._put_off < LEAST or self._put_off <= SHARE * self._answers:
            return False
        self._seconds *= 2
        self._answers = self._put_off = 0.0
        return True
