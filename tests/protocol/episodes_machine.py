"""Random runs of groups whose completions are episodes: workers are killed, leases stolen, answers late, Redis set back.

An episode here asks a fixed number of turns, each after the one before, and what its environment says may differ from
play to play. After every rule Redis is compared with what is allowed; at the end nobody disturbs the run any more, and
every group has to be handed over. The numbers in what is `Violated` are the invariants of `test_episodes_machine.py`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from broker import codec
from broker.connection import RedisLink
from broker.errors import WentBack
from broker.keys import DEAD, EPISODES, GROUP, ROLLOUTS, Keys
from broker.protocol.consumer import Consumer
from broker.protocol.episodes import (
    Answer,
    Asked,
    Attempt,
    Call,
    Calls,
    Ended,
    Episodes,
    content_of,
    id_of,
    key_of,
    with_id,
)
from broker.protocol.run_owner import NewGroup, RunOwner
from broker.protocol.streams import Entry, bury, entries_of, hand_over
from tests.protocol.invariants import Violated
from tests.support.groups import a_prompt

N, TURNS = 2, 2  # episodes of a group, turns of an episode
MOST_BACK = 30  # moves
WORKERS, GENERATORS = ("a", "b", "c"), ("g", "h")
PICK = st.integers(0, 1000)
MOVES = (
    *["issue"] * 3, *["lease"] * 4, *["play"] * 14, *["finish"] * 5, *["lease call"] * 5, *["begin"] * 5,
    *["answer"] * 6, "answer twice", "refuse", "kill generator", "die", "finish late", "steal call", "expire",
    "end otherwise", "fill memory", "go back",
)  # fmt: skip
MOST_ROUNDS = 200  # of the undisturbed end


def require(holds: object, number: int, what: str) -> None:
    if not holds:
        raise Violated(f"{number}: {what}")


@dataclass
class Play:
    """One play of one episode."""

    used: dict[str, bytes] = field(default_factory=dict)  # key -> record, in order
    said: int = 0  # by the environment, which may say something else the next time
    end: bytes | None = None

    def prompt(self, group_id: str, episode: int) -> bytes:
        before = b"".join(map(content_of, self.used.values()))
        return f"{group_id} {episode} {len(self.used)} {self.said if self.used else 0} ".encode() + before


@dataclass
class Worker:
    """A worker at one group."""

    episodes: Episodes
    entry: Entry
    attempt: Attempt
    plays: list[Play] = field(default_factory=list)

    def begin(self) -> None:
        self.plays = [Play(end=end) for end in self.attempt.ends]


@dataclass
class Held:
    """A call that a generator has leased."""

    calls: Calls
    entry: Entry
    asked: Asked | None = None


class EpisodesMachine(RuleBasedStateMachine):
    """One run. Made by `machine_on`, which says where."""

    actions = 0
    did: Counter[str]
    url = ""

    @initialize()
    def begin(self) -> None:
        self.link, self.keys = RedisLink(self.url, outage_s=5.0), Keys("episodes")
        self.client: Any = self.link.client
        self.client.flushall()
        self.client.config_set("maxmemory", 0)
        self.learner = RunOwner(self.link, self.keys)
        self.learner.claim(0)
        Consumer(self.link, self.keys, EPISODES, "a", lease_s=60)
        self.calls = {
            (name, own): Calls(self.link, self.keys, name, lease_s=60, own=own)
            for name in GENERATORS
            for own in (False, True)
        }
        for name in GENERATORS:
            self.client.delete(self.keys(f"policy_calls:{name}"))
        self.position = 0
        self.workers: dict[str, Worker] = {}
        self.held: list[Held] = []
        self.late: list[tuple[Worker, list[bytes]]] = []  # hand-overs that come again
        self.sampled: dict[tuple[str, int, str], set[bytes]] = {}
        self.found: dict[tuple[str, int, str], bytes] = {}  # since Redis went back last
        self.handed: set[str] = set()  # since then
        self.history: deque[dict[bytes, bytes]] = deque(maxlen=MOST_BACK)

    def _did(self, what: str) -> None:
        type(self).actions += 1
        self.did[what] += 1

    def _dump(self) -> dict[bytes, bytes]:
        return {
            key: self.client.dump(key) for key in sorted(self.client.scan_iter(match=f"{self.keys.prefix}*"))
        }

    def _groups(self) -> list[Entry]:
        return entries_of(EPISODES, self.client.xrange(self.keys(EPISODES)))

    def _turns(self, group_id: str) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = self.client.hgetall(self.keys(f"turns:{group_id}"))
        return found

    # The learner, the collector, and Redis itself.

    def issue(self, count: int) -> None:
        ids = [str(self.position + number) for number in range(count)]
        groups = [NewGroup(one, codec.encode_prompt(a_prompt(one, n=N)), EPISODES) for one in ids]
        try:
            issued = self.learner.issue(self.position, self.position + count, 6, 0, groups)
        except WentBack:
            self.learner.rejoin()
            return
        self.position = issued.position
        self._did("groups issued" if issued.floor is not None else "groups refused")

    def end_otherwise(self, pick: int, by: str) -> None:
        if not (groups := self._groups()):
            return
        entry = groups[pick % len(groups)]
        if by == "collector":
            require(bury(self.link, self.keys, entry, reason="late"), 23, "a late group is buried")
        else:
            try:
                self.learner.retire([entry.group_id])
            except WentBack:
                self.learner.rejoin()
                return
        self._did(f"ended by the {by}")

    def fill_memory(self, *, is_full: bool) -> None:
        self.client.config_set("maxmemory", int(is_full))
        self._did("memory full")

    def redis_goes_back(self, moves: int) -> None:
        if moves >= len(self.history):
            return
        self.client.config_set("maxmemory", 0)
        then = self.history[-1 - moves]
        for key in self._dump():
            self.client.delete(key)
        for key, dump in then.items():
            self.client.restore(key, 0, dump)
        self.found, self.handed = {}, set()
        self._did("redis set back")

    # The workers.

    def lease(self, name: str, pick: int) -> None:
        """A worker takes a group, from whoever has it: that one's lease has run out."""
        if not (groups := self._groups()):
            return
        entry = groups[pick % len(groups)]
        self.client.config_set("maxmemory", 0)  # for the making of a consumer, at a worker's start
        consumer = Consumer(self.link, self.keys, EPISODES, name, lease_s=60)
        consumer.read_new(9, block_s=0)
        self.client.xclaim(self.keys(EPISODES), GROUP, name, 0, [entry.entry_id], justid=True)
        self._open(name, Episodes(consumer), entry)

    def _open(self, name: str, episodes: Episodes, entry: Entry) -> None:
        attempt = episodes.open(entry, N)
        self.workers.pop(name, None)
        if attempt is None:
            return
        again = episodes.open(entry, N, token=attempt.token)  # a lost reply
        require(again == attempt, 18, f"an open that was asked twice: {attempt}, {again}")
        self.workers[name] = worker = Worker(episodes, entry, attempt)
        worker.begin()
        self._did("attempts opened")

    def play(self, name: str, episode: int, *, said: int, near: str) -> None:
        """A worker goes on with an episode: it looks, asks, or ends it."""
        if (worker := self.workers.get(name)) is None:
            return
        one = worker.plays[episode]
        if one.end is None and not one.used:
            one.said = said
        self._as_newest(worker, lambda: self._play(name, worker, episode, near))

    def _as_newest(self, worker: Worker, act: Callable[[], bool]) -> None:
        """Do it; where the attempt is not the newest, it changes nothing."""
        is_newest = self._turns(worker.attempt.group_id).get(b"attempt") == worker.attempt.token.encode()
        before = None if is_newest else self._dump()
        took_effect = act()
        if before is not None:
            require(not took_effect and before == self._dump(), 18, "an older attempt changed something")
            self._did("older attempts refused")

    def _play(self, name: str, worker: Worker, episode: int, near: str) -> bool:
        one, attempt = worker.plays[episode], worker.attempt
        if one.end is not None:
            return False
        if len(one.used) == TURNS:
            return self._end(name, worker, episode)
        prompt = one.prompt(attempt.group_id, episode)
        call = Call(episode, key_of(prompt, 0))
        found, said = worker.episodes.look(attempt, call)
        if found is Answer.ASK:
            found, said = worker.episodes.ask(attempt, call, prompt, near=near)
            self._did("turns asked")
        match found:
            case Answer.TURN:
                self._use(attempt.group_id, episode, call.key, said)
                one.used[call.key] = said
            case Answer.FAILED | Answer.ENDED:
                self._open(name, worker.episodes, worker.entry)
            case Answer.GONE:
                self.workers.pop(name)
                return False
        return True

    def _use(self, group_id: str, episode: int, key: str, record: bytes) -> None:
        place = (group_id, episode, key)
        require(record in self.sampled.get(place, ()), 17, f"{place} has a record that nobody sampled for it")
        require(self.found.setdefault(place, record) == record, 21, f"{place} has another record than before")
        self._did("turns used")

    def _end(self, name: str, worker: Worker, episode: int) -> bool:
        one = worker.plays[episode]
        end = with_id(b"".join(map(id_of, one.used.values())))
        ended = worker.episodes.end(worker.attempt, episode, end, one.used)
        match ended:
            case Ended.OK:
                again = worker.episodes.end(worker.attempt, episode, end, one.used)  # a lost reply
                require(again is Ended.OK, 18, f"an end that was asked twice is {again}")
                one.end = end
                self._did("episodes ended")
            case Ended.UNDONE:
                worker.plays[episode] = Play()
                self._did("plays undone")
            case Ended.ENDED:
                self._open(name, worker.episodes, worker.entry)
            case Ended.GONE:
                self.workers.pop(name)
                return False
        return True

    def finish(self, name: str, to: str) -> None:
        worker = self.workers.get(name)
        if worker is None or (to == ROLLOUTS and any(one.end is None for one in worker.plays)):
            return
        ends = [one.end for one in worker.plays if one.end is not None]
        self.late.append((worker, ends))
        self._as_newest(worker, lambda: self._hand_over(worker, ends, to))
        if self.workers.get(name) is worker:
            self.workers.pop(name)

    def finish_late_or_twice(self, pick: int) -> None:
        if self.late:
            worker, ends = self.late[pick % len(self.late)]
            if len(ends) == N:
                self._as_newest(worker, lambda: self._hand_over(worker, ends, ROLLOUTS))

    def _hand_over(self, worker: Worker, ends: list[bytes], to: str) -> bool:
        group_id, turns = worker.attempt.group_id, self._turns(worker.attempt.group_id)
        fields: codec.Fields = {
            "v": "3",
            "group": group_id,
            "floor": str(worker.entry.floor),
            "payload": b"episodes",
        }
        ids = [id_of(end) for end in ends]
        counted = hand_over(
            self.link, self.keys, worker.entry, to, fields, attempt=worker.attempt.token, ends=ids
        )
        if not counted:
            return False
        require(group_id not in self.handed, 13, f"group {group_id} was handed over twice")
        self.handed.add(group_id)
        records = {id_of(one): name for name, one in turns.items() if name.startswith(b"turn:")}
        for episode, end in enumerate(ends if to == ROLLOUTS else ()):
            require(turns.get(f"end:{episode}".encode()) == end, 19, "an end is another one's")
            used = [content_of(end)[at : at + 16] for at in range(0, len(content_of(end)), 16)]
            names = [records.get(one, b"") for one in used]
            require(
                all(name.startswith(f"turn:{episode}:".encode()) for name in names),
                19,
                "a record is not there",
            )
            require(len(set(used)) == TURNS, 19, "a record is used twice")
        self._did(f"handed over to {to}")
        return True

    def worker_dies(self, name: str) -> None:
        if self.workers.pop(name, None):
            self._did("workers killed")

    # The generators.

    def lease_call(self, name: str, *, own: bool) -> None:
        calls = self.calls[name, own]
        calls.keep()
        self.held += [Held(calls, entry) for entry in calls.consumer.lease(2, block_s=0)]

    def steal_call(self, pick: int, name: str) -> None:
        """A lease of a call has run out, and another generator has it now; the first one does not know."""
        if self.held:
            held = self.held[pick % len(self.held)]
            key = self.keys(held.entry.stream)
            if self.client.exists(key):
                self.client.config_set("maxmemory", 0)
                calls = Calls(self.link, self.keys, name, lease_s=60)
                calls.consumer.stream, calls.consumer._key = held.entry.stream, key
                self.client.xclaim(key, GROUP, name, 0, [held.entry.entry_id], justid=True)
                self.held.append(Held(calls, held.entry))

    def go_on_with_call(self, pick: int, how: str) -> None:
        if not self.held:
            return
        held = self.held[pick % len(self.held)]
        if held.asked is None:
            held.asked = (
                held.calls.begin(held.entry) if self.client.exists(self.keys(held.entry.stream)) else None
            )
            if held.asked is None:
                self.held.remove(held)
            return
        if how == "kill generator":
            self.held.remove(held)
            self._did("generators killed")
        elif how == "refuse":
            self._did(
                "calls refused" if held.calls.refuse(held.asked, "it does not fit") else "calls thrown away"
            )
        else:
            for _ in range(1 + (how == "answer twice")):
                self._answer(held.calls, held.asked)

    def _answer(self, calls: Calls, asked: Asked) -> bool:
        group_id, k, key = asked.fields
        record = with_id(f"{group_id} {k} {key} {self.actions}".encode())
        self.sampled.setdefault((group_id, int(k), key), set()).add(record)
        counted = calls.answer(asked, record)
        self._did("turns sampled" if counted else "calls thrown away")
        return counted

    def own_stream_expires(self, name: str) -> None:
        if self.client.delete(self.keys(f"policy_calls:{name}")):
            self._did("own streams expired")

    # What is drawn: some moves, each by a kind and a number that says of whom and how.

    @rule(moves=st.lists(st.tuples(st.sampled_from(MOVES), PICK), min_size=1, max_size=12))
    def some_moves(self, moves: list[tuple[str, int]]) -> None:
        for kind, pick in moves:
            self._move(kind, pick)
            self.nothing_is_left_behind()

    def _move(self, kind: str, pick: int) -> None:
        name, generator = WORKERS[pick % len(WORKERS)], GENERATORS[pick % len(GENERATORS)]
        near = ("", "", *GENERATORS)[pick // 6 % 4]
        moves: dict[str, Callable[[], object]] = {
            "issue": lambda: self.issue(1 + pick % 2),
            "end otherwise": lambda: self.end_otherwise(pick // 2, ("learner", "collector")[pick % 2]),
            "fill memory": lambda: self.fill_memory(is_full=pick % 2 == 0),
            "go back": lambda: self.redis_goes_back(1 + pick % MOST_BACK),
            "lease": lambda: self.lease(name, pick // len(WORKERS)),
            "play": lambda: self.play(name, pick // 3 % N, said=pick // 7 % 2, near=near),
            "finish": lambda: self.finish(name, DEAD if pick % 11 == 0 else ROLLOUTS),
            "finish late": lambda: self.finish_late_or_twice(pick),
            "die": lambda: self.worker_dies(name),
            "lease call": lambda: self.lease_call(generator, own=pick % 5 == 0),
            "steal call": lambda: self.steal_call(pick, generator),
            "expire": lambda: self.own_stream_expires(generator),
        }
        moves.get(kind, lambda: self.go_on_with_call(pick, kind))()

    # What has to hold after each move.

    def nothing_is_left_behind(self) -> None:
        self.history.append(self._dump())
        here = {entry.group_id for entry in self._groups()}
        prefix = self.keys("turns:").encode()
        asked: set[tuple[bytes, bytes]] = set()
        for key in self.client.scan_iter(match=f"{self.keys('turns:')}*"):
            group_id = key[len(prefix) :].decode()
            require(group_id in here, 20, f"group {group_id} is gone, and its turns are not")
            for name, place in self._turns(group_id).items():
                if name.startswith(b"asked:"):
                    stream, _, entry_id = place.partition(b" ")
                    is_there = self.client.xrange(self.keys(stream.decode()), entry_id, entry_id)
                    expires = stream != b"policy_calls"
                    require(is_there or expires, 20, f"{name!r} names no entry")
                    asked.add((stream, entry_id))
        for stream, entry_id in self._calls():
            require((stream, entry_id) in asked, 20, f"nobody asks {entry_id!r} of {stream!r}")

    def _calls(self) -> Iterator[tuple[bytes, bytes]]:
        for key in self.client.scan_iter(match=f"{self.keys('policy_calls')}*"):
            for entry_id, _ in self.client.xrange(key):
                yield key[len(self.keys.prefix) :], entry_id

    def teardown(self) -> None:
        if not hasattr(self, "history"):
            return
        try:
            self._undisturbed()
        finally:
            self.link.close()

    def _undisturbed(self) -> None:
        """One worker and one generator are left; every group has to get through."""
        self.client.config_set("maxmemory", 0)
        self.workers, self.held = {}, []
        for _ in range(MOST_ROUNDS):
            if not self._groups():
                break
            if "a" not in self.workers:
                self.lease("a", 0)
            for episode in range(N):
                self.play("a", episode, said=0, near="")
            self.finish("a", ROLLOUTS)
            for own in ("", *GENERATORS):
                self._serve(own)
        require(not self._groups(), 16, "a group never comes to its end")
        self.nothing_is_left_behind()
        require(not list(self._calls()), 20, "calls are left")

    def _serve(self, own: str) -> None:
        if own and not self.client.exists(self.keys(f"policy_calls:{own}")):
            return
        calls = Calls(self.link, self.keys, own or "g", lease_s=60, own=bool(own))
        key = self.keys(calls.consumer.stream)
        calls.consumer.read_new(99, block_s=0)
        for entry in entries_of(calls.consumer.stream, self.client.xrange(key)):
            self.client.xclaim(key, GROUP, calls.consumer.name, 0, [entry.entry_id], justid=True)
            if (asked := calls.begin(entry)) is not None:
                self._answer(calls, asked)


def machine_on(url: str) -> type[EpisodesMachine]:
    """Return the machine for one Redis, with counts of its own."""
    return type("EpisodesHere", (EpisodesMachine,), {"url": url, "actions": 0, "did": Counter()})
