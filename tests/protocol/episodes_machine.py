"""Random runs of groups whose completions are episodes: workers are killed, leases stolen, answers late, Redis set back.

An episode here asks its turns in waves, each of one call or of two equal ones, and what its environment says may differ
from play to play. Groups are trained on, held out, dead-lettered, asked for again, and spoilt by hand. After every move Redis
is compared with what is allowed; at the end nobody disturbs the run any more, and every group has to be handed over. The
numbers in what is `Violated` are the invariants of `test_episodes_machine.py`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgpack
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from broker import codec, group_ids
from broker.connection import RedisLink
from broker.errors import BrokerUnavailable, NoRoom, WentBack
from broker.keys import DEAD, EPISODES, GROUP, POLICY_CALLS, ROLLOUTS, WORK_STREAMS, Keys
from broker.protocol import dead_letters
from broker.protocol.episodes import (
    Attempt,
    BegunCall,
    CallState,
    CallStream,
    EndState,
    Episodes,
    PolicyCall,
    calls_near,
    content_of,
    id_of,
    key_of,
    with_id,
)
from broker.protocol.leases import Consumer
from broker.protocol.run_owner import NewGroup, RunOwner
from broker.protocol.streams import Entry, dead_letter_entry, hand_over
from tests.protocol.invariants import Violated
from tests.support.groups import a_prompt

N, WAVES = 2, 2  # episodes of a group, waves of an episode
BUDGET = 6  # groups
MOST_BACK = 30  # moves
WORKERS, GENERATORS = ("a", "b", "c"), ("g", "h")
PICK = st.integers(0, 1000)
MOVES = (
    *["issue"] * 3, *["lease"] * 4, *["play"] * 18, *["finish"] * 5, *["lease call"] * 5, *["begin"] * 5,
    *["answer"] * 8, "answer twice", "refuse", "refuse", "kill generator", "die", "finish late", "steal call", "expire",
    *["retire"] * 3, "bury", "issue evaluation", "retry", "retry", "spoil", "recover", "fill memory", "go back",
)  # fmt: skip
MOST_ROUNDS = 200  # of the undisturbed end
IN_2100 = "4102444800000-0"  # behind it, ids of entries follow each other, and are given again after Redis went back
# All that Redis has of a run, at once: key, dump, ms to live, what it holds.
LOOK = """
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local kind, holds = redis.call('TYPE', key).ok, {}
  if kind == 'stream' then holds = redis.call('XRANGE', key, '-', '+') end
  if kind == 'hash' then holds = redis.call('HGETALL', key) end
  if kind == 'zset' then holds = redis.call('ZRANGE', key, 0, -1) end
  found[#found + 1] = {string.sub(key, #ARGV[1] + 1), redis.call('DUMP', key), redis.call('PTTL', key), kind, holds}
end
return cmsgpack.pack(found)
"""

Place = tuple[str, int, str]  # of a call: group, episode, key


def require(holds: object, number: int, what: str) -> None:
    if not holds:
        raise Violated(f"{number}: {what}")


def pairs(flat: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


class Seen:
    """What Redis holds at one moment."""

    def __init__(self, found: list[Any]) -> None:
        self.dumps: dict[str, bytes] = {}
        self.to_live: dict[str, int] = {}  # ms; -1: for ever
        self.streams: dict[str, list[Entry]] = {}
        self.hashes: dict[str, dict[bytes, bytes]] = {}
        self.slots: set[str] = set()
        for name, dump, to_live, kind, holds in found:
            key = name.decode()
            self.dumps[key], self.to_live[key] = dump, to_live
            if kind == b"stream":
                self.streams[key] = [Entry(key, entry_id.decode(), pairs(flat)) for entry_id, flat in holds]
            elif kind == b"hash":
                self.hashes[key] = pairs(holds)
            elif key == "slots":
                self.slots = {one.decode() for one in holds}
        self.groups = self.streams.get(EPISODES, [])
        self.calls = {
            (key, entry.entry_id)
            for key in self.streams
            if key not in WORK_STREAMS
            for entry in self.streams[key]
        }

    def turns(self, group_id: str) -> dict[bytes, bytes]:
        return self.hashes.get(f"turns:{group_id}", {})

    def where(self, group_id: str) -> str:
        return self.hashes.get("where", {}).get(group_id.encode(), b"").decode()

    @property
    def evaluations(self) -> set[str]:
        """The groups of evaluation that `where` knows."""
        names = {name.decode() for name in self.hashes.get("where", {})}
        return {name for name in names if not group_ids.is_training(name)}


@dataclass
class Play:
    """One play of one episode."""

    said: int = 0  # by the environment, which may say something else the next time
    width: int = 1  # calls of a wave
    waves: list[dict[str, bytes]] = field(
        default_factory=list
    )  # of each call the key -> its record, b"" until then
    asked: set[str] = field(default_factory=set)
    end: bytes | None = None

    @property
    def used(self) -> dict[str, bytes]:
        return {key: record for wave in self.waves for key, record in wave.items() if record}

    @property
    def is_at_a_break(self) -> bool:
        """Whether all calls of all waves so far have been answered."""
        return not self.waves or all(self.waves[-1].values())

    def next_call(self, pick: int) -> tuple[str, bytes]:
        """Return key and prompt of one of the newest wave's calls that have no record; after a break, of a new wave."""
        before = [content_of(record) for record in self.used.values()] if self.is_at_a_break else None
        if before is not None:
            prompt = f"{len(before)} {self.said if before else 0} ".encode() + b"".join(before)
            self.prompt = prompt
            self.waves.append({key_of(prompt, repeat): b"" for repeat in range(self.width)})
        in_flight = [key for key, record in self.waves[-1].items() if not record]
        return in_flight[pick % len(in_flight)], self.prompt


@dataclass
class Worker:
    """A worker at one group."""

    episodes: Episodes
    entry: Entry
    attempt: Attempt
    plays: list[Play]


@dataclass
class Held:
    """A call that a generator has leased."""

    calls: CallStream
    entry: Entry
    asked: BegunCall | None = None


class EpisodesMachine(RuleBasedStateMachine):
    """One run. Made by `machine_on`, which says where."""

    rules_a_run, actions_a_run, shrinks = 60, 120, False

    actions = rules_applied = 0
    did: Counter[str]
    url = ""

    @initialize(is_clock_back=st.booleans())
    def begin(self, *, is_clock_back: bool) -> None:
        self.link, self.keys = RedisLink(self.url, outage_s=-1.0), Keys("episodes")
        self.client: Any = self.link.client
        self.fill_memory(is_full=False)
        self.client.flushall()
        self.learner = RunOwner(self.link, self.keys)
        self.learner.claim(0)
        self.consumers = {
            name: Consumer(self.link, self.keys, EPISODES, name, lease_s=60) for name in WORKERS
        }
        self.calls = {
            (name, own): CallStream(self.link, self.keys, name, lease_s=60, own=own)
            for name in GENERATORS
            for own in (False, True)
        }
        for stream in (EPISODES, POLICY_CALLS) if is_clock_back else ():
            self.client.xadd(self.keys(stream), {"none": ""}, id=IN_2100)
            self.client.xdel(self.keys(stream), IN_2100)
        self.position = self.newest = self.rounds = 0
        self.evaluations: set[str] = set()  # those that are not retired
        self.workers: dict[str, Worker] = {}
        self.held: list[Held] = []
        self.late: list[tuple[Worker, list[bytes]]] = []  # hand-overs that come again
        self.sampled: dict[Place, dict[bytes, int]] = {}  # record -> the floor that its call had
        self.asked_of: dict[bytes, set[str]] = {}  # end -> what its play asked
        self.found: dict[Place, bytes] = {}  # since Redis went back last
        self.handed: set[str] = set()  # since then
        self.spoilt: set[str] = set()  # groups whose entry or place was deleted by hand
        self.orphans: set[tuple[str, str]] = set()  # calls whose `turns` were
        self.history: deque[Seen] = deque(maxlen=MOST_BACK)
        self.now = self._look()

    def _did(self, what: str) -> None:
        self.has_acted = True
        type(self).actions += 1
        self.did[what] += 1

    def _look(self) -> Seen:
        return Seen(msgpack.unpackb(self.client.eval(LOOK, 0, self.keys.prefix), raw=True))

    # The learner, the collector, operators, and Redis itself.

    def _new(self, group_id: str) -> NewGroup:
        return NewGroup(group_id, codec.encode_prompt(a_prompt(group_id, n=N)), EPISODES)

    def _issue(self, count: int, *retries: str) -> None:
        """The learner issues the next groups, and those that an operator wants again."""
        groups = [
            self._new(one) for one in (*map(str, range(self.position, self.position + count)), *retries)
        ]
        issued = self.learner.issue(self.position, self.position + count, BUDGET, self.newest, groups)
        self.position = issued.position
        what = "retries" if retries else "groups"
        self._did(f"{what} issued" if issued.floor is not None else f"{what} refused")

    def retry(self, pick: int) -> None:
        """An operator wants a dead group again, whose slot is free."""
        dead_entries = [
            entry
            for entry in self.now.streams.get(DEAD, ())
            if group_ids.is_training(entry.group_id) and entry.group_id not in self.now.slots
        ]
        if not dead_entries or self.is_full:
            return
        dead_entry = dead_entries[pick % len(dead_entries)]
        dead_letters.request(self.link, self.keys, [(dead_entry.group_id, dead_entry.entry_id)])
        self._issue(0, group_ids.retried(dead_entry.group_id, group_ids.retry_of(dead_entry.group_id) + 1))

    def issue_evaluation(self) -> None:
        self.rounds += 1
        self.evaluations.add(f"eval-0-{self.rounds}")
        self._issue_evaluations()

    def _issue_evaluations(self) -> None:
        """What is missing of the rounds is issued again."""
        for _ in range(self.learner.issue_eval(0, [self._new(one) for one in sorted(self.evaluations)])):
            self._did("evaluation groups issued")

    def recover(self) -> None:
        """The learner puts back what holds a slot and is nowhere."""
        for _ in self.learner.reissue([self._new(one) for one in sorted(self.now.slots)]):
            self._did("groups put back")
        self._issue_evaluations()

    def retire(self, pick: int) -> None:
        if ids := sorted(self.now.slots | self.evaluations):
            group_id = ids[pick % len(ids)]
            self.learner.retire([group_id])
            self.evaluations.discard(group_id)
            self._did("groups retired")

    def dead_letter_entry(self, pick: int) -> None:
        """The collector, or a person, who plays no attempt."""
        if groups := self.now.groups:
            entry = groups[pick % len(groups)]
            require(
                dead_letter_entry(self.link, self.keys, entry, reason="late"), 23, "a late group is buried"
            )
            self._did("buried by the collector")

    def spoil(self, pick: int) -> None:
        """A person deletes an entry, its place, or its turns."""
        wanted = self.now.slots | self.evaluations
        groups = [one for one in self.now.groups if one.group_id in wanted]
        if not groups:
            return
        entry, what = groups[pick // 3 % len(groups)], ("entries", "`where`", "turns")[pick % 3]
        group_id = entry.group_id
        if what == "turns":
            asked = [value for name, value in self.now.turns(group_id).items() if name.startswith(b"asked:")]
            self.orphans |= {
                (stream, entry_id) for stream, entry_id in map(str.split, map(bytes.decode, asked))
            }
            self._forget_records(group_id)
            self.client.delete(self.keys(f"turns:{group_id}"))
        else:
            self.spoilt.add(group_id)
            if what == "entries":
                self.client.xdel(self.keys(EPISODES), entry.entry_id)
            else:
                self.client.hdel(self.keys.where, group_id)
        self._did(f"{what} deleted")

    def _forget_records(self, group_id: str) -> None:
        self.found = {place: record for place, record in self.found.items() if place[0] != group_id}

    def fill_memory(self, *, is_full: bool) -> None:
        self.is_full = is_full
        self.client.config_set("maxmemory", int(is_full))
        self.did["memory full"] += is_full

    def redis_goes_back(self, moves: int) -> None:
        if moves >= len(self.history):
            return
        self.fill_memory(is_full=False)
        then = self.history[-1 - moves]
        with self.client.pipeline(transaction=False) as pipe:
            for key in self.now.dumps:
                pipe.delete(self.keys(key))
            for key, dump in then.dumps.items():
                pipe.restore(self.keys(key), max(0, then.to_live[key]), dump)
            pipe.execute()
        self.found, self.handed = {}, set()
        self.evaluations |= then.evaluations
        self.newest += 1
        self._did("redis set back")

    # The workers.

    def lease(self, name: str, pick: int) -> None:
        """A worker takes a group, from whoever has it: that one's lease has run out."""
        if not (groups := self.now.groups):
            return
        entry = groups[pick % len(groups)]
        consumer = self.consumers[name]
        consumer.read_new(9, block_s=0)
        self.client.xclaim(self.keys(EPISODES), GROUP, name, 0, [entry.entry_id], justid=True)
        self._open(name, consumer, entry, pick)

    def _open(self, name: str, consumer: Consumer, entry: Entry, pick: int) -> None:
        episodes = Episodes(consumer)
        attempt = episodes.open(entry, N)
        self.workers.pop(name, None)
        if attempt is None:
            consumer.let_go(entry)
            if not self.now.where(entry.group_id) and entry.group_id not in self.now.slots:
                self._forget_records(entry.group_id)  # which have gone with it
            self._did("groups not opened")
            return
        if pick % 2:
            again = episodes.open(entry, N, token=attempt.token)  # a lost reply
            require(again == attempt, 18, f"an open that was asked twice: {attempt}, {again}")
        plays = [Play(pick % 2, 1 + pick // 2 % 2, end=end) for end in attempt.ends]
        self.workers[name] = Worker(episodes, entry, attempt, plays)
        self._did("attempts opened")

    def play(self, name: str, episode: int, pick: int, near: str) -> None:
        """A worker goes on with an episode: it looks, asks, or ends it."""
        if worker := self.workers.get(name):
            self._as_newest(worker, lambda: self._play(name, worker, episode, pick, near))

    def _as_newest(self, worker: Worker, act: Callable[[], bool]) -> None:
        """Do it; where the attempt is not the newest, it changes nothing."""
        is_newest = self._is_newest(worker)
        took_effect = act()
        if not is_newest:
            require(not took_effect and self._is_unchanged(), 18, "an older attempt changed something")
            self._did("older attempts refused")

    def _is_newest(self, worker: Worker) -> bool:
        return self.now.turns(worker.attempt.group_id).get(b"attempt") == worker.attempt.token.encode()

    def _is_unchanged(self) -> bool:
        return self._look().dumps == self.now.dumps

    def _play(self, name: str, worker: Worker, episode: int, pick: int, near: str) -> bool:
        """Returns whether it may have changed something."""
        one, attempt = worker.plays[episode], worker.attempt
        if one.end is not None:
            return False
        is_cut = pick % 9 == 0 and one.used and one.asked == one.used.keys()
        if is_cut or (len(one.waves) == WAVES and one.is_at_a_break):
            return self._end(name, worker, episode)
        key, prompt = one.next_call(pick)
        call = PolicyCall(episode, key)
        is_new = key not in one.asked
        if is_new and pick % 4:
            found, said = worker.episodes.ask(attempt, call, prompt, near=near)
        else:
            found, said = worker.episodes.look(attempt, call)
            if found is CallState.ASK:
                found, said = worker.episodes.ask(attempt, call, prompt, near=near)
        self.has_acted |= found is CallState.ASKED  # maybe again, where its stream has expired
        if is_new and found is CallState.ASKED:
            self._did("calls asked")
            self.did["equal calls asked side by side"] += len(one.waves[-1].keys() & one.asked)
        match found:
            case CallState.TURN:
                self._use(attempt, call, said)
                one.waves[-1][key] = said
            case CallState.FAILED:
                require(said == attempt.token.encode(), 21, "another attempt's failure")
                self._did("failures read")
                self._open(name, self.consumers[name], worker.entry, pick)
            case CallState.ENDED:
                self._open(name, self.consumers[name], worker.entry, pick)
            case CallState.GONE:
                self.workers.pop(name)
                return False
        one.asked.add(key)
        return True

    def _use(self, attempt: Attempt, call: PolicyCall, record: bytes) -> None:
        place = (attempt.group_id, call.episode, call.key)
        floor = self.sampled.get(place, {}).get(record)
        require(floor is not None, 17, f"{place} has a record that nobody sampled for it")
        require(floor == attempt.floor, 17, f"{place} has a record of floor {floor}, not {attempt.floor}")
        require(self.found.get(place, record) == record, 21, f"{place} has another record than before")
        self._did("turns used")

    def _end(self, name: str, worker: Worker, episode: int) -> bool:
        one = worker.plays[episode]
        end = with_id(b"".join(map(id_of, one.used.values())))
        self.asked_of[end] = one.asked
        ended = worker.episodes.end(worker.attempt, episode, end, one.used)
        match ended:
            case EndState.OK:
                one.end = end
                self._after_the_end(worker, episode)
                self._did("episodes ended")
            case EndState.UNDONE:
                worker.plays[episode] = Play(one.said, one.width)
                self._did("plays undone")
            case EndState.ENDED:
                self._open(name, self.consumers[name], worker.entry, one.said)
            case EndState.GONE:
                self.workers.pop(name)
                return False
        return True

    def _after_the_end(self, worker: Worker, episode: int) -> None:
        attempt, one = worker.attempt, worker.plays[episode]
        ended = worker.episodes.end(attempt, episode, one.end or b"", one.used)  # a lost reply
        require(ended is EndState.OK, 18, f"an end that was asked twice is {ended}")
        ended = worker.episodes.end(attempt, episode, with_id(b"another"), {})
        require(ended is EndState.ENDED, 18, f"another end is {ended}")
        found, _ = worker.episodes.ask(attempt, PolicyCall(episode, key_of(b"more", 0)), b"more")
        require(found is CallState.ENDED, 18, f"a call after the end is {found}")

    def finish(self, name: str, to: str) -> None:
        worker = self.workers.get(name)
        if worker is None or (to == ROLLOUTS and any(one.end is None for one in worker.plays)):
            return
        ends = [one.end for one in worker.plays if one.end is not None]
        self.late.append((worker, ends))
        self._as_newest(worker, lambda: self._hand_over(worker, ends, to))
        self.workers.pop(name)

    def finish_late_or_twice(self, pick: int) -> None:
        if self.late:
            worker, ends = self.late[pick % len(self.late)]
            if len(ends) == N:
                self._as_newest(worker, lambda: self._hand_over(worker, ends, ROLLOUTS))

    def _hand_over(self, worker: Worker, ends: list[bytes], to: str) -> bool:
        attempt = worker.attempt
        group_id, turns = attempt.group_id, self.now.turns(attempt.group_id)
        fields: codec.Fields = {
            "v": "3",
            "group": group_id,
            "floor": str(attempt.floor),
            "payload": b"episodes",
        }
        ids = [id_of(end) for end in ends]
        if not hand_over(self.link, self.keys, worker.entry, to, fields, attempt=attempt.token, ends=ids):
            return False
        require(group_id not in self.handed, 13, f"group {group_id} was handed over twice")
        self.handed.add(group_id)
        for episode, end in enumerate(ends if to == ROLLOUTS else ()):
            require(turns.get(f"end:{episode}".encode()) == end, 19, "an end is another one's")
            begins = f"turn:{episode}:"
            there = {
                id_of(record): name.decode().removeprefix(begins)
                for name, record in turns.items()
                if name.startswith(begins.encode())
            }
            used = [content_of(end)[at : at + 16] for at in range(0, len(content_of(end)), 16)]
            require(there.keys() >= {*used}, 19, "a record is not there")
            require(len({*used}) == len(used) > 0, 19, "a record is used twice, or none is")
            require(
                {there[one] for one in used} == self.asked_of[end], 22, "a call that was asked is left out"
            )
        self._did(f"handed over to {to}")
        return True

    def worker_dies(self, name: str) -> None:
        if self.workers.pop(name, None):
            self._did("workers killed")

    # The generators.

    def lease_call(self, name: str, *, own: bool) -> None:
        calls = self.calls[name, own]
        calls.keep()
        for entry in calls.lease(4, takes_over=False):
            self.held.append(Held(calls, entry))
            self._did("calls leased")

    def steal_call(self, pick: int, name: str) -> None:
        """A lease of a call has run out, and another generator has it now; the first one does not know."""
        if shared := [one.entry for one in self.held if one.entry.stream == POLICY_CALLS]:
            entry = shared[pick % len(shared)]
            self.client.xclaim(self.keys(POLICY_CALLS), GROUP, name, 0, [entry.entry_id], justid=True)
            self.held.append(Held(self.calls[name, False], entry))
            self._did("leases of calls stolen")

    def go_on_with_call(self, pick: int, how: str) -> None:
        waiting = [one for one in self.held if how != "begin" or one.asked is None]
        if not waiting:
            return
        held = waiting[pick % len(waiting)]
        if held.asked is None:
            held.asked = held.calls.begin(held.entry)
            self._did("calls begun" if held.asked else "calls not begun")
        if how == "begin" and held.asked is not None:
            return
        if (
            held.asked is None or how == "kill generator" or pick % 4
        ):  # else it does not know that it has answered
            self.held.remove(held)
        if held.asked is None:
            return
        if how == "kill generator":
            self._did("generators killed")
        elif how == "refuse":
            attempt = self.now.turns(held.asked.fields[0]).get(b"attempt", b"").decode()
            self._did("calls refused" if held.calls.refuse(held.asked, attempt) else "calls thrown away")
        else:
            for _ in range(1 + (how == "answer twice")):
                self._answer(held.calls, held.asked)

    def _answer(self, calls: CallStream, asked: BegunCall) -> None:
        group_id, k, key = asked.fields
        record = with_id(f"{group_id} {k} {self.actions}".encode())
        self.sampled.setdefault((group_id, int(k), key), {})[record] = asked.entry.floor
        self._did("turns sampled" if calls.answer(asked, record) else "calls thrown away")

    def own_stream_expires(self, name: str) -> None:
        if self.client.delete(self.keys(calls_near(name))):
            self._did("own streams expired")

    # What is drawn: some moves, each by a kind and a number that says of whom and how.

    @rule(moves=st.lists(st.tuples(st.sampled_from(MOVES), PICK), min_size=1, max_size=12))
    def some_moves(self, moves: list[tuple[str, int]]) -> None:
        type(self).rules_applied += 1
        for kind, pick in moves:
            self.has_acted = kind in {
                "lease",
                "lease call",
                "recover",
            }  # which write down that they were here
            try:
                self._move(kind, pick)
            except WentBack:
                self.learner.rejoin()
                self._did("learners that noticed")
            except NoRoom:
                self._did("refused by full memory")
            except BrokerUnavailable as error:
                require(not self.is_full, 23, f"full memory refuses {kind}: {error}")
                raise
            if self.has_acted:
                self.nothing_is_left_behind()

    def _move(self, kind: str, pick: int) -> None:
        name, generator = WORKERS[pick % len(WORKERS)], GENERATORS[pick % len(GENERATORS)]
        at_work = [*self.workers] or [name]
        player = at_work[pick % len(at_work)]
        near = ("", "", *GENERATORS)[pick // 6 % 4]
        moves: dict[str, Callable[[], object]] = {
            "issue": lambda: self._issue(1 + pick % 2),
            "issue evaluation": self.issue_evaluation,
            "recover": self.recover,
            "retry": lambda: self.retry(pick),
            "retire": lambda: self.retire(pick),
            "bury": lambda: self.dead_letter_entry(pick),
            "spoil": lambda: self.spoil(pick),
            "fill memory": lambda: self.fill_memory(is_full=pick % 2 == 0),
            "go back": lambda: self.redis_goes_back(1 + pick % MOST_BACK),
            "lease": lambda: self.lease(name, pick // len(WORKERS)),
            "play": lambda: self.play(player, pick // 3 % N, pick // 7, near),
            "finish": lambda: self.finish(player, DEAD if pick % 11 == 0 else ROLLOUTS),
            "finish late": lambda: self.finish_late_or_twice(pick),
            "die": lambda: self.worker_dies(player),
            "lease call": lambda: self.lease_call(generator, own=pick // 2 % 4 == 0),
            "steal call": lambda: self.steal_call(pick, generator),
            "expire": lambda: self.own_stream_expires(generator),
        }
        moves.get(kind, lambda: self.go_on_with_call(pick, kind))()

    # What has to hold after each move.

    def nothing_is_left_behind(self) -> None:
        self.now = now = self._look()
        self.history.append(now)
        here = {entry.group_id for entry in now.groups}
        asked: set[tuple[str, str]] = set()
        for key, turns in now.hashes.items():
            if not key.startswith("turns:"):
                continue
            group_id = key.removeprefix("turns:")
            require(
                group_id in here or self._comes_back(group_id),
                20,
                f"{group_id} is gone, and its turns are not",
            )
            for name, value in turns.items():
                if name.startswith(b"asked:"):
                    stream, _, entry_id = value.decode().partition(" ")
                    is_there = (stream, entry_id) in now.calls
                    require(is_there or stream != POLICY_CALLS, 20, f"{name!r} names no entry")
                    asked.add((stream, entry_id))
                elif name.startswith(b"turn:"):
                    self._is_written_once(group_id, name.decode(), value)
        left = now.calls - asked - self.orphans
        require(not left, 20, f"nobody asks {left}")
        own = [key for key in now.streams if key.startswith(calls_near(""))]
        require(all(now.to_live[key] > 0 for key in own), 20, "a generator's own stream never expires")

    def _is_written_once(self, group_id: str, name: str, record: bytes) -> None:
        _, k, key = name.split(":", 2)
        place = (group_id, int(k), key)
        require(
            self.found.setdefault(place, record) == record, 17, f"the record of {place} was written again"
        )

    def _comes_back(self, group_id: str) -> bool:
        """Whether the learner will put back what was deleted by hand."""
        place = self.now.where(group_id)
        is_open = group_id in self.now.slots | self.evaluations
        return group_id in self.spoilt and is_open and (not place or place.startswith(EPISODES))

    def teardown(self) -> None:
        if not hasattr(self, "history"):
            return
        before = self.actions
        try:
            self._undisturbed()
        finally:
            self.did["actions at the undisturbed end"] += self.actions - before
            self.link.close()

    def _undisturbed(self) -> None:
        """One worker and one generator are left; every group has to get through."""
        self.fill_memory(is_full=False)
        self.learner.rejoin()
        self.workers, self.held = {}, []
        for _ in range(MOST_ROUNDS):
            self.nothing_is_left_behind()
            if not self.now.groups:
                self.recover()
                self.nothing_is_left_behind()
            if not self.now.groups:
                break
            if "a" not in self.workers:
                self.lease("a", 0)
            for episode in range(N):
                worker = self.workers.get("a")
                if worker and worker.plays[episode].end is None:
                    self._play("a", worker, episode, 1, "")
            self.now = self._look()
            self.finish("a", ROLLOUTS)
            self._serve()
        self._serve()
        self.nothing_is_left_behind()
        require(not self.now.groups, 16, "a group never comes to its end")
        require(not self.now.calls, 20, "calls are left")
        require(not [key for key in self.now.hashes if key.startswith("turns:")], 20, "turns are left")

    def _serve(self) -> None:
        """Generators answer all calls that are in flight."""
        for stream in {stream for stream, _ in self.now.calls}:
            name = stream.removeprefix(calls_near(""))
            calls = self.calls[name, True] if name in GENERATORS else self.calls[GENERATORS[0], False]
            calls.consumer.read_new(99, block_s=0)
            for entry in self.now.streams[stream]:
                asked = calls.begin(entry)
                if asked is None:  # another's, whose lease has run out by now
                    key, name = self.keys(stream), calls.consumer.name
                    self.client.xclaim(key, GROUP, name, 0, [entry.entry_id], justid=True)
                    asked = calls.begin(entry)
                if asked is not None:
                    self._answer(calls, asked)


def machine_on(url: str) -> type[EpisodesMachine]:
    """Return the machine for one Redis, with counts of its own."""
    return type(
        "EpisodesHere", (EpisodesMachine,), {"url": url, "actions": 0, "rules_applied": 0, "did": Counter()}
    )
