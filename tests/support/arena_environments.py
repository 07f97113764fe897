"""The environments of an arena's tests: what they do is said by the row, by the policy, or by a file on the disk."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


class Ladder:
    """It asks `turns` times, and pays a share for each right answer."""

    def reset(self, row: dict[str, Any], seed: int, *, token: str) -> str:
        if "fails" in row and token.endswith(row.get("fails_in", "")):
            raise RuntimeError(row["fails"])
        self._turns, self._taken = int(row.get("turns", 2)), 0
        self._breaks_at, self._once = int(row.get("breaks_at", -1)), row.get("once")
        return f"Problem {seed}."

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._taken == self._breaks_at and not (self._once and Path(self._once).exists()):
            if self._once:
                Path(self._once).touch()
            raise ZeroDivisionError("the ladder broke")
        self._taken += 1
        if action == "exit":
            os._exit(3)
        if action == "hang":
            time.sleep(100)
        if action == "cheat":
            return "?", 7.0, True, False, {}
        is_over = self._taken >= self._turns
        return f"Step {self._taken}.", (action == "right") / self._turns, is_over, False, {}
