"""Scores as scorers give them, for tests of what becomes of them."""

from __future__ import annotations

from broker.messages import Score, ScoreStatus


def a_score(value: float | None, reason: str = "because", **components: float) -> Score:
    """Return a score of mathematics; unscorable without a value."""
    return Score(
        status=ScoreStatus.UNSCORABLE if value is None else ScoreStatus.SCORED,
        value=value,
        reason=reason,
        scorer="math",
        version="1",
        seconds=0.5,
        components=components,
    )
