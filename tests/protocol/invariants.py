"""What always holds: the protocol's fifteen invariants, looked at after every command of whatever role.

In: what Redis held before and after a command, who gave it, and the ledger as it is on disk, read anew by `read_ledger`
whenever a file of it has grown. Nothing here asks the learner what it believes. Numbers are the protocol's.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.group_ids import order_of
from config.run import SURPLUS_STEPS
from learner.journal.ledger import SURPLUS, TRAINED, Ledger, read_ledger, read_step
from learner.journal.records import published_in
from tests.protocol.redis_history import State

# Scripts that only a learner calls, each with its fence.
GUARDED = {
    "issue",
    "issue_eval",
    "reissue",
    "retire",
    "announce",
    "restore_cursor",
    "rejoin",
    "publish_status",
}


class Violated(AssertionError):
    """Something that always holds does not; nothing else of a random run raises it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    groups_per_step: int
    max_lag: int
    every: int = 1  # steps from one published version to the next

    @property
    def budget(self) -> int:
        """Groups without an outcome, at most, but for a step's surplus."""
        return (self.max_lag + 1) * self.groups_per_step

    @property
    def surplus(self) -> int:
        """Groups in flight beyond the budget, at most, for a step that lacks groups."""
        return max(0, SURPLUS_STEPS * self.groups_per_step - self.budget)

    def is_smaller(self, than: Bounds) -> bool:
        """Return whether what is in flight within `than` may be too much."""
        return self.groups_per_step < than.groups_per_step or self.max_lag < than.max_lag


