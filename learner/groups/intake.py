"""Read the streams `scored` and `dead`, and give every group in flight its outcome.

In: entries of the two streams, read without a consumer group (the learner is their only reader, and a group would hide
entries whose reply was lost). Out: groups held for training, evaluation groups for their rounds, and for all others an
outcome in the ledger, after which the slot is freed. An entry counts only if `where` has it and the ledger has no
outcome of its group. A trained group keeps its slot until the publisher has announced its step's version.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker import codec
from broker.codec import text
from broker.errors import BadMessage, NewerSchema, RunFailed, WentBack
from broker.group_ids import ordinal_of
from broker.keys import DEAD, EPISODES, PROMPTS, ROLLOUTS, SCORED, WORK_STREAMS
from broker.messages import ScoredGroup, Split
from broker.protocol.run_owner import RunOwner
from broker.protocol.run_reader import EntryPlace
from broker.protocol.streams import Entry
from config.run import Run
from learner.groups.arrivals import ArrivalCounter, Arrivals
from learner.groups.buffer import GroupBuffer
from learner.groups.discarded import dropped, given_up
from learner.groups.evaluation import Evaluation, version_of
from learner.groups.filters import why_empty, why_impossible
from learner.groups.kept_share import KeptShare
from learner.groups.lag import LagRule
from learner.groups.retirement import keeps_its_slot
from learner.groups.same_reward import SameRewardWatch
from learner.journal.ledger import DROPPED, OVER, SURPLUS, GroupOutcome
from learner.journal.writer import Journal
from learner.objective.advantages import has_variance
from learner.policy_version import PolicyVersion

log = logging.getLogger(__name__)

LOOK_COUNT = 64  # entries that a reconciliation reads: Redis does nothing else while it copies them


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Where the groups without an outcome are, by the last reconciliation."""

    places: dict[str, int]  # stream -> groups
    oldest_s: float  # age of the oldest unscored group, in working time


class WorkingTime:
    """A clock that stops while no process can work; groups age by it towards `learner.group_deadline_s`.

    It stops for a pause, an outage of Redis, full memory and a stopped run, but not for a long step or a stalled
    generator.

    Args:
        clock: seconds, monotonic.
        away_s: seconds that the run had no learner before this one.
    Attributes:
        lost_s: seconds until the last look in which no process could work.
        missing_mib: memory that Redis lacks for another group; 0 where it has room.
    """

    def __init__(self, run_owner: RunOwner, clock: Callable[[], float], *, away_s: float = 0.0) -> None:
        self.lost_s = away_s
        self.missing_mib = 0
        self._run_owner = run_owner
        self._clock = clock
        self._looked = clock()
        self._waited_s = run_owner.link.waited_s
        self._was_idle = False

    def now(self) -> float:
        """Return the clock's seconds minus the lost ones."""
        return self._clock() - self.lost_s

    def look(self, *, is_paused: bool, group_bytes: float) -> float:
        """Return the seconds since the last look in which no process could work.

        A pause or full memory counts if it was there at both looks: there may be a step between them.

        Args:
            group_bytes: size of a group in Redis.
        """
        self.missing_mib = self._missing_mib(group_bytes)
        is_idle = is_paused or self.missing_mib > 0
        now, waited_s = self._clock(), self._run_owner.link.waited_s
        passed = now - self._looked
        lost = passed if is_idle and self._was_idle else min(passed, waited_s - self._waited_s)
        self._looked, self._waited_s, self._was_idle = now, waited_s, is_idle
        self.lost_s += lost
        return lost

    def _missing_mib(self, group_bytes: float) -> int:
        memory = self._run_owner.memory()
        missing = memory.used_bytes + group_bytes - memory.limit_bytes
        return max(0, math.ceil(missing / 2**20)) if memory.limit_bytes else 0


