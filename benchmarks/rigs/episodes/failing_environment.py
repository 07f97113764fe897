"""An environment that fails in the way that its row names, in some of a group's episodes.

In: a row with `fails`, one of `WAYS` or "", and the episode's own seed. Out: what the worker makes of it is for the
benchmark to see. Imports nothing, since it runs in a child of the worker.
"""

from __future__ import annotations

import os
import time
from typing import Any

WAYS = {  # -> what names it in the episode's remark
    "hangs": "no answer within step_deadline_s",
    "leaks": "memory_mb",
    "raises": "failed in reset: ",
    "is late": "no answer within step_deadline_s",
    "exits": "with exit code 3",
}
ONE_IN = 2  # episodes of such a group fails, by its seed
LATE_S = 0.5
LEAK_BYTES = 1 << 30


class Failing:
    """Answers at once, for two turns, unless it fails."""

    def __init__(self, step_deadline_s: float) -> None:
        self._deadline_s, self._taken = step_deadline_s, 0

    def reset(self, row: dict[str, Any], seed: int, own_seed: int) -> str:
        """Ask something."""
        self._fails = str(row["fails"]) if own_seed % ONE_IN == 0 else ""
        if self._fails == "raises":
            raise RuntimeError(f"problem {seed} is missing")
        return f"Problem {seed}."

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Go on, or fail."""
        del action
        self._taken += 1
        match self._fails:
            case "hangs":
                while True:
                    time.sleep(1)
            case "leaks":
                bytearray(LEAK_BYTES)
            case "is late":
                time.sleep(self._deadline_s + LATE_S)
            case "exits":
                os._exit(3)
        return "Go on.", 0.5, self._taken >= 2, False, {}
