"""A scorer that costs a second of waiting and nothing else: what is left is the pool's own doing.

In: any text. Out: 1.0 a second later. Used by the benchmark `pool`, as one's own scorer (`import_path`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from broker.messages import Score
from scorers.custom import SimpleScorer


class Sleeper(SimpleScorer):
    """Sleeps for a second a completion."""

    name = "sleeper"
    version = "1"

    def score(self, text: str, _: Mapping[str, Any]) -> Score:
        """1.0, a second later."""
        time.sleep(1.0)
        return self.scored(1.0, f"slept over {len(text)} characters")
