"""An environment for a run under chaos, as one's own (`import_path`): a few turns that take a while.

In: a row's answer, and what the policy says. Out: the same request until the last turn, then whether that was right.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

TURNS = 3


class AskingAgain:
    """Asks three times; the last answer counts."""

    reward_range = (0.0, 1.0)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked = 0
        self._right = ""

    def reset(self, row: Mapping[str, Any], seed: int) -> None:
        """Begin with the row's own prompt."""
        del seed
        self._asked = 0
        self._right = f"\\boxed{{{row['answer']['value']}}}"

    def step(self, action: str) -> tuple[str, float | None, bool, bool, dict[str, Any]]:
        """Answer as Gymnasium does, a little later."""
        time.sleep(self._seconds)
        self._asked += 1
        if self._asked < TURNS:
            return "Say it again.", None, False, False, {}
        return "", float(action == self._right), True, False, {}
