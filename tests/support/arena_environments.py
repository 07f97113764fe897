"""The environments of an arena's tests: what they do is said by the row, by the policy, or by a file on the disk."""

from __future__ import annotations

import os
import random
import signal
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
        if action == "kill":
            os.kill(os.getppid(), signal.SIGKILL)  # of all children of the task
            time.sleep(100)
        if action == "hang":
            time.sleep(100)
        if action == "cheat":
            return "?", 7.0, True, False, {}
        is_over = self._taken >= self._turns
        return f"Step {self._taken}.", (action == "right") / self._turns, is_over, False, {}


class Walk:
    """It asks two to six times, as the episode's own chance says, at a length by the same chance.

    What it says at step `fickle` is another text whenever the episode is played. One episode of a group `breaks` at that
    step, once. At step `turns_back` its `word` tells the test's rendering to rewrite the history.
    """

    def reset(self, row: dict[str, Any], seed: int, own_seed: int) -> str:
        self._row, self._chance, self._taken = row, random.Random(own_seed), 0
        self._turns = self._chance.randint(2, 6)
        alone = f" You are {own_seed}." if row.get("apart") else ""
        return f"Walk {seed}.{alone}"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        del action
        self._taken += 1
        if self._taken == self._row.get("breaks") and not (once := Path(self._row["once"])).exists():
            once.touch()
            raise ZeroDivisionError("the walk broke")
        is_fickle = self._taken == self._row.get("fickle")
        said = os.urandom(8).hex() if is_fickle else "-" * self._chance.randint(0, 9)
        word = self._row["word"] if self._taken == self._row.get("turns_back") else "Go on"
        return f"{word}. <{said}>", self._chance.random(), self._taken >= self._turns, False, {}


class Doubt:
    """It begins with the row's own question, doubts the answer until it was given in a box three times, and pays words."""

    def reset(self, row: dict[str, Any], seed: int) -> None:
        del row, seed
        self._boxes = 0

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._boxes += "\\boxed" in action
        return "Is it?", min(len(action), 50) / 200, self._boxes == 3, False, {}
