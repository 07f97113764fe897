"""Scorers that cost time to wait and nothing else, as one's own (`import_path`).

In: any text. Out: 1.0 a second later, for the benchmark `pool`: what is left is the pool's own doing. Or, a little
later, whether the text is the box that a run under chaos wants: its scorers are at work when they are killed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from broker.messages import Score
from scorers.custom import SimpleScorer


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
