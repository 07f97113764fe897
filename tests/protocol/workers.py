"""The other roles of a random run: generators and scorers, with the real `Consumer` and the real messages.

A worker leases, samples or scores, and hands over; what may go wrong on the way is a method each.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from msgspec.structs import replace
from redis.exceptions import ResponseError

from broker import codec
from broker.codec import Fields
from broker.errors import BrokerUnavailable
from broker.keys import DEAD, GROUP, PROMPTS, ROLLOUTS, SCORED
from broker.messages import Completion, Prompt, SampledGroup, Span, Split
from broker.protocol.leases import Consumer
from broker.protocol.streams import Entry, dead_letter_entry, hand_over
from tests.protocol.invariants import Violated
from tests.protocol.world import World
from tests.support.chain import make_scored

NEXT = {PROMPTS: ROLLOUTS, ROLLOUTS: SCORED}
NAMES = ("a", "b")
LEASE_S = 60.0
ROUNDS = 40  # without a disturbance, in which what is in flight must come to an outcome
LAST_ID = "18446744073709551615-18446744073709551615"
# What a scorer may say: mostly something to learn from, at times nothing.
REWARDS: tuple[tuple[float | None, ...], ...]
REWARDS = ((1.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.5, 0.0), (1.0, None), (1.0, 1.0), (None, None))


class Worker:
    """A generator or a scorer. `leased` is what any worker has ever held."""

    def __init__(self, world: World, stream: str, name: str, leased: list[Entry]) -> None:
        self.world, self.leased, self.stream, self.name = world, leased, stream, name
        self.link = world.link()
        self.consumer = Consumer(self.link, world.keys, stream, name, lease_s=LEASE_S)
        self.held: list[Entry] = []

    @property
    def is_busy(self) -> bool:
        return any(map(self._is_there, self.held))

    def lease(self, count: int) -> None:
        self.world.actions += 1
        taken: list[Entry] = []
        with contextlib.suppress(BrokerUnavailable):  # Redis is full: a worker says so, and tries again
            taken = self.consumer.lease(count, block_s=0)
        self.held += taken
        self.leased += taken
        self.world.did["entries leased"] += len(taken)

    def renew(self) -> None:
        """Keep the leases; what has become another worker's is let go."""
        self.world.actions += 1
        self.world.did["leases renewed"] += self._holds_what_is_its_own()
        self.consumer.renew()

    def finish(self, pick: int, *, is_reply_lost: bool = False) -> None:
        if not self.held:
            return
        entry = self.held[pick % len(self.held)]
        fields = result_of(entry, self.world.now.weights, pick)
        if fields is None:  # the weights that it needs are not announced, or not again
            return
        self.world.actions += 1
        self.held.remove(entry)
        self._counted(entry, is_reply_lost, lambda: self.consumer.hand_over(entry, NEXT[self.stream], fields))

    def give_up(self, pick: int) -> None:
        """The entry's work has failed too often."""
        if self.held:
            self.world.actions += 1
            entry = self.held.pop(pick % len(self.held))
            was_there = self._is_there(entry)
            with contextlib.suppress(BrokerUnavailable):
                self.consumer.dead_letter_entry(entry, reason="five attempts", attempts=5)
                self.world.did["given up"] += was_there

    def is_killed(self) -> None:
        """Its leases run out, and another one of its name begins and takes over what it held.

        A crash is no command, and what could change a stream is how its successor cleans up: it changes none (15).
        """
        self.world.actions += 1
        self.world.did["workers killed"] += self._holds_what_is_its_own()
        before = self.world.now.protocol()
        self.begins_anew()
        self.lease(100)
        self.world.history.look()
        if self.world.now.protocol() != before:
            raise Violated("15: a crash changed a stream")

    def begins_anew(self) -> None:
        """What Redis thinks that it holds is free to be taken over."""
        client: Any = self.world.client
        if held := self._pending():
            key, idle = self.world.keys(self.stream), int(LEASE_S + 1) * 1000
            client.xclaim(key, GROUP, self.name, 0, sorted(held), idle=idle, justid=True)
        self.held = []
        with contextlib.suppress(BrokerUnavailable):  # or the new one waits where the old one was
            self.consumer = Consumer(self.link, self.world.keys, self.stream, self.name, lease_s=LEASE_S)

    def hand_over_late(self, entry: Entry, pick: int) -> None:
        """A straggler's result, or the same one twice: of an entry that any worker has ever held."""
        fields = result_of(entry, self.world.now.weights, pick)
        if fields is not None:
            self.world.actions += 1
            self.world.did["handed over late or twice"] += 1
            keys, to = self.world.keys, NEXT[entry.stream]
            self._counted(entry, False, lambda: hand_over(self.link, keys, entry, to, fields))

    def finish_while_destination_fails(self, pick: int) -> None:
        """The stream that the result goes to can hold no more: the group goes to `dead`, with the reason."""
        key, client = self.world.keys(NEXT[self.stream]), self.world.client
        if self.held and not self.world.is_full and client.exists(key):
            dead_lettered, length = len(self.world.now.streams[DEAD]), len(self.world.history)
            last = client.xinfo_stream(key)["last-generated-id"]
            client.execute_command("XSETID", key, LAST_ID)
            try:
                self.finish(pick)
                self.world.did["destinations full"] += len(self.world.now.streams[DEAD]) > dead_lettered
            finally:
                client.execute_command("XSETID", key, last)
                self.world.history.look()
                self.world.history.join(
                    length
                )  # a Redis that goes back finds no stream that is full for ever

    def finish_into_a_wrong_type(self, pick: int) -> None:
        """Somebody has put a string where the result's stream was: an error, and nothing changes."""
        key, client = self.world.keys(NEXT[self.stream]), self.world.client
        if not self.held or self.world.is_full or not client.exists(key):
            return
        there = [*filter(self._is_there, self.held)]  # of another one nothing is handed over
        if not there:
            return
        self.world.actions += 1
        entry = there[pick % len(there)]
        client.rename(key, key + ":aside")
        client.set(key, "no stream")
        try:
            fields: Fields = {"v": "1", "group": entry.group_id}
            hand_over(self.link, self.world.keys, entry, NEXT[self.stream], fields)
        except ResponseError as error:
            assert "is no stream but string" in str(error)  # noqa: PT017 - the other branch is checked too
            self.world.did["destinations of a wrong type"] += 1
        else:
            raise AssertionError("a result went into a string")
        finally:
            client.rename(key + ":aside", key)
            self.world.look("hand_over", 0)

    def _counted(self, entry: Entry, is_reply_lost: bool, attempt: Any) -> None:
        was_there = self._is_there(entry)
        losses = self.link.losses
        self.link.loses = {"hand_over"} if is_reply_lost else set()
        self.link.outage_s = 10.0 if is_reply_lost else -1.0
        try:
            has_counted = attempt()
        except BrokerUnavailable:
            return  # Redis is full, and says so: the lease runs out by itself
        finally:
            self.link.loses = set()
        if has_counted or (is_reply_lost and was_there):
            self.world.did["results handed over"] += 1
            self.world.did["hand-overs without a reply"] += self.link.losses - losses
            self.world.invariants.handed_over(entry.stream, entry.entry_id)

    def _is_there(self, entry: Entry) -> bool:
        """Return whether `where` names the entry: its result would be the group's first."""
        return self.world.now.where.get(entry.group_id) == f"{entry.stream} {entry.entry_id}"

    def _holds_what_is_its_own(self) -> bool:
        return not self._pending().isdisjoint(entry.entry_id for entry in self.held)

    def _pending(self) -> set[str]:
        """Ids of the entries that Redis thinks are leased to it."""
        client: Any = self.world.client
        try:
            found = client.xpending_range(self.world.keys(self.stream), GROUP, "-", "+", 100, self.name)
        except ResponseError as error:
            if "NOGROUP" not in str(error):  # or Redis forgot it
                raise
            return set()
        return {item["message_id"].decode() for item in found}


