"""A work stream as its workers see it: lease entries, keep the leases, hand results over.

`Consumer.lease` shares the work out, and `hand_over` accepts one result of it. Generators and the scorers' dispatcher
use it; `scored` and `dead` have one reader, the learner, and no need of it (learner.groups.intake). What a process had
leased when it died goes to another one as soon as the lease runs out.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import redis
from redis.exceptions import ResponseError

from broker import codec
from broker.connection import RedisLink
from broker.errors import BadMessage
from broker.keys import DEAD, GROUP, Keys
from broker.messages import DeadLetter
from config.logs import mask

log = logging.getLogger(__name__)
M = TypeVar("M")

TRACEBACK_BYTES = 4000  # the end of one, kept in a dead letter
NOBODY = "nobody"  # the consumer that has what was handed back (lua/hand_back.lua)
LONGEST_NUMBER = 15  # digits of a floor: a longer one is none, and Lua's numbers would round it
SILENT_S = 3600.0  # a consumer that holds nothing and has been silent for so long is gone


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One entry of a work stream, as it lies in Redis."""

    stream: str  # prompts | rollouts | scored | dead
    entry_id: str
    raw: codec.Raw

    @property
    def group_id(self) -> str:
        """The group's id from the header, or "?"."""
        return codec.text(self.raw, "group", "?")

    @property
    def floor(self) -> int:
        """The floor from the header; -1 where there is none, which no slot has."""
        floor = codec.text(self.raw, "floor", "-1")
        return int(floor) if floor.isdecimal() and len(floor) <= LONGEST_NUMBER else -1

    @property
    def issued_at(self) -> float:
        """Unix seconds from the header; 0 where there are none."""
        try:
            seconds = float(codec.text(self.raw, "at", "0"))
        except ValueError:
            return 0.0
        return seconds if math.isfinite(seconds) else 0.0


def entries_of(stream: str, reply: Any) -> list[Entry]:
    """Entries from an XRANGE-like reply; those whose entry is gone (no fields) are left out."""
    return [Entry(stream, entry_id.decode(), fields) for entry_id, fields in reply or () if fields]


def entries_by_stream(reply: Any) -> Iterator[tuple[bytes, list[Any]]]:
    """Key and entries of each stream in a reply to XREAD or XREADGROUP, whatever protocol and parser made of it.

    It is a mapping in RESP3 and pairs before, and the entries of a stream may lie in one more list.
    """
    for key, items in reply.items() if isinstance(reply, dict) else reply or ():
        yield key, [entry for item in items for entry in (item if isinstance(item, list) else [item])]


def hand_over(link: RedisLink, keys: Keys, entry: Entry, to: str, fields: codec.Fields) -> bool:
    """Put the result of `entry` on stream `to`, once. False: someone else's result already counted.

    Raises:
        ResponseError: a result whose own floor is not that of the group's slot; nothing has changed.
    """
    flat = [part for pair in fields.items() for part in pair]
    return bool(
        link.script(
            "hand_over", keys.scripts(), entry.stream, entry.entry_id, entry.group_id, to, entry.floor, *flat
        )
    )


def bury(
    link: RedisLink, keys: Keys, entry: Entry, *, reason: str, attempts: int = 0, traceback: str = ""
) -> bool:
    """Hand `entry` over to `dead`; a foreign entry, which `where` does not name, is rejected there instead.

    An entry that `where` names ends even if its header was spoilt: the letter gets the slot's floor. Secrets in
    `reason` and `traceback` are masked: the letter stays in Redis and in its file.
    """
    reason = mask(reason)
    letter = DeadLetter(
        group_id=entry.group_id,
        stage=entry.stream,
        reason=reason,
        attempts=attempts,
        traceback=mask(traceback)[-TRACEBACK_BYTES:],
        original=entry.raw.get(b"payload", b""),
    )
    if hand_over(link, keys, entry, DEAD, codec.encode_dead(letter, floor=entry.floor)):
        log.error(
            "dead group=%s stage=%s attempts=%d reason=%s", entry.group_id, entry.stream, attempts, reason
        )
        return True
    return reject(link, keys, entry, reason=reason)


