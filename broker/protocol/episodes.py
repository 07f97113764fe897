"""Keep the turns of episodes in Redis: calls of the policy, their records, and how each episode ended.

In: a group that an agents' worker leased from `episodes`. Out: the records of its calls, each written once and before
the agent sees it, and the ends of its episodes; `Consumer` hands both over. The key of a record is what was asked: the
episode, a digest of the prompt ids and of the sampling parameters, and how often the same play has asked exactly this.
So a replayed episode gets the same answers. A generator uses `CallStream`.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from broker.connection import RedisLink
from broker.keys import GROUP, POLICY_CALLS, Keys
from broker.protocol.leases import Consumer
from broker.protocol.streams import Entry

ID_BYTES = 16  # prefix of every record and end


class CallState(StrEnum):
    """The state of a call."""

    TURN = "turn"  # it has a record
    FAILED = "failed"  # no generator could answer it in this attempt
    ASKED = "asked"  # it waits for an answer
    ASK = "ask"  # it must be asked, with its prompt
    ENDED = "ended"  # its episode has ended
    GONE = "gone"  # a newer attempt plays the group, or the group is gone


class EndState(StrEnum):
    """The result of ending an episode."""

    OK = "ok"
    ENDED = "ended"  # the episode had already ended differently
    UNDONE = "undone"  # Redis lost a record that the play has used: play again
    GONE = "gone"  # a newer attempt plays the group


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of one worker at a group of episodes."""

    group_id: str
    floor: int
    token: str  # random: names this attempt and external resources that it makes
    number: int  # of attempts so far, this one included
    in_vain: int  # of these, the last ones without any new record, this one included
    ends: tuple[bytes | None, ...]  # how each episode ended, None where it has not


@dataclass(frozen=True, slots=True)
class PolicyCall:
    """One turn that an episode requests from the policy."""

    episode: int  # 0 <= k < n
    key: str  # from `key_of`


@dataclass(frozen=True, slots=True)
class Asking:
    """A question for one turn: with its prompt, or only a lookup."""

    attempt: Attempt
    call: PolicyCall
    prompt: bytes | None = None
    near: str = ""  # the generator that has cached the conversation; asked first while its stream exists

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments of lua/call.lua."""
        attempt, call = self.attempt, self.call
        told = (attempt.group_id, attempt.token, call.episode, call.key, attempt.floor, self.near)
        return told if self.prompt is None else (*told, self.prompt)


def key_of(prompt: bytes, repeat: int) -> str:
    """Return the key of a call.

    Args:
        prompt: the generator's input: ids, and the sampling parameters.
        repeat: how often this play has asked exactly this before.
    """
    return f"{hashlib.blake2b(prompt, digest_size=16).hexdigest()}:{repeat}"


def with_id(content: bytes) -> bytes:
    """Return a record or an end as stored: prefixed with a new id."""
    return secrets.token_bytes(ID_BYTES) + content


def id_of(stored: bytes) -> bytes:
    """Return the id of a stored record or end."""
    return stored[:ID_BYTES]


def content_of(stored: bytes) -> bytes:
    """Return a stored record or end without its id."""
    return stored[ID_BYTES:]


class Episodes:
    """Access to the groups that an agents' worker has leased."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._link, self._keys = consumer.link, consumer.keys

    @contextlib.contextmanager
    def hints(self) -> Iterator[Any]:
        """Subscribe to hints that answers arrived: `GROUP EPISODE` each. Raises RedisError while Redis is away."""
        with self._link.client.pubsub(ignore_subscribe_messages=True) as channel:
            channel.subscribe(self._keys.answered)
            yield channel

    def open(self, entry: Entry, n: int, *, token: str | None = None) -> Attempt | None:
        """Begin an attempt at a leased group, and count it. None: this worker no longer has the group.

        Args:
            n: number of its episodes.
            token: of an attempt whose reply was lost; None: a new one.
        """
        token = token or secrets.token_hex(8)
        consumer = self._consumer
        count, *found = self._link.script(
            "open",
            self._keys.scripts(),
            consumer.name,
            entry.entry_id,
            entry.group_id,
            entry.floor,
            token,
            n,
            consumer.worker,
        )
        if not count:
            return None
        consumer.note_begun(entry)
        in_vain, *ends = found
        return Attempt(entry.group_id, entry.floor, token, int(count), int(in_vain), tuple(ends))

    def recorded(self, attempt: Attempt) -> int:
        """Count the recorded turns of a group."""
        names: Any = self._link(lambda client: client.hkeys(self._keys.turns(attempt.group_id)))
        return sum(name.startswith(b"turn:") for name in names)

    def look(self, attempt: Attempt, call: PolicyCall) -> tuple[CallState, bytes]:
        """Look up the state of a call. Returns the record with TURN, the reason with FAILED, else b""."""
        return self.ask_all([Asking(attempt, call)])[0]

    def ask(
        self, attempt: Attempt, call: PolicyCall, prompt: bytes, *, near: str = ""
    ) -> tuple[CallState, bytes]:
        """Request a turn, unless it was requested before. Returns as `look` does."""
        return self.ask_all([Asking(attempt, call, prompt, near)])[0]

    def ask_all(self, many: Sequence[Asking]) -> list[tuple[CallState, bytes]]:
        """Request or look up several turns in one round trip. Returns for each as `look` does."""
        replies = self._link.scripts("call", self._keys.scripts(), [one.arguments for one in many])
        return [(CallState(found.decode()), said[0] if said else b"") for found, *said in replies]

    def end(self, attempt: Attempt, episode: int, result: bytes, used: Mapping[str, bytes]) -> EndState:
        """End an episode.

        Args:
            result: from `with_id`; repeating it is harmless.
            used: key of each record that the play has used -> the record.
        """
        flat = [part for key, record in used.items() for part in (key, id_of(record))]
        found = self._link.script(
            "end", self._keys.scripts(), attempt.group_id, attempt.token, episode, result, *flat
        )
        return EndState(found.decode())


