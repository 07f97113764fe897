"""Take returned groups, record them, free their slots; until every row has an outcome.

In: scored groups. Out: their record and payload in the journal. Runs in the learner's place, in one thread, with the
feeder and publisher in parallel. A crash between record and retirement leaves a group with an outcome and a slot: the
next incarnation retires it. A crash before the record leaves the group in Redis, where it is read again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

from broker.messages import ScoredGroup
from learner.assembly import Parts
from learner.collect.admission import why_dead
from learner.groups.selection import SAY_EVERY_S
from learner.incarnation import DRAINED, FINISHED, STOPPED

log = logging.getLogger(__name__)

MOST_AT_ONCE = 64  # groups per record
BLOCK_S = 0.5


class CollectingLoop:
    """Collect in one incarnation. `learner.collect.session` provides all parts.

    Args:
        rows: number of groups.
        set_state: receives the progress, for the heartbeat.
        count: receives the number of rows with an outcome and of all rows, every few seconds and at the end.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        rows: int,
        set_state: Callable[[str], None],
        count: Callable[[int, int], None] = lambda _done, _rows: None,
    ) -> None:
        self.run = parts.claimed.run
        self.journal = parts.claimed.journal
        self.intake = parts.intake
        self.reconciliation = parts.reconciliation
        self.selection = parts.selection
        self.feeder = parts.feeder
        self.recovery = parts.recovery
        self.publisher = parts.publisher
        self._rows = rows
        self._set_state = set_state
        self._count = count
        self._said = time.monotonic()

    def collect(self) -> str:
        """Collect until every row has an outcome, or until an operator or a signal ends the run.

        Returns:
            FINISHED, DRAINED or STOPPED.
        """
        surviving = self.recovery.surviving
        self.recovery.recover()
        surviving(self.selection.poll_operator)
        self.feeder.start()
        while (groups := surviving(self._take)) is not None:
            surviving(partial(self._record, groups))
        self.feeder.stop()
        self._count(self._done(), self._rows)
        if self.selection.is_stopped:
            return STOPPED
        is_complete = all(self.journal.has(str(ordinal)) for ordinal in range(self._rows))
        return FINISHED if is_complete else DRAINED

    def _take(self) -> list[ScoredGroup] | None:
        """Return returned groups; None once stop was requested, or nothing is in flight or left to issue."""
        self.selection.poll()
        while not self.selection.is_stopped:
            while self.intake.read(block_s=0) and len(self.intake.buffer) < MOST_AT_ONCE:
                pass
            if groups := self.intake.buffer.oldest(MOST_AT_ONCE):
                self.selection.meter.hold(1.0)
                return groups
            if self.selection.has_run_dry():
                return None
            self.selection.meter.hold(0.0, "operator" if self.selection.is_paused else "groups")
            self.intake.read(block_s=BLOCK_S)
            self.selection.poll()
            self._say()
        return None

    def _record(self, groups: list[ScoredGroup]) -> None:
        """Record groups, unless that was done before Redis went back; then free their slots."""
        ids = [group.group_id for group in groups]
        new = [group for group in groups if not self.journal.has(group.group_id)]
        if new:
            dead = {group.group_id: why for group in new if (why := why_dead(group)) is not None}
            self.journal.collect(new, dead=dead)
            self.selection.meter.count(groups=len(new))
        self.intake.buffer.discard(ids)
        self.intake.run_owner.retire(ids)
        self.feeder.wake()
        self._say()

    def _say(self) -> None:
        """Report the progress, to the heartbeat always and to the log periodically."""
        reconciled = self.reconciliation.latest
        places = ", ".join(f"{count} in {stream}" for stream, count in reconciled.places.items() if count)
        paused = f"; paused by the operator: millrace resume {self.run.name}" * self.selection.is_paused
        state = (
            f"collected {self._done()} of {self._rows} rows; out: {places or 'none'}; oldest "
            f"{reconciled.oldest_s:.0f} s{paused}{self.selection.memory_note()}{self.selection.who_is_missing()}"
        )
        self._set_state(state)
        if time.monotonic() - self._said > SAY_EVERY_S:
            self._said = time.monotonic()
            log.info("%s", state)
            self._count(self._done(), self._rows)

    def _done(self) -> int:
        """Return how many rows have an outcome; a retried one has none until it returns."""
        ledger = self.journal.ledger
        return len(ledger.outcomes) - sum(ledger.retries.values())
