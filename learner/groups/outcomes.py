"""Record how groups end without training, then free their slots.

In: groups that were dropped or died, and what a step leaves over. Out: outcomes in the ledger, slots freed in Redis: in
this order, so that a kill in between leaves an outcome and a slot, which the next learner frees.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from broker.errors import RunFailed
from broker.group_ids import ordinal_of
from broker.protocol.run_owner import RunOwner
from config.run import Run
from learner.groups.arrival_statistics import ArrivalCounter
from learner.groups.buffer import GroupBuffer
from learner.groups.discarded import dropped
from learner.groups.lag import LagRule
from learner.groups.retirement import keeps_its_slot
from learner.journal.ledger import DROPPED, OVER, SURPLUS, GroupOutcome
from learner.journal.writer import Journal
from learner.policy_version import PolicyVersion

log = logging.getLogger(__name__)


class Outcomes:
    """End groups of one run.

    Args:
        buffer: the groups that wait for a step.
        version: the learner's policy version.
        arrivals: counts the ends by reason.
    """

    def __init__(
        self,
        run: Run,
        run_owner: RunOwner,
        journal: Journal,
        buffer: GroupBuffer,
        *,
        version: PolicyVersion,
        arrivals: ArrivalCounter,
    ) -> None:
        self.run = run
        self.run_owner = run_owner
        self.journal = journal
        self.buffer = buffer
        self.lag = LagRule.of(run)
        self._version = version
        self._arrivals = arrivals

    def settle(self, ends: Mapping[str, GroupOutcome]) -> None:
        """Record the outcomes, then free the slots: never in the other order."""
        if not ends:
            return
        if again := self.journal.ended(ends):
            raise RunFailed(
                f"group {min(again)} has ended before, and would get a second outcome: this is a bug, please "
                "report it"
            )
        self.journal.end(dict(ends))
        self.run_owner.retire(ends)
        for outcome in ends.values():
            self._arrivals.end(outcome)

    def retire_ended(self, group_id: str) -> None:
        """Retire a group with an outcome, unless the version of its step has yet to be announced."""
        if not keeps_its_slot(group_id, self.journal.ledger, announced=self._version.announced):
            self.run_owner.retire([group_id])

    def open_floors(self) -> dict[str, int]:
        """Return the floors of the groups without an outcome, by id: trained ones may keep their slots for a while."""
        slots = self.run_owner.slots()
        return {group_id: floor for group_id, floor in slots.items() if not self.journal.has(group_id)}

    def surplus(self, floors: Mapping[str, int], version: int) -> set[str]:
        """Return the groups that the steps from `version` on have no room for; none in a run that issues no more."""
        return self.lag.surplus(floors, version) if self.run.may_have_surplus else set()

    def drop_late(self) -> None:
        """Drop the buffered groups that are too old for the learner's version, where `late_groups` says so."""
        late = self.buffer.take_late(self.run.learner, self._version.trained)
        self.settle({group.group_id: dropped(group, reason) for group, reason in late})

    def drop_surplus(self, version: int) -> None:
        """Drop what the steps from `version` on have no room for in time."""
        if self.run.may_have_surplus:
            surplus = self.surplus(self.open_floors(), version)
            self._drop(surplus, f"{SURPLUS}: step {version} had all its groups without this one")

    def drop_expired(self, version: int) -> None:
        """Drop surplus that was issued while its step got its groups: `version` is beyond its lag."""
        if self.run.may_have_surplus:
            oldest = self.lag.oldest(version)
            expired = [group_id for group_id, floor in self.open_floors().items() if floor < oldest]
            self._drop(expired, f"{SURPLUS}: step {oldest} had all its groups when it was issued")

    def drop_the_rest(self) -> None:
        """Drop every group without an outcome, once the last step has its groups."""
        self._drop(self.open_floors(), f"{OVER}: the run's last step had all its groups without this one")

    def retry_the_rest(self) -> None:
        """Record a retry of each group that was over at an earlier end: the run was given more steps."""
        for group_id in self.journal.ledger.over:
            base = str(ordinal_of(group_id))
            self.journal.retry(base, self.journal.ledger.retries.get(base, 0) + 1)

    def _drop(self, group_ids: Iterable[str], reason: str) -> None:
        held = self.buffer.groups
        over = {
            group_id: dropped(held[group_id], reason) if group_id in held else GroupOutcome(DROPPED, reason)
            for group_id in group_ids
        }
        self.buffer.discard(over)
        self.settle(over)
        if over:
            log.info(
                "dropped over=%d: issued in case that others would have nothing to learn from", len(over)
            )
