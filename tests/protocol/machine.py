"""Random runs of the whole protocol: every role may be killed, every reply lost, Redis set back, between any two lines.

A rule is one thing that happens in the world. After every command that anybody gives, `invariants` compares Redis with
the ledger on disk; at the end of a run nobody disturbs it any more, and what was issued must come to an outcome: a
protocol that is safe because it stands still fails here.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.protocol.streams import Entry
from tests.protocol.invariants import Bounds
from tests.protocol.lives import Disk, Life
from tests.protocol.redis_history import COMMANDS_BACK
from tests.protocol.strands import Clock
from tests.protocol.workers import NAMES, NEXT, Crew, dead_letter_by_hand
from tests.protocol.world import World

PICK = st.integers(0, 1_000_000)
WORKER = st.tuples(st.sampled_from(sorted(NEXT)), st.sampled_from(NAMES))
FAULTS = ("gives up", "fails", "wrong type", "renews", "is killed")  # of a worker that holds something
BOUNDS = st.integers(0, 2).flatmap(
    lambda lag: st.builds(Bounds, st.integers(1, 3), st.just(lag), st.integers(1, lag + 1))
)
MOVES = st.sampled_from([1, 2, 3, 5, 8, 13, 21, 34, 60])
BEGINS = st.sampled_from([0, 10, 25, 40, 70, 100])  # of a new learner: from not yet born to at work
LEARNERS = 3  # at once
UNTIL_A_FSYNC = 60  # moves


class ProtocolMachine(RuleBasedStateMachine):
    """One run. Made by `machine_on`, which says where.

    Attributes:
        rules_a_run: at most.
        actions_a_run: about.
        shrinks: whether the shortest failing run is looked for.
        actions: of all runs: of a rule, each that any role did by it, or the rule itself.
        rules_applied: of all runs, their beginnings among them.
        did: what was done, by name, where it took effect.
    """

    rules_a_run, actions_a_run, shrinks = 60, 200, True
    actions = rules_applied = 0
    did: Counter[str]
    url = ""
    folders: Any = None
    clock: Clock
    disk: Disk

    @initialize(bounds=BOUNDS, is_clock_back=st.booleans(), moves=BEGINS)
    def begin(self, bounds: Bounds, is_clock_back: bool, moves: int) -> None:
        here = (self.url, next(self.folders), self.clock, self.disk)
        self.world = World(*here, bounds=bounds, is_clock_back=is_clock_back)
        self.crew = Crew(self.world)
        self._start(moves)

    @invariant()
    def a_rule_is_over(self) -> None:
        type(self).rules_applied += 1

    # The learners. The newest is the run's; older ones stand still until somebody wakes them.

    @rule(which=PICK, moves=MOVES)
    def learner_goes_on(self, which: int, moves: int) -> None:
        self._advance(self.world.newest(), which, moves)

    @rule()
    def learner_goes_on_until_it_waits(self) -> None:
        self.world.newest().until_it_waits()
        self._done()

    @precondition(lambda self: len(self.world.living) > 1)
    @rule(older=PICK, which=PICK, moves=MOVES)
    def older_learner_wakes(self, older: int, which: int, moves: int) -> None:
        lives = self.world.living[:-1]
        self.world.did["older learners woken"] += 1
        self._advance(lives[older % len(lives)], which, moves)

    @precondition(lambda self: len(self.world.living) < LEARNERS)
    @rule(moves=BEGINS)
    def second_learner_begins(self, moves: int) -> None:
        self.world.did["second learners"] += 1
        self._start(moves)

    @rule(is_power_cut=st.booleans(), share=st.floats(0, 1), moves=BEGINS)
    def learner_is_killed(self, is_power_cut: bool, share: float, moves: int) -> None:
        life = self.world.newest()
        if is_power_cut:  # where something is not on the disk yet, if it comes there soon
            for _ in range(UNTIL_A_FSYNC):  # not for ever: it may want a lock of a feeder that stands still
                if life.loop.advance() in {"fsync", "wait", "end"}:
                    break
        life.kill()
        self.world.did["learners killed"] += 1
        if is_power_cut and not self.world.living:  # or another machine's files would be cut too
            self.world.did["power cuts"] += self.disk.cut(self.world.journal, share)
        self._start(moves)

    @rule(bounds=BOUNDS, moves=BEGINS)
    def learner_is_given_other_settings(self, bounds: Bounds, moves: int) -> None:
        for life in self.world.living:
            life.kill()
            self.world.did["learners killed"] += 1
        self.world.did["learners with other settings"] += bounds != self.world.bounds
        self.world.bounds = bounds
        self._start(moves)

    @rule(script=st.sampled_from(["issue", "issue_eval", "announce", "retire", "reissue", "claim", "rejoin"]))
    def learner_is_going_to_lose_a_reply(self, script: str) -> None:
        self.world.newest().link.loses.add(script)
        self._done()

    # The workers.

    @rule(worker=WORKER, count=st.integers(1, 4))
    def lease(self, worker: tuple[str, str], count: int) -> None:
        self.crew.workers[worker].lease(count)

    @rule(pick=PICK, is_reply_lost=st.booleans())
    def finish(self, pick: int, is_reply_lost: bool) -> None:
        self.crew.holder(pick).finish(pick, is_reply_lost=is_reply_lost)

    @rule(pick=PICK)
    def workers_do_all(self, pick: int) -> None:
        self.crew.do_all(pick)

    @rule(pick=PICK)
    def hand_over_late_or_twice(self, pick: int) -> None:
        self.crew.hand_over_late_or_twice(pick)

    @rule(pick=PICK, how=st.sampled_from(FAULTS))
    def something_else_of_a_worker(self, pick: int, how: str) -> None:
        one = self.crew.holder(pick)
        match how:
            case "gives up":
                one.give_up(pick)
            case "fails":
                one.finish_while_destination_fails(pick)
            case "wrong type":
                one.finish_into_a_wrong_type(pick)
            case "renews":
                one.renew()
            case "is killed":
                one.is_killed()

    @rule(pick=PICK)
    def bury(self, pick: int) -> None:
        if (entry := self._any_entry(pick)) is not None and entry.stream != "dead":
            dead_letter_by_hand(self.world, entry)
        self._done()

    # Redis, the clock, and people.

    @rule(
        commands=st.integers(1, COMMANDS_BACK),
        is_restarted=st.booleans(),
        do_workers_notice_first=st.booleans(),
        pick=PICK,
    )
    def redis_goes_back(
        self, commands: int, is_restarted: bool, do_workers_notice_first: bool, pick: int
    ) -> None:
        self.world.starts += is_restarted
        self.world.go_back(commands)
        self._done()
        if do_workers_notice_first:
            self.crew.do_all(pick)

    @rule(pick=st.integers(0, 3))
    def redis_is_replaced_by_an_empty_one(self, pick: int) -> None:
        if pick == 0:  # seldom: little of what came before matters afterwards
            self.world.forget_all()
        self._done()

    @rule(is_full=st.booleans())
    def memory_is_full_or_is_not(self, is_full: bool) -> None:
        self.world.did["memory full"] += is_full and not self.world.is_full
        self.world.fill_memory(is_full)
        self._done()

    @rule(seconds=st.sampled_from([1.0, 30.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._done()

    @rule(pick=PICK, what=st.sampled_from(["entry", "where"]))
    def somebody_deletes(self, pick: int, what: str) -> None:
        if (entry := self._any_entry(pick)) is not None:
            self.world.delete_by_hand(entry, what)
        self._done()

    @rule(pick=PICK)
    def a_letter_is_retried(self, pick: int) -> None:
        self.world.retry_a_dead_letter(pick)
        self._done()

    @rule(pick=PICK)
    def nobody_disturbs_for_a_while(self, pick: int) -> None:
        self.crew.round(pick)
        self.crew.round(pick + 1)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        disturbed = self.world.actions
        try:
            if self.world.broken is None:
                self.crew.come_to_an_end()
        finally:
            type(self).actions += self.world.actions
            self.did.update(self.world.did)
            self.did["actions at the undisturbed end"] += self.world.actions - disturbed
            self.did["steps trained"] += len(self.world.invariants.ledger.steps)
            steps = self.world.invariants.ledger.steps
            self.did["groups trained"] += sum(len(record["ids"]) for record in steps)
            links = [life.link for life in self.world.lives]
            links += [worker.link for worker in self.crew.workers.values()]
            self.did["replies lost"] += sum(link.losses for link in links)
            self.world.close()

    # What the rules are made of.

    def _done(self) -> None:
        self.world.actions += 1
        self.world.see_who_has_ended()

    def _start(self, moves: int) -> None:
        """Begin another learner, and let it get so far."""
        life = self.world.begin()
        for _ in range(moves):
            life.loop.advance()
        self._done()

    def _advance(self, life: Life, which: int, moves: int) -> None:
        """Let one strand of a learner go on alone, until it waits."""
        strand = life.strands[which % len(life.strands)]
        waits = 0
        for _ in range(moves):
            waits += strand.advance() in {"wait", "end"}
            if waits == 2:
                break
        self._done()

    def _any_entry(self, pick: int) -> Entry | None:
        """Of a group that is in flight."""
        groups = sorted(self.world.now.slots.keys() & self.world.now.where.keys())
        return self.world.entry(groups[pick % len(groups)]) if groups else None


def machine_on(url: str, folder: Path, clock: Clock, disk: Disk) -> type[ProtocolMachine]:
    folders = (folder / str(number) for number in range(10**9))
    place = {"url": url, "clock": clock, "disk": disk, "folders": folders, "did": Counter()}
    return type("ProtocolHere", (ProtocolMachine,), place)
