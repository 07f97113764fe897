"""Scorers that cost time to wait and nothing else, as one's own (`import_path`).

In: any text. Out: 1.0 a second later, for the benchmark `pool`: what is left is the pool's own doing. Or, a little
later, whether the text is the box that a run under chaos wants: its scorers are at work when they are killed. Or what
the math scorer says, after a second of thought for each group.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from broker.messages import Score
from config.scorer_kinds import MathConfig
from scorers.custom import SimpleScorer
from scorers.math.scorer import MathAnswer


class Sleeper(SimpleScorer):
    """A scorer that sleeps for a second a completion."""

    name = "sleeper"
    version = "1"

    def score(self, text: str, _: Mapping[str, Any]) -> Score:
        """Return 1.0, a second later."""
        time.sleep(1.0)
        return self.scored(1.0, f"slept over {len(text)} characters")


class SlowBox(SimpleScorer):
    """A scorer that sleeps for a while, then looks whether the text is the right answer in its box."""

    name = "slow_box"
    version = "1"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def score(self, text: str, row: Mapping[str, Any]) -> Score:
        """Return 1.0 or 0.0."""
        time.sleep(self._seconds)
        return self.scored(float(text == f"\\boxed{{{row['answer']['value']}}}"), "compared")


class ThinkingJudge(SimpleScorer):
    """A judge that scores as the math scorer does, once it has thought about the group for a while."""

    name = "thinking_judge"
    version = "1"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._math = MathAnswer(MathConfig())
        self._is_new = False  # the group: nothing of it has been scored

    def check_row(self, row: Mapping[str, Any]) -> None:
        """Raise BadMessage as the math scorer does; called before the first answer of each group."""
        self._math.check_row(row)
        self._is_new = True

    def score(self, text: str, row: Mapping[str, Any]) -> Score:
        """Return the math scorer's score, of a group's first answer after the thought."""
        if self._is_new:
            time.sleep(self._seconds)
            self._is_new = False
        return self._math.score(text, row)

    def self_test(self) -> None:
        """Raise SelfTestFailed as the math scorer does."""
        self._math.self_test()

    def close(self) -> None:
        """End the math scorer's child."""
        self._math.close()
