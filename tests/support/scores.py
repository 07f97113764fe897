"""A score for tests, by its value alone."""

from __future__ import annotations

from typing import Any

from broker.messages import Score, ScoreStatus


def a_score(value: float | None, reason: str = "", **more: Any) -> Score:
    """Return a score by the scorer math, version 1; without a value it is unscorable."""
    status = ScoreStatus.UNSCORABLE if value is None else ScoreStatus.SCORED
    return Score(status=status, value=value, reason=reason, **{"scorer": "math", "version": "1", **more})
