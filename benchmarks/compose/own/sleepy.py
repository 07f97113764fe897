"""A scorer that takes half a second a completion, for the proof that more containers score more."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from broker.messages import Score
from scorers.custom import SimpleScorer


class Sleepy(SimpleScorer):
    """A scorer that waits half a second, then gives 1 or 0 by turns, so that a group of two differs."""

    name = "sleepy"
    version = "1"

    def __init__(self) -> None:
        self._turn = False

    def score(self, text: str, _: Mapping[str, Any]) -> Score:
        """Return 1.0 or 0.0, half a second later."""
        time.sleep(0.5)
        self._turn = not self._turn
        return self.scored(float(self._turn), f"slept over {len(text)} characters")