class Crew:
    def __init__(self, world: World) -> None:
        self.world = world
        self.leased: list[Entry] = []
        names = [(stream, name) for stream in NEXT for name in NAMES]
        self.workers = {(stream, name): Worker(world, stream, name, self.leased) for stream, name in names}

    def holder(self, pick: int) -> Worker:
        """Return a worker that holds what is its group's; any, if nothing is to be had.

        Where nobody does, they lease first, and where there is nothing to lease, the learner issues first.
        """
        first = pick % len(self.workers)
        workers = [*self.workers.values()][first:] + [*self.workers.values()][:first]
        for does_learner_go_on in (False, True):
            if any(worker.is_busy for worker in workers):
                break
            if does_learner_go_on:
                self.world.newest().until_it_waits()
                self.world.see_who_has_ended()
            for worker in workers:
                worker.lease(1 + pick % 4)
        return next((worker for worker in workers if worker.is_busy), workers[0])

    def hand_over_late_or_twice(self, pick: int) -> None:
        """The result of something that was leased once."""
        if self.leased:
            entry = self.leased[pick % len(self.leased)]
            self.workers[entry.stream, NAMES[0]].hand_over_late(entry, pick)

    def do_all(self, pick: int) -> None:
        for stream in NEXT:
            for name in NAMES:  # what Redis thinks that a worker holds, he may not know of
                self.workers[stream, name].begins_anew()
            worker = self.workers[stream, NAMES[0]]
            worker.lease(100)
            for number in range(len(worker.held)):
                worker.finish(pick + number)

    def round(self, pick: int = 0) -> None:
        """Nobody is disturbed, and everybody does what there is to do."""
        self.world.fill_memory(False)
        self.world.newest().until_it_waits()
        self.world.actions += 1
        self.world.see_who_has_ended()
        self.do_all(pick)
        self.world.clock.advance(6.0)

    def come_to_an_end(self) -> None:
        """Undisturbed, all that is in flight comes to an outcome, and steps are trained after that."""
        self.world.newest().link.loses = set()
        before, in_flight = len(self.world.invariants.ledger.steps), set(self.world.unended())
        for _ in range(ROUNDS):
            self.round()
            left = in_flight & set(self.world.unended())
            trained = len(self.world.invariants.ledger.steps) - before
            if not left and not self.world.invariants.by_hand and trained > 1:
                return
        raise Violated(f"the run stands still: {sorted(left)} are left; {self.world.describe()}")


