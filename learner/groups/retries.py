"""Issue dead groups anew, as an operator asked with `millrace dead retry`.

In: the hash `retries`, from a dead group's id to the entry of its letter. Out: new groups, `17-r1` for `17`, each noted
in the ledger before the feeder lets it in. The trainer's thread looks about once a second.
"""

from __future__ import annotations

import logging

from broker.group_ids import is_training, ordinal_of, retried
from learner.groups.feeder import Feeder
from learner.journal.ledger import DEAD
from learner.journal.writer import Journal

log = logging.getLogger(__name__)


class Retries:
    """One learner's."""

    def __init__(self, journal: Journal, feeder: Feeder) -> None:
        self._journal = journal
        self._feeder = feeder
        self._run_owner = feeder.run_owner

    def look(self) -> None:
        """Let in what was asked for, and what was noted and never came in."""
        for dead_id in self._run_owner.retry_requests():
            if reason := self._note(dead_id):
                log.warning("retry_refused group=%s reason=%s", dead_id, reason)
                self._run_owner.discard_retry_requests([dead_id])
        noted = self._journal.ledger.retries.items()
        missing = [
            group_id for base, number in noted if not self._journal.has(group_id := retried(base, number))
        ]
        if missing:
            self._feeder.insert(missing)  # which passes over those that are in

    def _note(self, dead_id: str) -> str:
        """Make a retry durable before it is issued: a Redis that forgets it is told again. Returns why it can't be."""
        outcome = self._journal.ledger.outcomes.get(dead_id)
        if outcome is None or outcome.kind != DEAD or not is_training(dead_id):
            return (
                "it has no outcome yet" if outcome is None else f"no dead training group but {outcome.kind}"
            )
        base = str(ordinal_of(dead_id))
        number = self._journal.ledger.retries.get(base, 0)
        newest = retried(base, number) if number else base
        if newest == dead_id:
            self._journal.retry(base, number + 1)
        elif self._journal.has(newest):
            return f"it was retried as {newest}"
        return ""
