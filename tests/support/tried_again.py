"""Answers that are judged as a worker judges them: what other programs of this user got in the way of is tried again."""

from __future__ import annotations

import time
from typing import Any

from broker.errors import Retryable
from broker.messages import Score
from scorers.code.scorer import CodeTests
from scorers.sandbox.program import CROWDED

TRIES = 4


def score_of(scorer: CodeTests, text: str, verification_info: dict[str, Any]) -> Score:
    """Score one answer; a sandbox that had too few processes left is waited for. Raises what else goes wrong."""
    for attempt in range(TRIES - 1):
        try:
            return scorer.score(text, verification_info)
        except Retryable as error:
            if CROWDED not in str(error):
                raise
            time.sleep(attempt + 0.5)
    return scorer.score(text, verification_info)
