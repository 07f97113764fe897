"""Sum up episodes that an agent's or environment's own code ended: how many, and by what.

In: the metrics of steps. Out: one sentence for people, with the share and each exception. Used by the alarms when it
grows, and by the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from learner.groups.facts.crashes import OTHERS

NAMED_KINDS: Final = 3  # in the sentence, the most frequent first
MOST_KINDS: Final = 500  # counted apart, those that came first; the rest is one


class CrashSums:
    """The crashes of some steps."""

    def __init__(self) -> None:
        self.episodes = 0  # that returned
        self.counts: dict[str, int] = {}  # crashed episodes, by kind
        self._scored = 0
        self._said: dict[str, str] = {}  # message of the newest of a kind

    def add(self, record: Mapping[str, Any]) -> None:
        """Add the metrics of a step."""
        arrived = record.get("arrived", {})
        self.episodes += arrived.get("episodes", {}).get("count", 0)
        for name, found in arrived.get("crashes", {}).items():
            kind = name if name in self.counts or len(self.counts) < MOST_KINDS else OTHERS
            self.counts[kind] = self.counts.get(kind, 0) + found["episodes"]
            self._scored += found["scored"]
            self._said[kind] = found["said"]

    @property
    def crashed(self) -> int:
        """The number of crashed episodes."""
        return sum(self.counts.values())

    @property
    def share(self) -> float:
        """Their share of all episodes."""
        return self.crashed / self.episodes if self.episodes else 0.0

    def text(self) -> str:
        """Return the sentence; call it only where there are crashes."""
        kinds = sorted((kind for kind in self.counts if kind != OTHERS), key=lambda kind: -self.counts[kind])
        named = "; ".join(f"{self.counts[kind]} by {self._named(kind)}" for kind in kinds[:NAMED_KINDS])
        rest = self.crashed - sum(self.counts[kind] for kind in kinds[:NAMED_KINDS])
        how_many = "many" if OTHERS in self.counts else len(kinds) - NAMED_KINDS
        more = f"; {rest} by {how_many} others" if rest else ""
        return (
            f"{self.crashed} of {self.episodes} episodes so far ({self.share:.1%}) were ended by what their own agent, "
            f"tool or environment raised, {self._fate()}: {named}{more}. Answer the policy's odd arguments with a text "
            "in place of an exception; the agents' log has each (episode_failed)"
        )

    def _named(self, kind: str) -> str:
        said = self._said[kind]
        return f"{kind} ({said})" if said and said != kind else kind

    def _fate(self) -> str:
        scored, unscored = self._scored, self.crashed - self._scored
        if not unscored:
            return "and are scored as they stood (agents.on_repeated_crash)"
        if not scored:
            return "and have no score"
        return f"{scored} of them scored as they stood (agents.on_repeated_crash), {unscored} without a score"