def result_of(entry: Entry, weights: dict[str, str], pick: int) -> Fields | None:
    """Return what comes out of the work on an entry; None if it can't be done yet.

    A generator may be slow to load: it samples with any version from the floor to the newest that is announced.
    """
    newest = int(weights.get("version", -1))
    if entry.stream == PROMPTS:
        prompt = codec.decode_prompt(entry.raw)
        if newest < prompt.floor:
            return None
        return codec.encode_rollout(sampled(prompt, prompt.floor + pick % (newest - prompt.floor + 1)))
    rollout = codec.decode_rollout(entry.raw)
    is_held_out = rollout.prompt.split is Split.EVAL
    rewards = (1.0,) * len(rollout.completions) if is_held_out else REWARDS[pick % len(REWARDS)]
    scored = make_scored(rollout.prompt, rewards)
    return codec.encode_scored(replace(scored, rollout=rollout))


def sampled(prompt: Prompt, version: int) -> SampledGroup:
    rollout = make_scored(prompt, [0.0] * prompt.n, version=version).rollout
    completions = tuple(
        Completion.of_one_segment(
            token_ids=np.array([7, 9 + index], np.int32),
            logprobs=completion.segments[0].logprobs,
            policy_spans=(Span(version=version, first=0, count=2),),
            finish_reason=completion.finish_reason,
            text=completion.text,
        )
        for index, completion in enumerate(rollout.completions)
    )
    return replace(rollout, completions=completions)


def dead_letter_by_hand(world: World, entry: Entry) -> None:
    """Any role gives a group up, wherever it is."""
    with contextlib.suppress(BrokerUnavailable):
        world.did["buried by hand"] += dead_letter_entry(
            world.link(), world.keys, entry, reason="it was enough"
        )