class Intake:
    """Read the streams `scored` and `dead`, and fill the buffer and the evaluation rounds.

    Args:
        version: the learner's policy version.
        clock: seconds, monotonic.
        vocabulary: number of the policy's tokens.
        advise: receives advice for the operator about the groups.
        away_s: seconds that the run had no learner before this one.
        tell_lost: receives at each look the seconds so far in which no process could work.
        first_look: receives the groups that have arrived for training, before any has an outcome; returns those to
            drop, each with the reason.
    """

    def __init__(
        self,
        run: Run,
        run_owner: RunOwner,
        journal: Journal,
        buffer: GroupBuffer,
        evaluation: Evaluation,
        *,
        version: PolicyVersion,
        clock: Callable[[], float] = time.monotonic,
        vocabulary: float = math.inf,
        advise: Callable[[str], None] = lambda _: None,
        away_s: float = 0.0,
        tell_lost: Callable[[float], None] = lambda _: None,
        first_look: Callable[[Sequence[ScoredGroup]], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self.run = run
        self.run_owner = run_owner
        self.journal = journal
        self.buffer = buffer
        self.evaluation = evaluation
        self.version = version
        self.lag = LagRule.of(run)
        self.time = WorkingTime(run_owner, clock, away_s=away_s)
        self._tell_lost = tell_lost
        self._vocabulary = vocabulary
        self._first_look = first_look
        self._arrived: list[ScoredGroup] = []  # among the entries being accepted
        self._same_reward = SameRewardWatch(advise)
        self._arrivals = ArrivalCounter()  # since the last step
        self.kept_share = KeptShare()
        self.reconciled = Reconciled({}, 0.0)
        self._last = {SCORED: "0-0", DEAD: "0-0"}
        self._left: set[str] = set()  # groups that a newer program scored
        self._bytes = self._sizes = 0  # sum of sizes and number of all scored entries read
        self._last_reason = self._last_death = ""
        self._empty_in_a_row = 0
        self._replaced = 0  # groups dropped for their rewards since the last step
        self._dead_in_a_row = 0
        self._nowhere: set[str] = set()  # ids without an entry at the last look
        self._deadlines: dict[str, float] = {}  # by id, of groups past the shortest deadline
        self._since: dict[str, float] = {}  # working time of issue, by id; the group looked at
        # longest ago comes first

    def reset(self) -> None:
        """Start reading from the beginning: Redis went back, so earlier reads may not match it."""
        self.buffer.clear()
        self._last = {SCORED: "0-0", DEAD: "0-0"}
        self._nowhere.clear()
        self._since.clear()  # a reissued group starts again
        self.evaluation.reset()

    def read(self, *, block_s: float) -> int:
        """Take in new entries, waiting up to `block_s` for the first. Returns their number."""
        entries = self.run_owner.read(self._last, block_s=block_s)
        for entry in entries:
            self._last[entry.stream] = entry.entry_id
        self._accept(entries)
        return len(entries)

    def reconcile(self, *, is_paused: bool = False) -> None:
        """Reconcile with Redis: fetch entries that a lost reply hid, dead-letter late groups, notice deletions."""
        self.evaluation.rounds.excuse(self.time.look(is_paused=is_paused, group_bytes=self.mean_bytes()))
        self._tell_lost(self.time.lost_s)
        sightings = self.run_owner.reconcile_view(self._to_look_at())
        now, places, oldest = self.time.now(), dict.fromkeys(WORK_STREAMS, 0), 0.0
        nowhere: set[str] = set()
        for found in sightings:
            group_id, stream = found.group_id, found.stream
            if self.journal.has(group_id):
                self._retire_ended(group_id)
            elif not found.issued_at:
                nowhere.add(group_id)
            else:
                places[stream] += 1
                age = self._age(group_id, found.issued_at, now=now)
                if stream in {PROMPTS, EPISODES, ROLLOUTS}:
                    oldest = max(oldest, age)
                    self._dead_letter_if_late(group_id, EntryPlace(stream, found.entry_id), age)
                elif stream == DEAD or group_id not in self.buffer:
                    self._accept(self.run_owner.fetch(EntryPlace(stream, found.entry_id)))
        if lost := sorted(nowhere & self._nowhere):
            raise WentBack(
                f"group {lost[0]} (at least {len(lost)} in all) has a slot, and no entry in any stream: "
                f"somebody deleted an entry or a key of {self.run_owner.keys.prefix}*"
            )
        self._nowhere = nowhere
        self.reconciled = Reconciled(places, oldest)
        self._fetch_evaluation()

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
            group_id for current in self.evaluation.rounds.open.values() for group_id in current.missing
        ]
        for place in self.run_owner.places(missing):
            if place is not None and place.stream in {SCORED, DEAD}:
                self._accept(self.run_owner.fetch(place))

    def _retire_ended(self, group_id: str) -> None:
        """Retire a group with an outcome, unless the version of its step has yet to be announced."""
        if not keeps_its_slot(group_id, self.journal.ledger, announced=self.version.announced):
            self.run_owner.retire([group_id])

    def drop_late(self) -> None:
        """Drop the buffered groups that are too old for the learner's version, where `late_groups` says so."""
        late = self.buffer.take_late(self.run.learner, self.version.trained)
        self.settle({group.group_id: dropped(group, reason) for group, reason in late})

    def take_arrivals(self) -> Arrivals:
        """Return the sums of the groups returned since the last call."""
        self._replaced = 0
        return self._arrivals.take()

    def mean_bytes(self) -> float:
        """Return the mean size of a scored group in Redis, bytes; 0 before the first."""
        return self._bytes / self._sizes if self._sizes else 0.0

    def open_floors(self) -> dict[str, int]:
        """Return the floors of the groups without an outcome, by id: trained ones may keep their slots for a while."""
        slots = self.run_owner.slots()
        return {group_id: floor for group_id, floor in slots.items() if not self.journal.has(group_id)}

    def surplus(self, floors: Mapping[str, int], version: int) -> set[str]:
        """Return the groups that the steps from `version` on have no room for; none in a run that issues no more."""
        return self.lag.surplus(floors, version) if self.run.may_have_surplus else set()

    def drop_surplus(self, version: int) -> None:
        """Drop what the steps from `version` on have no room for in time."""
        if self.run.may_have_surplus:
            surplus = self.surplus(self.open_floors(), version)
            self._drop(surplus, f"{SURPLUS}: step {version} had all its groups without this one")

    def drop_expired(self, version: int) -> None:
        """Drop surplus that was issued while its step got its groups: `version` is beyond its lag."""
        if not self.run.may_have_surplus:
            return
        oldest = self.lag.oldest(version)
        expired = [group_id for group_id, floor in self.open_floors().items() if floor < oldest]
        self._drop(expired, f"{SURPLUS}: step {oldest} had all its groups when it was issued")

    def drop_the_rest(self) -> None:
        """Drop every group without an outcome, once the last step has its groups."""
        self._drop(self.open_floors(), f"{OVER}: the run's last step had all its groups without this one")

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

    def retry_the_rest(self) -> None:
        """Record a retry of each group that was over at an earlier end: the run was given more steps."""
        for group_id in self.journal.ledger.over:
            base = str(ordinal_of(group_id))
            self.journal.retry(base, self.journal.ledger.retries.get(base, 0) + 1)

    def settle(self, ends: dict[str, GroupOutcome]) -> None:
        """Record the outcomes, then free the slots: never in the other order."""
        if not ends:
            return
        if again := [group_id for group_id in ends if self.journal.has(group_id)]:
            raise RunFailed(
                f"group {again[0]} has ended before, and would get a second outcome: this is a bug, please "
                "report it"
            )
        self.journal.end(ends)
        self.run_owner.retire(ends)
        for outcome in ends.values():
            self._arrivals.end(outcome)

    def _accept(self, entries: Iterable[Entry]) -> None:
        """Sort entries into held groups, rounds and outcomes. Retire groups that have an outcome in the ledger."""
        entries = list(entries)
        if not entries:
            return
        places = self.run_owner.places([entry.group_id for entry in entries])
        ends: dict[str, GroupOutcome] = {}
        self._arrived.clear()
        for entry, place in zip(entries, places, strict=True):
            group_id = entry.group_id
            if place != EntryPlace(entry.stream, entry.entry_id):
                if entry.stream == SCORED:
                    self.run_owner.dead_letter_entry(entry, reason="where does not name it")
            elif self.journal.has(group_id):
                self._retire_ended(group_id)
            elif entry.stream == DEAD:
                self._accept_dead(entry, ends)
            else:
                self._accept_scored(entry, ends)
        refused = self._first_look(self._arrived)
        self.buffer.discard(refused)
        ends |= {
            group.group_id: dropped(group, refused[group.group_id])
            for group in self._arrived
            if group.group_id in refused
        }
        self.settle(ends)
        self._refuse_endless()

    def _accept_dead(self, entry: Entry, ends: dict[str, GroupOutcome]) -> None:
        dead_letter = codec.decode_dead(entry.raw)
        self.buffer.discard([dead_letter.group_id])
        if version_of(dead_letter.group_id) >= 0:
            if not self.evaluation.rounds.add(dead_letter.group_id, None):
                self.run_owner.retire([dead_letter.group_id])
            return
        log.error(
            "group_died group=%s stage=%s attempts=%d reason=%s",
            dead_letter.group_id,
            dead_letter.stage,
            dead_letter.attempts,
            dead_letter.reason,
        )
        self._dead_in_a_row += 1
        self._last_death = dead_letter.reason
        self._give_up(entry, ends)

    def _give_up(self, entry: Entry, ends: dict[str, GroupOutcome]) -> None:
        """Record the outcome of a training group whose dead letter is `entry`."""
        ends[entry.group_id] = given_up(entry)

    def _accept_scored(self, entry: Entry, ends: dict[str, GroupOutcome]) -> None:
        try:
            group = codec.decode_scored(entry.raw)
        except NewerSchema as error:
            if entry.group_id not in self._left:
                log.error("left_for_a_newer_learner group=%s: %s", entry.group_id, error)  # noqa: TRY400
                self._left.add(entry.group_id)
            return
        except BadMessage as error:
            self.run_owner.dead_letter_entry(entry, reason=str(error))
            return
        if reason := why_impossible(group, version=self.version.trained, vocabulary=self._vocabulary):
            self.run_owner.dead_letter_entry(entry, reason=reason)
            return
        self._bytes += sum(len(value) for value in entry.raw.values())
        self._sizes += 1
        self._take(group, ends)

    def _take(self, group: ScoredGroup, ends: dict[str, GroupOutcome]) -> None:
        """Give a group to its round, hold it for a step, or end it."""
        if group.rollout.prompt.split is Split.EVAL:
            if not self.evaluation.rounds.add(group.group_id, group):
                self.run_owner.retire([group.group_id])
            return
        if group.group_id in self.buffer:  # reconcile was faster than read
            return
        self._dead_in_a_row = 0
        self._arrived.append(group)
        self._arrivals.add(group)
        self._same_reward.take(group, has_variance=has_variance(group.rewards))
        most = self.run.learner.filters.max_replaced
        may_replace = most is None or self._replaced < most
        reason = why_empty(group, self.run.learner, may_replace=may_replace)
        self.kept_share.note(kept=not reason)
        if reason:
            self._replaced += 1
            self._empty_in_a_row += 1
            self._last_reason = reason
            ends[group.group_id] = dropped(group, reason)
        else:
            self._empty_in_a_row = 0
            self.buffer.add(group)

    def _refuse_endless(self) -> None:
        most = self.run.learner.filters.max_empty_groups
        if self._empty_in_a_row >= most:
            raise RunFailed(
                f"{self._empty_in_a_row} groups in a row had nothing to learn from (the last one: "
                f"{self._last_reason}). The problems are too hard or too easy for this policy, or the "
                "scorer does not understand its answers: look at samples.jsonl. "
                f"learner.filters.max_empty_groups={most}; learner.filters.zero_variance=keep trains on "
                "such groups"
            )
        if self._dead_in_a_row > 2 * self.run.most_in_flight:
            raise RunFailed(
                f"{self._dead_in_a_row} groups in a row went to `dead` and none was scored (the last one: "
                f"{self._last_death}): millrace dead list {self.run.name}"
            )

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
