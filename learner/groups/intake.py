"""Read the streams `scored` and `dead`, and give every group in flight its outcome.

In: entries of the two streams, read without a consumer group (the learner is their only reader, and a group would hide
entries whose reply was lost). Out: groups held for training, evaluation groups for their rounds, and for all others an
outcome in the ledger, after which the slot is freed. An entry counts only if `where` has it and the ledger has no
outcome of its group. A trained group keeps its slot until the publisher has announced its step's version.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from broker import codec
from broker.errors import BadMessage, NewerSchema
from broker.group_ids import is_training
from broker.keys import DEAD, SCORED
from broker.messages import DeadLetter, ScoredGroup
from broker.protocol.run_reader import EntryPlace
from broker.protocol.streams import Entry
from learner.groups.discarded import dropped, given_up
from learner.groups.evaluation import Evaluation
from learner.groups.filters import why_impossible
from learner.groups.outcomes import Outcomes
from learner.groups.returned import Returned
from learner.journal.ledger import GroupOutcome
from learner.policy_version import PolicyVersion

log = logging.getLogger(__name__)

Message = ScoredGroup | DeadLetter | BadMessage
FirstLookAt = Callable[[Sequence[ScoredGroup]], Mapping[str, str]]


class Admission(Protocol):
    """Decide which returned groups a run holds: `learner.groups.filters` to train, `learner.collect` to record."""

    def kept_share(self) -> float:
        """Return the share of recently returned groups that are held, in (0, 1]."""
        ...

    def why_dropped(self, group: ScoredGroup) -> str:
        """Return why a scored group is not held; "": it is."""
        ...

    def held_of_dead(self, entry: Entry, /) -> ScoredGroup | None:
        """Return the group to hold of a dead letter; None: it ends as dead."""
        ...

    def note(self, group: ScoredGroup, why_dropped: str) -> None:
        """Count a scored group."""
        ...


class Intake:
    """Read the streams `scored` and `dead`, and fill the buffer and the evaluation rounds.

    Args:
        outcomes: ends the groups that are not held; has the run's journal and buffer.
        admission: decides which are.
        returned: counts what comes.
        version: the learner's policy version.
        vocabulary: number of the policy's tokens.
        first_look: receives the groups that have arrived for training, before any has an outcome; returns those to
            drop, each with the reason.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        outcomes: Outcomes,
        admission: Admission,
        returned: Returned,
        *,
        version: PolicyVersion,
        vocabulary: float = math.inf,
        first_look: FirstLookAt = lambda _: {},
    ) -> None:
        self.run = outcomes.run
        self.run_owner = outcomes.run_owner
        self.journal = outcomes.journal
        self.buffer = outcomes.buffer
        self.evaluation = evaluation
        self.outcomes = outcomes
        self.admission = admission
        self.returned = returned
        self._version = version
        self._vocabulary = vocabulary
        self._first_look = first_look
        self._last = {SCORED: "0-0", DEAD: "0-0"}
        self._left: set[str] = set()  # groups that a newer program scored

    def reset(self) -> None:
        """Start reading from the beginning: Redis went back, so earlier reads may not match it."""
        self.buffer.clear()
        self._last = {SCORED: "0-0", DEAD: "0-0"}
        self.evaluation.reset()

    def read(self, *, block_s: float) -> int:
        """Take in new entries, waiting up to `block_s` for the first. Returns their number."""
        entries = self.run_owner.read(self._last, block_s=block_s)
        for entry in entries:
            self._last[entry.stream] = entry.entry_id
        self.accept(entries)
        return len(entries)

    def accept(self, entries: Sequence[Entry]) -> None:
        """Hold the scored training groups that can train, then end the others and fill the rounds.

        Entries that `where` does not name, and those of groups with an outcome in the ledger, count for nothing.
        """
        if not entries:
            return
        found = [(entry, _decoded(entry)) for entry in self._named(entries)]
        ended = self.journal.ended(entry.group_id for entry, _ in found)
        scored = {
            entry.group_id: message
            for entry, message in found
            if isinstance(message, ScoredGroup)
            and entry.group_id not in ended
            and entry.group_id not in self.buffer.groups  # a reconciliation was faster
        }
        trained, vocabulary = self._version.trained, self._vocabulary
        wrong = {
            group_id: why
            for group_id, group in scored.items()
            if (why := why_impossible(group, version=trained, vocabulary=vocabulary))
        }
        arrived = [
            group for group_id, group in scored.items() if group_id not in wrong and is_training(group_id)
        ]
        reasons = [self.admission.why_dropped(group) for group in arrived]
        self.buffer.add(group for group, reason in zip(arrived, reasons, strict=True) if not reason)
        # What follows is about all the others.
        ends = self._count(arrived, reasons)
        for entry, message in found:
            if entry.group_id in ended:
                self.outcomes.retire_ended(entry.group_id)
            elif why := wrong.get(entry.group_id):
                self.run_owner.dead_letter_entry(entry, reason=why)
            else:
                self._take_in(entry, message, ends)
        self.outcomes.settle(ends)
        self.returned.refuse_endless()

    def _named(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries that `where` names; scored ones that it does not are dead-lettered."""
        named = []
        places = self.run_owner.places([entry.group_id for entry in entries])
        for entry, place in zip(entries, places, strict=True):
            if place == EntryPlace(entry.stream, entry.entry_id):
                named.append(entry)
            elif entry.stream == SCORED:
                self.run_owner.dead_letter_entry(entry, reason="where does not name it")
        return named

    def _take_in(self, entry: Entry, message: Message, ends: dict[str, GroupOutcome]) -> None:
        """Take in an entry whose group has no outcome yet; the buffer already holds what trains."""
        match message:
            case DeadLetter():
                self._take_in_dead(entry, message, ends)
            case NewerSchema():
                if entry.group_id not in self._left:
                    log.error("left_for_a_newer_learner group=%s: %s", entry.group_id, message)
                    self._left.add(entry.group_id)
            case BadMessage():
                self.run_owner.dead_letter_entry(entry, reason=str(message))
            case ScoredGroup():
                self.returned.weigh(entry)
                if not is_training(entry.group_id):
                    self._fill_round(entry.group_id, message)

    def _take_in_dead(self, entry: Entry, dead_letter: DeadLetter, ends: dict[str, GroupOutcome]) -> None:
        self.buffer.discard([entry.group_id])
        if not is_training(entry.group_id):
            self._fill_round(entry.group_id, None)
            return
        log.error(
            "group_died group=%s stage=%s attempts=%d reason=%s",
            entry.group_id,
            dead_letter.stage,
            dead_letter.attempts,
            dead_letter.reason,
        )
        self.returned.died(dead_letter.reason)
        if (group := self.admission.held_of_dead(entry)) is not None:
            self.buffer.add([group])
        else:
            ends[entry.group_id] = given_up(entry)

    def _fill_round(self, group_id: str, group: ScoredGroup | None) -> None:
        if not self.evaluation.rounds.add(group_id, group):
            self.run_owner.retire([group_id])

    def _count(self, arrived: Sequence[ScoredGroup], reasons: Sequence[str]) -> dict[str, GroupOutcome]:
        """Count the groups that arrived for training. Returns the outcomes of those that are not held."""
        ends = {}
        for group, reason in zip(arrived, reasons, strict=True):
            self.admission.note(group, reason)
            self.returned.scored(reason)
            if reason:
                ends[group.group_id] = dropped(group, reason)
        refused = self._first_look(arrived)
        self.buffer.discard(refused)
        return ends | {
            group.group_id: dropped(group, refused[group.group_id])
            for group in arrived
            if group.group_id in refused
        }


def _decoded(entry: Entry) -> Message:
    """Return the message of an entry, or why it can't be read."""
    if entry.stream == DEAD:
        return codec.decode_dead(entry.raw)
    try:
        return codec.decode_scored(entry.raw)
    except BadMessage as error:
        return error
