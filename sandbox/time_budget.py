"""A time budget limits what one answer may take, all its runs together.

In: what each run took by itself, as its `ProgramOutcome` says. Out: how much is left. Kept by those who judge answers
(`verdicts.code.judging`, `scorers.swe.trial`), who have every run made here. A full queue, a server that hangs until
another one is asked, walls that are slow to stand: nothing of that is the answer's doing, and none of it is charged.
Where it takes too long, `SandboxUnavailable` is raised: the answer is judged later, and is no zero.
"""

from __future__ import annotations

import time
from typing import Final

from sandbox.limits import Limits
from sandbox.program import ProgramOutcome, ReadyProgram, SandboxUnavailable

WAIT_S: Final = 10.0  # that may be lost beyond as long as the answer itself has


class TimeBudget:
    """A clock that stands while nothing of the answer runs."""

    def __init__(self, seconds: float, *, of: TimeBudget | None = None) -> None:
        """Begin a budget of which nothing is used.

        Args:
            seconds: for all runs together.
            of: the budget that is charged for every second of this one, too.
        """
        self._seconds = seconds
        self._whole = of
        self._used_s = 0.0
        self._began = time.monotonic()

    @property
    def left_s(self) -> float:
        """Return the seconds that are left: 0 or less where the budget is used up."""
        own = self._seconds - self._used_s
        return own if self._whole is None else min(own, self._whole.left_s)

    @property
    def used_s(self) -> float:
        """Return the seconds that were charged."""
        return self._used_s

    def charge(self, seconds: float) -> None:
        """Count seconds that the answer took."""
        self._used_s += seconds
        if self._whole is not None:
            self._whole.charge(seconds)

    def run(self, prepared: ReadyProgram, stdin: bytes, limits: Limits) -> ProgramOutcome:
        """Have a program run, and charge what it took.

        Raises:
            SandboxUnavailable: as the run, or too much time was lost before it.
        """
        lost_s = time.monotonic() - self._began - self._used_s
        if lost_s > self._seconds + WAIT_S:
            raise SandboxUnavailable(
                f"the sandbox is slow: {lost_s:.0f} s were lost beside the {self._used_s:.1f} s "
                f"that the program ran, of {self._seconds:g} s that it has"
            )
        outcome = prepared.run(stdin, limits)
        self.charge(outcome.seconds)
        return outcome
