"""Reconcile Redis with the ledger: at every start of a learner, and when Redis went back.

In: the ledger, which decides, and whatever Redis still has. Out: a Redis from which the run continues. The newest
version is announced, groups with an outcome are retired, and missing groups are reissued. Open evaluation rounds are
requested again or, where only later weights could sample them, ended without a result. Runs in the trainer's thread
while the feeder is suspended. Each part may be repeated, so a kill in the middle, or a Redis that goes back again,
costs another recovery and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from broker.errors import WentBack
from broker.group_ids import is_training, order_of, ordinal_of, retried, retry_of
from learner.groups.evaluation import version_of
from learner.groups.feeder import Feeder
from learner.groups.intake import Intake
from learner.groups.reconciliation import LOOK_COUNT, Reconciliation
from learner.journal.ledger import DROPPED, GroupOutcome
from learner.policy_version import PolicyVersion
from learner.weight_sync.publisher import Publisher
from learner.weight_sync.transport import WeightSource

log = logging.getLogger(__name__)
T = TypeVar("T")

CHUNK = 500  # ids per `retire`
ENTRIES = 32  # groups per `reissue`
SHOWN = 10  # ids in a line of the log


class Recovery:
    """Reconcile the Redis and the ledger of one run.

    Args:
        publisher: announces the learner's version to the generators, before any slot is freed.
        weights: of the learner.
        version: the learner's policy version.
        publish_status: writes the run's status and configuration, which Redis may have lost.
    """

    def __init__(
        self,
        intake: Intake,
        reconciliation: Reconciliation,
        feeder: Feeder,
        publisher: Publisher,
        weights: WeightSource,
        *,
        version: PolicyVersion,
        publish_status: Callable[[int], None],
    ) -> None:
        self._run = intake.run
        self._run_owner = intake.run_owner
        self._journal = intake.journal
        self._intake = intake
        self._outcomes = intake.outcomes
        self._reconciliation = reconciliation
        self._feeder = feeder
        self._evaluation = intake.evaluation
        self._version = version
        self._publisher = publisher
        self._weights = weights
        self._publish_status = publish_status

    def surviving(self, act: Callable[[], T]) -> T:
        """Call `act`; where Redis turns out to have gone back, recover and call it again. So it must be repeatable."""
        while True:
            try:
                return act()
            except WentBack as error:
                log.warning("recovering reason=%s", error)
                self.recover()

    def recover(self) -> None:
        """Continue at the learner's version, however often Redis goes back meanwhile.

        Raises:
            Fenced: a newer learner owns the run.
        """
        while True:
            self._journal.check_fence()
            self._publisher.rest()
            try:
                self._bring_together(self._version.trained)
            except WentBack as error:
                log.warning("recovering again reason=%s", error)
            else:
                return

    def _bring_together(self, version: int) -> None:
        with self._feeder.held():
            knew_the_run = self._run_owner.rejoin()
            self._publish_status(version)
            self._publisher.publish(self._weights, version)
            self._intake.reset()
            self._reconciliation.reset()
            self._retire_what_has_ended()
            self._restore_cursor()
            self._issue_again()
            in_redis = {
                version_of(group_id) for group_id in self._run_owner.where() if not is_training(group_id)
            }
            self._evaluation.reopen(in_redis, version)
            self._drop_what_can_not_make_it(version)
            position = self._run_owner.position()
            self._say_what_is_made_again(position, knew_the_run=knew_the_run)
            # Not only at the operator's next poll: a run whose epochs are over would end without them before that.
            self._feeder.insert(self._journal.ledger.open_retries)
            self._feeder.rebase(position)

    def _retire_what_has_ended(self) -> None:
        named = {*self._run_owner.slots(), *self._run_owner.where()}
        ended = [group_id for group_id in named if self._has_ended(group_id)]
        for some in _chunks(ended, CHUNK):
            self._run_owner.retire(some)

    def _has_ended(self, group_id: str) -> bool:
        return self._journal.has(group_id) or (
            not is_training(group_id) and self._evaluation.is_over(group_id)
        )

    def _restore_cursor(self) -> None:
        """Restore the cursor from slots, and from retries with a slot or an outcome; the feeder issues the others.

        A `cursor` that Redis kept with the slots already has all of them; one deleted by hand is restored here. The
        slot of a retry tells nothing about ordinals: in an emptied Redis it comes before them.
        """
        slots = self._run_owner.slots()
        passed = max((ordinal_of(group_id) + 1 for group_id in slots if not retry_of(group_id)), default=0)
        ledger = self._journal.ledger
        waiting = set(ledger.open_retries) - slots.keys()
        numbers = {
            base: number - (retried(base, number) in waiting) for base, number in ledger.retries.items()
        }
        self._run_owner.restore_cursor(passed, {base: number for base, number in numbers.items() if number})

    def _issue_again(self) -> None:
        """Reissue each group that has a slot, no outcome and no stream entry."""
        again: list[str] = []
        for some in _chunks(sorted(self._nowhere(), key=order_of), ENTRIES):
            again += self._run_owner.reissue(self._feeder.entries(some))
        if again:
            log.warning(
                "issued_again count=%d groups=%s: they had a slot and no entry in any stream",
                len(again),
                _some(again),
            )

    def _nowhere(self) -> Iterator[str]:
        for some in _chunks(list(self._run_owner.slots()), LOOK_COUNT):
            for found in self._run_owner.reconcile_view(some):
                if found.group_id in some and not found.issued_at:
                    yield found.group_id

    def _drop_what_can_not_make_it(self, version: int) -> None:
        """Drop the groups that a smaller groups_per_step or max_lag leaves no step to train.

        Where more than the budget may be in flight, it is what is too old and what was issued last; the next step drops
        further surplus. Else the oldest go.
        """
        learner = self._run.learner
        if learner.late_groups != "wait":
            return
        size, max_lag, most = learner.groups_per_step, learner.max_lag, self._run.most_in_flight
        # Redis may have gone back again since groups with an outcome were retired: the ledger is asked again.
        slots = sorted(self._outcomes.open_floors().items(), key=lambda item: (item[1], *order_of(item[0])))
        floors = [floor for _, floor in slots]
        if self._run.may_have_surplus:
            too_old = sum(floor < self._outcomes.lag.oldest(version) for floor in floors)
            gone = slots[:too_old] + slots[too_old + most :]
        else:
            gone = slots[: self._outcomes.lag.too_many(floors, version)]
        if not gone:
            return
        names = [name for name, _ in gone]
        reason = f"config: with groups_per_step={size} and max_lag={max_lag} it could not be trained in time"
        log.warning("dropped count=%d groups=%s reason=%s", len(names), _some(names), reason)
        self._outcomes.settle({name: GroupOutcome(DROPPED, reason) for name in names})

    def _say_what_is_made_again(self, position: int, *, knew_the_run: bool) -> None:
        known = max(
            [
                self._feeder.position,
                *(order_of(group_id)[0] + 1 for group_id in self._journal.ledger.outcomes),
            ]
        )
        again = [str(ordinal) for ordinal in range(position, known) if not self._journal.has(str(ordinal))]
        if not knew_the_run and self._journal.ledger.outcomes:
            # A newly started learner can't know what was in flight beyond the ledger's last group.
            log.warning(
                "redis_was_empty at=%s: it was flushed, or another one is in its place. The run goes on from "
                "its ledger; groups to be generated again: %s%d (%s)",
                self._run_owner.link.address,
                "" if self._feeder.position else "at least ",
                len(again),
                _some(again) or "all that were out",
            )
        elif again:
            log.warning("redis_forgot groups=%d (%s): they are issued again", len(again), _some(again))


def _chunks(items: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _some(ids: Sequence[str]) -> str:
    return " ".join(ids[:SHOWN]) + (" ..." if len(ids) > SHOWN else "")
