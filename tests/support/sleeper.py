"""Scorers that are ready at once: for tests of what is around the scorers."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Mapping
from typing import Any

from broker.messages import Score
from scorers.custom import SimpleScorer
from tests.support.station import HANGING


class Sleeper(SimpleScorer):
    """Everything is right, and takes its time; what hangs is wrong.

    Args:
        seconds: for each answer.
        hanging_s: for one that hangs.
    """

    name, version = "sleeper", "1"

    def __init__(self, seconds: float = 0.0, hanging_s: float = 0.0) -> None:
        self._seconds = seconds
        self._hanging_s = hanging_s

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        hangs = text == HANGING
        time.sleep(self._hanging_s if hangs else self._seconds)
        return self.scored(0.0 if hangs else 1.0, "it hung" if hangs else "at last")


class Deadly(Sleeper):
    """A library that crashes, and its process with it, at what would hang."""

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        if text == HANGING:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().score(text, verification_info)
