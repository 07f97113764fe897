"""A scorer that takes a second a group, for the proof that more containers score more: half a second a completion."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from broker.messages import Score
from scorers.custom import SimpleScorer


class Sleepy(SimpleScorer):
    """Half a second, then 1 or 0 by turns: a group of two has something to learn."""

    name = "sleepy"
    version = "1"

    def __init__(self) -> None:
        self._turn = False

    def score(self, text: str, _: Mapping[str, Any]) -> Score:
        """1.0 or 0.0, half a second later."""
        time.sleep(0.5)
        self._turn = not self._turn
        return self.scored(float(self._turn), f"slept over {len(text)} characters")
