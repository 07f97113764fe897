"""Reconcile the groups in flight with Redis: fetch what a lost reply hid, dead-letter what is late, notice deletions.

In: slots and entries as Redis has them, a few at a time. Out: entries for intake, dead letters for groups past their
deadline, and an error where an entry is gone. Called every few seconds while the learner waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from broker.codec import text
from broker.errors import WentBack
from broker.keys import DEAD, EPISODES, PROMPTS, ROLLOUTS, SCORED, WORK_STREAMS
from broker.protocol.run_reader import EntryPlace, Sighting
from learner.groups.intake import Intake
from learner.groups.working_time import WorkingTime

LOOK_COUNT = 64  # entries that a reconciliation reads: Redis does nothing else while it copies them


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Where the groups without an outcome are, by the last reconciliation."""

    places: dict[str, int]  # stream -> groups
    oldest_s: float  # age of the oldest unscored group, in working time


class Reconciliation:
    """Reconcile one run's groups.

    Args:
        intake: takes in the entries that it has not read.
        working_time: by which groups age.
        tell_lost: receives at each look the seconds so far in which no process could work.
    """

    def __init__(
        self,
        intake: Intake,
        working_time: WorkingTime,
        *,
        tell_lost: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.run = intake.run
        self.run_owner = intake.run_owner
        self.time = working_time
        self.latest = Reconciled({}, 0.0)
        self._intake = intake
        self._journal = intake.journal
        self._evaluation = intake.evaluation
        self._tell_lost = tell_lost
        self._nowhere: set[str] = set()  # ids without an entry at the last look
        self._deadlines: dict[str, float] = {}  # by id, of groups past the shortest deadline
        self._since: dict[str, float] = {}  # working time of issue, by id; looked at longest ago first

    def reset(self) -> None:
        """Begin again: Redis went back, and a reissued group starts again."""
        self._nowhere.clear()
        self._since.clear()

    def look(self, *, is_paused: bool = False) -> None:
        """Look at some groups in flight, and at the open evaluation rounds.

        Raises:
            WentBack: a group has a slot and no entry, at two looks.
        """
        lost_s = self.time.look(is_paused=is_paused, group_bytes=self._intake.returned.mean_bytes())
        self._evaluation.rounds.excuse(lost_s)
        self._tell_lost(self.time.lost_s)
        places, oldest = dict.fromkeys(WORK_STREAMS, 0), 0.0
        nowhere: set[str] = set()
        for found in self.run_owner.reconcile_view(self._to_look_at()):
            if self._journal.has(found.group_id):
                self._intake.outcomes.retire_ended(found.group_id)
            elif not found.issued_at:
                nowhere.add(found.group_id)
            else:
                places[found.stream] += 1
                oldest = max(oldest, self._look_at(found))
        if lost := sorted(nowhere & self._nowhere):
            raise WentBack(
                f"group {lost[0]} (at least {len(lost)} in all) has a slot, and no entry in any stream: "
                f"somebody deleted an entry or a key of {self.run_owner.keys.prefix}*"
            )
        self._nowhere = nowhere
        self.latest = Reconciled(places, oldest)
        self._fetch_evaluation()

    def _look_at(self, found: Sighting) -> float:
        """Fetch a group that intake has not read, or end it past its deadline. Returns its age while it is unscored."""
        group_id, place = found.group_id, EntryPlace(found.stream, found.entry_id)
        age = self._age(group_id, found.issued_at, now=self.time.now())
        if found.stream in {PROMPTS, EPISODES, ROLLOUTS}:
            self._dead_letter_if_late(group_id, place, age)
            return age
        if found.stream == DEAD or group_id not in self._intake.buffer:
            self._intake.accept(self.run_owner.fetch(place))
        return 0.0

    def _to_look_at(self) -> list[str]:
        """Return a few ids for the reconciliation: those not found, the new ones, and the others in turn."""
        ids = self.run_owner.slots()
        self._since = {group_id: since for group_id, since in self._since.items() if group_id in ids}
        self._deadlines = {group_id: s for group_id, s in self._deadlines.items() if group_id in ids}
        new = (group_id for group_id in ids if group_id not in self._since)
        return list(dict.fromkeys([*sorted(self._nowhere), *new, *self._since]))[:LOOK_COUNT]

    def _age(self, group_id: str, issued_at: str, *, now: float) -> float:
        """Return the working time since a group's issue in seconds, unaffected by changes of the machine's clock.

        The header's time counts only at the first look, and only if plausible: after a jump of the clock every group in
        flight would be past its deadline, or none for the length of the jump. Time lost before that look may have been
        lost since the issue, and is credited to the group.
        """
        if issued_at == "?":
            return now - self._since.get(group_id, now)
        since = self._since.pop(group_id, None)
        if since is None:
            age = time.time() - float(issued_at)
            is_plausible = 0 <= age <= self.run.deadlines[1]
            since = now - (max(0.0, age - self.time.lost_s) if is_plausible else 0.0)
        self._since[group_id] = since
        return now - since

    def _fetch_evaluation(self) -> None:
        """Fetch entries of the open rounds that a lost reply hid: without a slot, `reconcile_view` misses them."""
        missing = [
            group_id for current in self._evaluation.rounds.open.values() for group_id in current.missing
        ]
        for place in self.run_owner.places(missing):
            if place is not None and place.stream in {SCORED, DEAD}:
                self._intake.accept(self.run_owner.fetch(place))

    def _dead_letter_if_late(self, group_id: str, place: EntryPlace, age: float) -> None:
        """Dead-letter a group past its task's deadline. Its entry is fetched once, for the task."""
        if age <= self._deadlines.get(group_id, self.run.deadlines[0]):
            return
        for entry in self.run_owner.fetch(place):
            task = text(entry.raw, "task", "")
            deadline_s = self._deadlines[group_id] = self.run.deadline_of(task)
            if age > deadline_s:
                has_own = deadline_s != self.run.learner.group_deadline_s
                key = f"scorers.tasks.{task}.deadline_s" if has_own else "learner.group_deadline_s"
                self.run_owner.dead_letter_entry(
                    entry,
                    reason=f"deadline: {age:.0f} s after its issue it was still in {place.stream} "
                    f"({key}={deadline_s:g})",
                )
