"""Random runs of the protocol on a real Redis, against a ledger of a few lines; its invariants hold after every action.

The model knows what each call must answer. Numbers in the comments are those of the protocol's invariants.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from broker.connection import Link
from broker.errors import Fenced
from broker.keys import GROUP, Keys
from broker.ownership import Ownership
from broker.streams import Consumer, Entry, bury
from tests.broker.conftest import Board, LosesReplies, result_of

GROUPS_PER_STEP, MAX_LAG = 2, 1
BUDGET = (MAX_LAG + 1) * GROUPS_PER_STEP
LEASE_S = 60.0
NEXT = {"prompts": "rollouts", "rollouts": "scored"}
PICK = st.integers(0, 1_000_000)
STREAM = st.sampled_from(["prompts", "rollouts"])
WORKER = st.sampled_from(["a", "b"])


class Protocol(RuleBasedStateMachine):
    """A learner, two workers a stage, and what may happen to them."""

    def __init__(self, link: Link, keys: Keys) -> None:
        super().__init__()
        link.client.flushall()
        self.board = Board(link, keys)
        self.consumers: dict[tuple[str, str], Consumer] = {}
        self.held: dict[tuple[str, str], list[Entry]] = {}
        for stream in NEXT:
            for name in ("a", "b"):
                self._start(stream, name)
        self.position = 0
        self.version = 0
        self.board.announce(0)
        self.floors: dict[str, int] = {}                # of every id ever issued
        self.places: dict[str, str] = {}                # ids without an outcome -> STREAM ENTRY
        self.ledger: dict[str, str] = {}                # id -> outcome: on the learner's disk
        self.steps: list[list[str]] = []
        self.leased: list[Entry] = []                   # all that any worker ever held
        self.handed_over: list[tuple[str, str]] = []

    # The learner.

    @rule(count=st.integers(1, 3), is_reply_lost=st.booleans())
    def issue(self, count: int, is_reply_lost: bool) -> None:
        ids = [str(number) for number in range(self.position, self.position + count)]
        is_full = len(self.board.slots()) + count > BUDGET
        with Lossy(self.board.link, is_reply_lost and not is_full):
            issued = self.board.learner.issue(self.position, self.position + count, BUDGET, self.version,
                                              [self.board.group(group) for group in ids])
        assert issued.full == is_full
        if is_full:
            return
        self.position += count
        assert issued.position == self.position
        assert issued.floor == (None if is_reply_lost else self.version)
        for group in ids:
            self.floors[group] = self.version
            self.places[group] = str(self.board.where(group))

    @rule()
    def issue_at_a_place_that_has_passed(self) -> None:
        assert self.board.learner.issue(self.position - 1, self.position + 1, 100, 0, []).position == self.position

    @precondition(lambda self: self.version == len(self.steps))
    @rule()
    def record_a_step(self) -> None:
        """Take the oldest, if the rest can still be trained in time (rule 3); from here on it is durable."""
        ready = sorted((group for group, place in self.places.items() if place.startswith("scored")),
                       key=lambda group: (self.floors[group], int(group)))[:GROUPS_PER_STEP]
        open_floors = [self.floors[group] for group in self.places]
        for floor in range(self.version - MAX_LAG, self.version + 1):
            left = sum(f <= floor for f in open_floors) - sum(self.floors[group] <= floor for group in ready)
            if left > (floor + MAX_LAG - self.version) * GROUPS_PER_STEP:
                return
        if len(ready) < GROUPS_PER_STEP:
            return
        for group in ready:
            assert self.version - self.floors[group] <= MAX_LAG                                             # 9
            self._record(group, "trained")
        self.steps.append(ready)

    @precondition(lambda self: self.version < len(self.steps))
    @rule(is_reply_lost=st.booleans())
    def announce(self, is_reply_lost: bool) -> None:
        with Lossy(self.board.link, is_reply_lost):
            self.board.announce(self.version + 1)
        self.version += 1

    @rule()
    def record_the_dead(self) -> None:
        for group in [group for group, place in self.places.items() if place.startswith("dead")]:
            self._record(group, "dead")

    @rule(is_reply_lost=st.booleans())
    def retire(self, is_reply_lost: bool) -> None:
        """What has an outcome; groups of a step only once the next version is announced. Again and again."""
        waiting = {group for step in self.steps[self.version:] for group in step}
        if ids := [group for group in self.ledger if group not in waiting]:
            with Lossy(self.board.link, is_reply_lost):
                self.board.learner.retire(ids)

    @rule()
    def restart_the_learner(self) -> None:
        """The older one wakes up once more, and changes nothing (14)."""
        older, newer = self.board.learner, Ownership(self.board.link, self.board.keys)
        assert newer.claim(older.fence) > older.fence
        before = self.board.state()
        for call in (lambda: older.retire(self.floors or ["0"]),
                     lambda: older.issue(self.position, self.position + 1, 100, 0, [self.board.group("x")])):
            with pytest.raises(Fenced):
                call()
        assert self.board.state() == before
        self.board.learner = newer
        self.board.announce(self.version)               # recovery announces the newest again

    @rule()
    def an_undisturbed_turn(self) -> None:
        """So that runs get far: all that is leased or waiting goes its way, and the learner trains."""
        self.issue(min(GROUPS_PER_STEP, max(1, BUDGET - len(self.board.slots()))), is_reply_lost=False)
        for stream in NEXT:
            for name in ("a", "b"):
                self.lease(stream, name, BUDGET)
                while self.held[stream, name]:
                    self.hand_over(stream, name, 0, is_reply_lost=False)
        if self.version == len(self.steps):
            self.record_a_step()
        if self.version < len(self.steps):
            self.announce(is_reply_lost=False)
        self.retire(is_reply_lost=False)

    # The workers.

    @rule(stream=STREAM, name=WORKER, count=st.integers(1, 3))
    def lease(self, stream: str, name: str, count: int) -> None:
        for entry in self.consumers[stream, name].lease(count, block_s=0):
            self.held[stream, name].append(entry)
            self.leased.append(entry)

    @rule(stream=STREAM, name=WORKER, pick=PICK, is_reply_lost=st.booleans())
    def hand_over(self, stream: str, name: str, pick: int, is_reply_lost: bool) -> None:
        if held := self.held[stream, name]:
            entry = held.pop(pick % len(held))
            with Lossy(self.board.link, is_reply_lost):
                counted = self.consumers[stream, name].hand_over(entry, NEXT[stream], result_of(entry))
            self._has_left(entry, NEXT[stream], None if is_reply_lost else counted)

    @rule(pick=PICK)
    def hand_over_late_or_twice(self, pick: int) -> None:
        if self.leased:
            entry = self.leased[pick % len(self.leased)]
            self._has_left(entry, NEXT[entry.stream], self.board.move(entry, NEXT[entry.stream]))

    @rule(pick=PICK)
    def bury(self, pick: int) -> None:
        """A worker gives up, or the learner's deadline has passed: any group without an outcome, wherever it is."""
        if self.floors and pick % 2:
            group = str(pick % self.position)
            if not self.places.get(group, "dead").startswith("dead"):
                entry = self.board.entry(group)
                self._has_left(entry, "dead", bury(self.board.link, self.board.keys, entry, reason="x"))

    @rule(stream=STREAM, name=WORKER)
    def kill_a_worker(self, stream: str, name: str) -> None:
        """Its lease runs out; no stream changes (15)."""
        before = self.board.state()
        client, key = self.board.client, self.board.keys(stream)
        for item in client.xpending_range(key, GROUP, "-", "+", 100, consumername=name):
            client.xclaim(key, GROUP, name, 0, [item["message_id"]], idle=int(LEASE_S + 1) * 1000, justid=True)
        self._start(stream, name)
        assert self.board.state() == before

    @rule(stream=STREAM, name=WORKER)
    def renew(self, stream: str, name: str) -> None:
        self.consumers[stream, name].renew()

    # What always holds.

    @invariant()
    def every_group_without_an_outcome_is_in_one_entry_and_where_names_it(self) -> None:
        self.board.audit()                                                                                  # 5
        slots = self.board.slots()
        assert {group: self.board.where(group) for group in slots if group not in self.ledger} == self.places
        assert self.board.hash("where").keys() == slots.keys()          # what has ended leaves nothing behind
        assert len(self.places) <= BUDGET                                                                   # 7

    @invariant()
    def what_was_issued_is_in_slots_or_in_the_ledger(self) -> None:
        slots, cursor = self.board.slots(), self.board.hash("cursor")
        issued = {str(number) for number in range(int(cursor.get("position", 0)))}
        assert issued == set(self.floors) == slots.keys() | self.ledger.keys()                              # 6
        unannounced = {group for step in self.steps[self.version:] for group in step}
        assert issued - slots.keys() <= self.ledger.keys() - unannounced                                    # 4
        assert slots == {group: self.floors[group] for group in slots}                                      # 10
        assert int(cursor.get("issued", 0)) == len(issued)

    @invariant()
    def versions_never_fall_and_an_entry_is_handed_over_once(self) -> None:
        assert int(self.board.hash("run")["version"]) == self.version                                       # 12
        assert len(self.handed_over) == len(set(self.handed_over))                                          # 13

    def _start(self, stream: str, name: str) -> None:
        self.consumers[stream, name] = Consumer(self.board.link, self.board.keys, stream, name, lease_s=LEASE_S)
        self.held[stream, name] = []

    def _record(self, group: str, outcome: str) -> None:
        assert group not in self.ledger                                                                     # 1, 2
        self.ledger[group] = outcome
        del self.places[group]

    def _has_left(self, entry: Entry, to: str, counted: bool | None) -> None:
        """Check a hand-over against the model; `counted` is None where its reply was lost."""
        group = entry.group_id
        was_there = self.places.get(group) == f"{entry.stream} {entry.entry_id}"
        assert counted in {None, was_there}
        if was_there:
            self.handed_over.append((entry.stream, entry.entry_id))
            self.places[group] = str(self.board.where(group))
            assert self.places[group].startswith(to + " ")


class Lossy:
    """While it is open, the first script's reply is lost on the way, if `is_lost`."""

    def __init__(self, link: Link, is_lost: bool) -> None:
        self.link = link
        self.real = link.client
        self.lossy: Any = LosesReplies(self.real) if is_lost else None

    def __enter__(self) -> None:
        if self.lossy:
            self.link.client = self.lossy

    def __exit__(self, *_: object) -> None:
        self.link.client = self.real


def test_the_invariants_hold_in_random_runs(link: Link, keys: Keys) -> None:
    class Here(Protocol):
        def __init__(self) -> None:
            super().__init__(link, keys)

    run_state_machine_as_test(
        Here,
        settings=settings(max_examples=40, stateful_step_count=60, deadline=None, phases=[Phase.generate, Phase.shrink],
                          suppress_health_check=list(HealthCheck)))
