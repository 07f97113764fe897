"""A scorer that takes as long for a text as a file says at the moment: for tests that turn a stage slow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.messages import Score
from scorers.custom import SimpleScorer


class Paced(SimpleScorer):
    """Everything is right.

    Args:
        file: holds the seconds.
    """

    name, version = "paced", "1"

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        time.sleep(float(self._file.read_text()))
        return self.scored(1.0, "at last")