def reject(link: RedisLink, keys: Keys, entry: Entry, *, reason: str) -> bool:
    """Put an entry that is no living group's with the dead. False: it is gone, or somebody's after all."""
    reason = mask(reason)
    foreign = DeadLetter(
        group_id="?",
        stage=entry.stream,
        reason=f"foreign entry: {reason}",
        attempts=0,
        traceback="",
        original=entry.raw.get(b"payload", b""),
    )
    flat = [part for pair in codec.encode_dead(foreign, floor=-1).items() for part in pair]
    if link.script("reject", keys.scripts(), entry.stream, entry.entry_id, *flat):
        log.error("rejected stream=%s entry=%s reason=%s", entry.stream, entry.entry_id, reason)
        return True
    return False


class Consumer:
    """One worker's view of a stream with a consumer group.

    Args:
        stream: `prompts` or `rollouts`.
        name: of this consumer; entries of another one are taken over when idle longer than `lease_s`.
        worker: who really works, where several share the consumer's name; unique among the run's processes.
    """

    def __init__(
        self, link: RedisLink, keys: Keys, stream: str, name: str, *, lease_s: float, worker: str = ""
    ) -> None:
        self.link = link
        self.keys = keys
        self.stream = stream
        self.name = name
        self.lease_s = lease_s
        self.worker = worker or name
        self._key = keys(stream)
        self._cursor = b"0-0"
        self._held: dict[str, int] = {}  # entry -> 1 once work on it has begun, else 0
        self._lock = threading.Lock()
        self.create_group()
        self._remove_idle_consumers("", silent_s=SILENT_S)

    def create_group(self) -> None:
        """Make the consumer group, at 0: at `$` it would skip what is there already."""

        def attempt(client: redis.Redis) -> None:
            try:
                client.xgroup_create(self._key, GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

        self.link(attempt)

    def lease(self, count: int, *, block_s: float) -> list[Entry]:
        """Up to `count` entries: first those whose worker went silent, then new ones, for which it waits `block_s`."""
        taken = self.take_over(count)
        if len(taken) < count:
            taken += self.read_new(count - len(taken), block_s=0 if taken else block_s)
        for entry in taken:
            self.hold(entry)
        return taken

    def read_new(self, count: int, *, block_s: float) -> list[Entry]:
        """Up to `count` entries that nobody has read, waiting up to `block_s` for the first."""

        def attempt(client: redis.Redis) -> Any:
            return client.xreadgroup(
                GROUP, self.name, {self._key: ">"}, count=count, block=int(block_s * 1000) or None
            )

        reply = self._with_group(lambda: self.link(attempt))
        return [entry for _, items in entries_by_stream(reply) for entry in entries_of(self.stream, items)]

    def take_over(self, count: int) -> list[Entry]:
        """Entries whose lease has run out, now this consumer's."""
        self._cursor, found = self._with_group(
            lambda: self.link.script(
                "take_over",
                self.keys.scripts(),
                self.stream,
                self.name,
                int(self.lease_s * 1000),
                self._cursor,
                count,
            )
        )
        entries = entries_of(
            self.stream,
            [(entry_id, dict(zip(flat[::2], flat[1::2], strict=True))) for entry_id, flat in found],
        )
        return [entry for entry in entries if not self.holds(entry)]

    def begin(self, entry: Entry) -> int:
        """Count an attempt. Returns how many there were, this one included; 0: the entry is another worker's by now."""
        attempts = int(
            self.link.script(
                "begin", self.keys.scripts(), self.stream, self.name, entry.entry_id, self.worker
            )
        )
        with self._lock:
            if attempts and entry.entry_id in self._held:
                self._held[entry.entry_id] = 1
        return attempts

    def decode(self, entry: Entry, decoder: Callable[[codec.Raw], M]) -> M | None:
        """The message in `entry`; None once it has gone to `dead` because it can't be read."""
        try:
            return decoder(entry.raw)
        except BadMessage as error:
            bury(self.link, self.keys, entry, reason=str(error))
            self.release(entry)
            return None

    def hand_over(self, entry: Entry, to: str, fields: codec.Fields) -> bool:
        """Put the result on `to` and let go of the entry. False: someone else's result already counted."""
        counted = hand_over(self.link, self.keys, entry, to, fields)
        if not counted:
            reject(self.link, self.keys, entry, reason="where does not name it")  # if it is there still
        self.release(entry)
        return counted

    def bury(self, entry: Entry, *, reason: str, attempts: int, traceback: str = "") -> None:
        """Hand the entry over to `dead` and let go of it."""
        bury(self.link, self.keys, entry, reason=reason, attempts=attempts, traceback=traceback)
        self.release(entry)

    def tries(self, entry: Entry) -> int:
        """How often work on the entry's group has begun in this stage, as far as is known; counts nothing."""
        names: Any = self.link(lambda client: client.hget(self.keys("tries"), entry.group_id))
        return len(names.split()) if names else 0

    def note_failure(self, entry: Entry, text: str) -> None:
        """Keep what went wrong, for the dead letter of a group that fails at every attempt. Secrets are masked."""
        text = mask(text)[-TRACEBACK_BYTES:]
        self.link.script("note_failure", self.keys.scripts(), self.stream, entry.entry_id, text)

    def hold(self, entry: Entry) -> None:
        """Renew the lease of `entry` until it is released."""
        with self._lock:
            self._held.setdefault(entry.entry_id, 0)

    def holds(self, entry: Entry) -> bool:
        """Whether its lease is renewed."""
        with self._lock:
            return entry.entry_id in self._held

    def release(self, entry: Entry) -> None:
        """Stop renewing the lease of `entry`."""
        with self._lock:
            self._held.pop(entry.entry_id, None)

    def hand_back(self, unbegun: Iterable[str] = ()) -> int:
        """Give up all that is held, unfinished: others take it over at once, and no attempt is counted.

        Args:
            unbegun: entries that are leased to this consumer and given up too, though it does not hold them.
        Returns:
            How many entries; a result of theirs that comes all the same counts if it is the first.
        """
        with self._lock:
            held, self._held = {**dict.fromkeys(unbegun, 0), **self._held}, {}
        if not held:
            return 0
        flat = [part for pair in held.items() for part in pair]
        return int(
            self.link.script(
                "hand_back",
                self.keys.scripts(),
                self.stream,
                self.name,
                math.ceil(self.lease_s * 1000),
                self.worker,
                *flat,
            )
        )

    def is_handed_back(self) -> bool:
        """Whether anybody has given entries of this stream up that nobody has taken over yet."""
        found = self._with_group(
            lambda: self.link(lambda client: client.xpending_range(self._key, GROUP, "-", "+", 1, NOBODY))
        )
        return bool(found)

    def leave(self) -> None:
        """Remove this consumer's name, unless entries are still leased to it: those are taken over in their time."""
        self._remove_idle_consumers(self.name)

    def renew(self) -> None:
        """Renew what is held; what is another worker's by now is let go."""
        with self._lock:
            held = list(self._held)
        if not held:
            return
        mine = {
            item.decode()
            for item in self.link.script("renew", self.keys.scripts(), self.stream, self.name, *held)
        }
        with self._lock:
            for lost in set(held) - mine:
                self._held.pop(lost, None)

    def _remove_idle_consumers(self, name: str, *, silent_s: float = 0.0) -> None:
        self.link.script(
            "remove_idle_consumers", self.keys.scripts(), self.stream, name, int(silent_s * 1000)
        )

    def _with_group(self, attempt: Callable[[], Any]) -> Any:
        try:
            return attempt()
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            log.warning("group_lost stream=%s", self.stream)  # Redis forgot it
            self.create_group()
            return attempt()
