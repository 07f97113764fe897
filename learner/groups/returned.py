"""Count returned groups: their mean size, and how many in a row gave nothing, which ends a run.

In: scored entries and dead letters, as they come. Out: bytes for the feeder, and the error that ends a run in which
nothing can train. Used by `learner.groups.intake`.
"""

from __future__ import annotations

from broker.errors import RunFailed
from broker.protocol.streams import Entry
from config.run import Run


class Returned:
    """Count the groups of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._bytes = self._sizes = 0  # sum of sizes and number of all scored entries read
        self._empty_in_a_row = self._dead_in_a_row = 0
        self._last_reason = self._last_death = ""

    def mean_bytes(self) -> float:
        """Return the mean size of a scored group in Redis, bytes; 0 before the first."""
        return self._bytes / self._sizes if self._sizes else 0.0

    def weigh(self, entry: Entry) -> None:
        """Note the size of a scored entry."""
        self._bytes += sum(len(value) for value in entry.raw.values())
        self._sizes += 1

    def scored(self, why_empty: str) -> None:
        """Note a scored training group, and why it has nothing to learn from; "": it has."""
        self._dead_in_a_row = 0
        self._empty_in_a_row = self._empty_in_a_row + 1 if why_empty else 0
        self._last_reason = why_empty

    def died(self, reason: str) -> None:
        """Note a training group that died."""
        self._dead_in_a_row += 1
        self._last_death = reason

    def refuse_endless(self) -> None:
        """Raise RunFailed where too many in a row had nothing to learn from, or died."""
        most = self._run.learner.filters.max_empty_groups
        if self._empty_in_a_row >= most:
            raise RunFailed(
                f"{self._empty_in_a_row} groups in a row had nothing to learn from (the last one: "
                f"{self._last_reason}). The problems are too hard or too easy for this policy, or the "
                "scorer does not understand its answers: look at samples.jsonl. "
                f"learner.filters.max_empty_groups={most}; learner.filters.zero_variance=keep trains on "
                "such groups"
            )
        if self._dead_in_a_row > 2 * self._run.most_in_flight:
            raise RunFailed(
                f"{self._dead_in_a_row} groups in a row went to `dead` and none was scored (the last one: "
                f"{self._last_death}): millrace dead list {self._run.name}"
            )