def calls_near(generator: str) -> str:
    """Return the name of a generator's own stream of calls."""
    return f"{POLICY_CALLS}:{generator}"


@dataclass(frozen=True, slots=True)
class BegunCall:
    """A call that a generator has begun."""

    entry: Entry
    number: int  # of attempts at it so far, this one included
    prompt: bytes

    @property
    def fields(self) -> tuple[str, str, str]:
        """Return group, episode and key."""
        group, k, key = (self.entry.raw[name].decode() for name in (b"group", b"k", b"key"))
        return group, k, key


class NearConsumer(Consumer):
    """A generator's own stream of calls, which always expires after a lease.

    Without an expiry it would outlast its generator, and its calls would be waited for until their group's deadline.
    """

    def create_group(self) -> None:
        """Extend the stream's expiry by a lease; make the stream where it is missing."""
        self.link.script("keep_calls", self.keys.scripts(), self.stream, int(self.lease_s * 1000))


class CallStream:
    """A generator's access to one stream of calls.

    Args:
        own: whether it is the generator's own, which expires unless `keep` is called within a lease.
    """

    def __init__(self, link: RedisLink, keys: Keys, name: str, *, lease_s: float, own: bool = False) -> None:
        self._link, self._keys = link, keys
        self.lease_s = lease_s
        self._is_own = own
        kind, stream = (NearConsumer, calls_near(name)) if own else (Consumer, POLICY_CALLS)
        self.consumer = kind(link, keys, stream, name, lease_s=lease_s)

    @property
    def stream(self) -> str:
        """Return the name of the stream."""
        return self.consumer.stream

    def keep(self) -> None:
        """Extend the expiry of the generator's own stream by a lease; make the stream again where it has expired."""
        if self._is_own:
            self.consumer.create_group()

    def lease(self, count: int, *, takes_over: bool) -> list[Entry]:
        """Lease up to `count` calls without waiting.

        Args:
            takes_over: also take calls whose generator went silent.
        """
        consumer = self.consumer
        if takes_over:
            return consumer.lease(count, block_s=0)
        taken = consumer.read_new(count, block_s=0)
        for entry in taken:
            consumer.hold(entry)
        return taken

    def renew(self) -> None:
        """Renew the leases, and extend the generator's own stream."""
        self.keep()
        self.consumer.renew()

    def leave(self) -> None:
        """Hand back held calls and delete the generator's own stream: clients that wait for its calls ask again."""
        self.consumer.hand_back()
        if self._is_own:
            self._link(lambda client: client.unlink(self.consumer.key))
        else:
            self.consumer.leave()

    def tries(self, entry: Entry) -> int:
        """Return how often sampling of a leased call has begun; counts nothing."""
        found: Any = self._link(
            lambda client: client.xpending_range(self.consumer.key, GROUP, entry.entry_id, entry.entry_id, 1)
        )
        return int(found[0]["times_delivered"]) - 1 if found else 0

    def begin(self, entry: Entry) -> BegunCall | None:
        """Count an attempt at a leased call. None: another generator has it now, or nobody waits for it."""
        count, *prompt = self._link.script(
            "begin_call", self._keys.scripts(), entry.stream, self.consumer.name, entry.entry_id
        )
        if not count:
            self.consumer.release(entry)
            return None
        self.consumer.note_begun(entry)
        return BegunCall(entry, int(count), prompt[0])

    def answer(self, asked: BegunCall, record: bytes) -> bool:
        """Write the record of a call, from `with_id`. False: nobody waits for it any more."""
        return self._answer(asked, "turn", record)

    def refuse(self, asked: BegunCall, reason: str) -> bool:
        """Record why a call can't be answered: its attempt fails with the reason, and a new attempt asks again."""
        return self._answer(asked, "failed", reason)

    def _answer(self, asked: BegunCall, kind: str, said: bytes | str) -> bool:
        entry, (group, k, key) = asked.entry, asked.fields
        counted = self._link.script(
            "answer",
            self._keys.scripts(),
            entry.stream,
            entry.entry_id,
            group,
            k,
            key,
            entry.floor,
            kind,
            said,
        )
        self.consumer.release(entry)
        return bool(counted)