class Invariants:
    """Compares Redis with the ledger.

    Args:
        lag_of: max_lag of the life with that fence.
    Attributes:
        bounds: what every command is held to: the former ones until a learner that was given larger ones has recovered,
            None until one that was given smaller ones has, and until it has brought down what came back of the former.
        by_hand: groups whose entry or `where` somebody deleted, until they are whole again.
    """

    def __init__(self, journal: Path, lag_of: Callable[[int], int]) -> None:
        self.bounds: Bounds | None = None
        self.by_hand: set[str] = set()
        self.ledger = Ledger()
        self.newest = 0  # version ever announced, undone or not
        self._journal = journal
        self._sizes: list[tuple[str, int]] = []
        self._steps_seen = 0
        self._lag_of = lag_of
        self._checksums: dict[str, str] = {}  # version -> checksum, as announced
        self._handed_over: set[tuple[str, str]] = set()

    def went_back(self, now: State) -> None:
        """Redis was set back: what holds only while it is not begins anew, and what was deleted by then is again."""
        self._handed_over.clear()
        self.by_hand = set(self._misplaced(now))

    def too_much(self, now: State, bounds: Bounds) -> str | None:
        """Return what of the groups in flight is beyond the bounds, by the ledger that was read last; None: nothing."""
        open_floors = [now.slots[group_id] for group_id in self._open(now)]
        if len(open_floors) > bounds.budget + bounds.surplus:
            return f"7: {len(open_floors)} groups in flight"
        size, lag, version = bounds.groups_per_step, bounds.max_lag, len(self.ledger.steps)
        for floor in set(open_floors):
            late = sum(other <= floor for other in open_floors) - (floor + lag - version + 1) * size
            if late > bounds.surplus:
                return f"8: at version {version}, {late} groups of floor {floor} or less are too late"
        return None

    def handed_over(self, stream: str, entry_id: str) -> None:
        if (stream, entry_id) in self._handed_over:
            raise Violated(f"13: {stream} {entry_id} was handed over twice")
        self._handed_over.add((stream, entry_id))

    def check(self, before: State, now: State, *, command: str, fence: int) -> None:
        """Look at what one command did.

        Args:
            command: its script, or another word for it.
            fence: of the learner that gave it; 0 for the other roles.
        """
        if command in GUARDED and 0 < fence < before.fence:  # 0: one that ends before its claim
            assert before.contents == now.contents, f"14: {command} of fence {fence} did something"
        known = self.ledger.outcomes.keys()
        self.read_ledger()
        self._surplus(before, self.ledger.outcomes.keys() - known)
        self._transition(before, now, command)
        self._places(now)
        self._bounds(now)
        self._versions(now)

    def read_ledger(self) -> None:
        sizes = sorted((path.name, path.stat().st_size) for path in self._journal.glob("ledger-*.log"))
        if sizes == self._sizes:
            return
        self._sizes = sizes
        self.ledger = ledger = read_ledger(self._journal)
        assert not ledger.twice, f"1: {ledger.twice} have two outcomes"
        assert [record["step"] for record in ledger.steps] == [*range(len(ledger.steps))], "3: a gap in steps"
        for record in ledger.steps[self._steps_seen :]:
            self._step(record)
        self._steps_seen = len(ledger.steps)

    def _step(self, record: Any) -> None:
        assert len(set(record["ids"])) == len(record["ids"]), f"2: {record['ids']}"
        groups, _ = read_step(self._journal, record)
        for group in groups:
            group_id, oldest = group.group_id, group.rollout.min_version
            lag = record["step"] - oldest
            assert 0 <= lag <= self._lag_of(record["fence"]), f"9: {group_id} was trained with lag {lag}"
            assert oldest >= group.rollout.prompt.floor, f"10: {group_id} is below its floor"
        for version, checksum in published_in(record).items():
            known = self._checksums.get(str(version), checksum)
            assert known == checksum, f"step {record['step']} names other weights of version {version}"

    def _surplus(self, before: State, ended: AbstractSet[str]) -> None:
        """Only what was issued last is surplus: as many groups as have room were before each in the step's order."""
        named = {
            group_id
            for group_id in ended
            if self.ledger.outcomes[group_id].detail.startswith(f"{SURPLUS}: step")
        }
        if not named or self.bounds is None:
            return
        steps = len(self.ledger.steps)
        trained = {*self.ledger.steps[-1]["ids"]} if steps else set()
        order = {
            group_id: (floor, *order_of(group_id))
            for group_id, floor in before.slots.items()
            if group_id in trained or group_id in named or group_id not in self.ledger.outcomes
        }
        for group_id in named & order.keys():
            if self.ledger.outcomes[group_id].detail.endswith("when it was issued"):
                continue
            room = (before.slots[group_id] + self.bounds.max_lag - steps + 2) * self.bounds.groups_per_step
            earlier = sum(key < order[group_id] for key in order.values())
            assert earlier >= room, f"8: {group_id} is surplus after {earlier} others, and {room} had room"

    def _transition(self, before: State, now: State, command: str) -> None:
        announced = now.version
        for group_id in before.slots.keys() - now.slots.keys():
            outcome = self.ledger.outcomes.get(group_id)
            assert outcome is not None, f"4: {command} freed the slot of {group_id}, which has no outcome"
            if outcome.kind == TRAINED:
                told = int(outcome.detail)
                assert announced >= told, f"4: {group_id} left before {told} was told"
        assert announced >= before.version, f"12: {announced} was announced after {before.version}"
        if command == "issue":
            for group_id in now.slots.keys() - before.slots.keys():
                assert now.slots[group_id] == self.newest, f"10: {group_id} has floor {now.slots[group_id]}"
        self.newest = max(self.newest, announced)

    def _places(self, now: State) -> None:
        misplaced = self._misplaced(now)
        self.by_hand &= misplaced.keys()
        for group_id in misplaced.keys() - self.by_hand:
            said = now.where.get(group_id)
            raise AssertionError(f"5: {group_id} is in {misplaced[group_id]}, {said} says `where`")
        missing = now.issued() - now.slots.keys() - self.ledger.outcomes.keys()
        assert not missing, f"6: {sorted(missing)} are in neither slots nor ledger"

    def _misplaced(self, now: State) -> dict[str, list[tuple[str, int]]]:
        """Groups without an outcome that are not in exactly one entry, of their floor, that `where` names."""
        open_ids = self._open(now)
        places: dict[str, list[tuple[str, int]]] = {}
        for stream, place in now.entries():
            if place.group_id in open_ids:
                places.setdefault(place.group_id, []).append((f"{stream} {place.entry_id}", place.floor))
        return {
            group_id: places.get(group_id, [])
            for group_id in open_ids
            if places.get(group_id) != [(now.where.get(group_id), now.slots[group_id])]
        }

    def _bounds(self, now: State) -> None:
        if self.bounds is not None:
            problem = self.too_much(now, self.bounds)
            assert problem is None, problem

    def _versions(self, now: State) -> None:
        steps = len(self.ledger.steps)
        assert now.version <= steps, f"11: {now.version} was announced, {steps} stand"
        if now.weights:
            version, checksum = now.weights["version"], now.weights["checksum"]
            known = self._checksums.setdefault(version, checksum)
            assert known == checksum, f"version {version} was announced with two weights"

    def _open(self, now: State) -> set[str]:
        return now.slots.keys() - self.ledger.outcomes.keys()
