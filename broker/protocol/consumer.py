"""This module is a worker's side of a work stream: it leases entries, renews leases and hands results over.

In: a stream with a consumer group, `prompts` or `rollouts`. Out: each entry's result, by one hand-over. Generators, the
scorers' dispatcher and every scorer have a `Consumer`, and run a `Renewer` beside their work. A process that is killed
neither renews nor hands back: its leases run out, and other workers take its entries over.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import redis
from redis.exceptions import ResponseError

from broker import codec
from broker.connection import RedisLink
from broker.errors import BadMessage, NewerSchema
from broker.keys import GROUP, Keys
from broker.protocol.streams import (
    NOBODY,
    TRACEBACK_BYTES,
    Entry,
    bury,
    entries_by_stream,
    entries_of,
    hand_over,
    reject,
)
from config.logs import mask

log = logging.getLogger(__name__)
M = TypeVar("M")

SILENT_S = 3600.0  # a consumer that holds nothing and has been silent for so long is gone


@dataclass(slots=True, eq=False)
class _Hold:
    """A lease that is renewed. One that was lost and taken again is another one."""

    begun: int = 0  # 1 once work on the entry has begun


class Consumer:
    """A worker's view of a stream with a consumer group.

    Args:
        stream: `prompts` or `rollouts`.
        name: of this consumer; another consumer's entries are taken over when idle longer than `lease_s`.
        worker: the process that works, where several share the consumer's name; unique among the run's processes.
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
        self.key = keys.stream(stream)
        self._cursor = b"0-0"
        self._held: dict[str, _Hold] = {}  # by entry
        self._lock = threading.Lock()
        self.create_group()
        self._remove_idle_consumers("", silent_s=SILENT_S)

    def create_group(self) -> None:
        """Make the consumer group, at 0: a group at `$` would skip the entries that are there."""

        def attempt(client: redis.Redis) -> None:
            try:
                client.xgroup_create(self.key, GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

        self.link(attempt)

    def lease(self, count: int, *, block_s: float) -> list[Entry]:
        """Lease up to `count` entries: those whose worker went silent, then new ones, after up to `block_s` seconds."""
        taken = self.take_over(count)
        if len(taken) < count:
            taken += self.read_new(count - len(taken), block_s=0 if taken else block_s)
        for entry in taken:
            self.hold(entry)
        return taken

    def read_new(self, count: int, *, block_s: float) -> list[Entry]:
        """Lease up to `count` entries that no worker has read, waiting up to `block_s` for the first."""

        def attempt(client: redis.Redis) -> Any:
            return client.xreadgroup(
                GROUP, self.name, {self.key: ">"}, count=count, block=int(block_s * 1000) or None
            )

        reply = self._with_group(lambda: self.link(attempt))
        found = [items for _, items in entries_by_stream(reply)]
        return [entry for items in found for entry in entries_of(self.stream, items, are_new=True)]

    def read_new_headers(self, count: int, *, block_s: float) -> list[Entry]:
        """Lease entries as `read_new` does, for a worker that hands them on: all but the first come without payloads.

        The first is what is waited for, and a read that waits gives whole entries.
        """
        first = self.read_new(1, block_s=block_s)
        if not first or count == 1:
            return first
        found = self._with_group(
            lambda: self.link.script("lease_headers", self.keys.scripts(), self.stream, self.name, count - 1)
        )
        return first + self._entries(found)

    def take_over(self, count: int, *, headers_only: bool = False) -> list[Entry]:
        """Take over up to `count` entries whose lease has run out; `headers_only`: without their payloads.

        What this worker holds already is renewed by that and not returned: it is at work on it.
        """
        self._cursor, found = self._with_group(
            lambda: self.link.script(
                "take_over",
                self.keys.scripts(),
                self.stream,
                self.name,
                int(self.lease_s * 1000),
                self._cursor,
                count,
                "headers" if headers_only else "all",
            )
        )
        taken = self._entries(found)
        with self._lock:
            again = {entry.entry_id for entry in taken} & self._held.keys()
            # Lost and taken back before a renewal has told: that one may not let go of it.
            for entry_id in again:
                self._held[entry_id] = _Hold(self._held[entry_id].begun)
        return [entry for entry in taken if entry.entry_id not in again]

    def note_begun(self, entry: Entry) -> None:
        """Note that work on `entry` has begun, so that what is given up takes an attempt back."""
        with self._lock:
            if entry.entry_id in self._held:
                self._held[entry.entry_id].begun = 1

    def begin(self, entry: Entry) -> int:
        """Count an attempt. Returns how many there were, with this one; 0: the entry is another worker's by now."""
        attempts = int(
            self.link.script(
                "begin", self.keys.scripts(), self.stream, self.name, entry.entry_id, self.worker
            )
        )
        if attempts:
            self.note_begun(entry)
        return attempts

    def uncount(self, entry: Entry) -> bool:
        """Take back the attempt that `begin` counted: the work is put off. False: it is another worker's by now."""
        counted = self.link.script(
            "uncount", self.keys.scripts(), self.stream, self.name, entry.entry_id, self.worker
        )
        with self._lock:
            if counted and entry.entry_id in self._held:
                self._held[entry.entry_id].begun = 0
        return bool(counted)

    def decode(self, entry: Entry, decoder: Callable[[codec.Raw], M]) -> M | None:
        """Return the message in `entry`; None where it can't be read, and the entry has gone to `dead`.

        None too where a newer program wrote it: no attempt is counted, and when the lease runs out another role takes
        the entry over, until it is one that reads it.
        """
        try:
            return decoder(entry.raw)
        except NewerSchema as error:
            self._leave_to_newer(entry, str(error))
            return None
        except BadMessage as error:
            bury(self.link, self.keys, entry, reason=str(error))
            self.release(entry)
            return None

    def _leave_to_newer(self, entry: Entry, reason: str) -> None:
        """Let go of an entry, and count no attempt; one of no living group goes to `dead`."""
        if not reject(self.link, self.keys, entry, reason=reason):
            log.error("left_for_a_newer_role stream=%s group=%s: %s", self.stream, entry.group_id, reason)
            with self._lock:
                held = self._held.get(entry.entry_id)
            if held is not None and held.begun:
                self.uncount(entry)
        self.release(entry)

    def hand_over(self, entry: Entry, to: str, fields: codec.Fields) -> bool:
        """Put the result on `to` and let go of the entry. False: another worker's result already counted."""
        counted = hand_over(self.link, self.keys, entry, to, fields)
        if counted:
            self.release(entry)
        else:
            self.let_go(entry)
        return counted

    def let_go(self, entry: Entry) -> None:
        """Let go of an entry that is no living group's; if it is there still, it goes to `dead`."""
        reject(self.link, self.keys, entry, reason="where does not name it")
        self.release(entry)

    def bury(self, entry: Entry, *, reason: str, attempts: int, traceback: str = "") -> None:
        """Hand the entry over to `dead` and let go of it."""
        bury(self.link, self.keys, entry, reason=reason, attempts=attempts, traceback=traceback)
        self.release(entry)

    def tries(self, entry: Entry) -> int:
        """Return how often work on the entry's group has begun in this stage, as far as is known; counts nothing."""
        names: Any = self.link(lambda client: client.hget(self.keys.tries, entry.group_id))
        return len(names.split()) if names else 0

    def note_failure(self, entry: Entry, text: str) -> None:
        """Keep what went wrong, for the dead letter of a group that fails at every attempt. Secrets are masked."""
        text = mask(text)[-TRACEBACK_BYTES:]
        self.link.script("note_failure", self.keys.scripts(), self.stream, entry.entry_id, text)

    def hold(self, entry: Entry) -> None:
        """Renew the lease of `entry` until it is released."""
        with self._lock:
            self._held.setdefault(entry.entry_id, _Hold())

    def holds(self, entry: Entry) -> bool:
        """Return whether the lease of `entry` is renewed."""
        with self._lock:
            return entry.entry_id in self._held

    def release(self, entry: Entry) -> None:
        """Stop renewing the lease of `entry`."""
        with self._lock:
            self._held.pop(entry.entry_id, None)

    def hand_back(self, unbegun: Iterable[str] = ()) -> int:
        """Give up all entries held, unfinished: other workers take them over at once, and no attempt is counted.

        Args:
            unbegun: entries that are leased to this consumer and given up too, though it does not hold them.
        Returns:
            The number of entries. A result that comes all the same counts if it is the first.
        """
        with self._lock:
            held, self._held = self._held, {}
        begun = {entry_id: hold.begun for entry_id, hold in held.items()}
        return self._give_back({**dict.fromkeys(unbegun, 0), **begun})

    def give_up(self, entry: Entry, *, counts: bool = True) -> None:
        """Give up one entry: it is taken over at once.

        Args:
            counts: whether the attempt that has begun stays counted: work has failed, or was not even tried.
        """
        with self._lock:
            held = self._held.pop(entry.entry_id, None)
        self._give_back({entry.entry_id: 0 if counts or held is None else held.begun})

    def _give_back(self, held: Mapping[str, int]) -> int:
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
        """Return whether entries of this stream were handed back that no worker has taken over yet."""
        found = self._with_group(
            lambda: self.link(lambda client: client.xpending_range(self.key, GROUP, "-", "+", 1, NOBODY))
        )
        return bool(found)

    def leave(self) -> None:
        """Remove this consumer's name, unless entries are still leased to it; they are taken over in their time."""
        self._remove_idle_consumers(self.name)

    def renew(self) -> None:
        """Renew the leases of the entries held; an entry that is another worker's by now is let go."""
        with self._lock:
            held = dict(self._held)
        if not held:
            return
        mine = {
            item.decode()
            for item in self.link.script("renew", self.keys.scripts(), self.stream, self.name, *held)
        }
        with self._lock:
            for lost in held.keys() - mine:
                if self._held.get(lost) is held[lost]:  # else it was taken again meanwhile
                    del self._held[lost]

    def _remove_idle_consumers(self, name: str, *, silent_s: float = 0.0) -> None:
        self.link.script(
            "remove_idle_consumers", self.keys.scripts(), self.stream, name, int(silent_s * 1000)
        )

    def _entries(self, found: Any) -> list[Entry]:
        """Return the entries of a script's reply, whose fields are a flat list."""
        pairs = [(entry_id, dict(zip(flat[::2], flat[1::2], strict=True))) for entry_id, flat in found]
        return entries_of(self.stream, pairs)

    def _with_group(self, attempt: Callable[[], Any]) -> Any:
        try:
            return attempt()
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            log.warning("group_lost stream=%s", self.stream)  # Redis forgot it
            self.create_group()
            return attempt()


def read_any(consumers: Sequence[Consumer], *, block_s: float) -> list[Entry]:
    """Lease an entry of each of several streams that no worker has read, waiting up to `block_s` for the first.

    Args:
        consumers: of one name and one link.
    """
    first = consumers[0]
    by_key = {one.key.encode(): one for one in consumers}
    streams: Any = dict.fromkeys(by_key, ">")

    def attempt(client: redis.Redis) -> Any:
        return client.xreadgroup(GROUP, first.name, streams, count=1, block=int(block_s * 1000) or None)

    try:
        reply = first.link(attempt)
    except ResponseError as error:
        if "NOGROUP" not in str(error):
            raise
        for one in consumers:
            one.create_group()
        return []
    found: list[Entry] = []
    for key, items in entries_by_stream(reply):
        for entry in entries_of(by_key[key].stream, items, are_new=True):
            by_key[key].hold(entry)
            found.append(entry)
    return found


class Renewable(Protocol):
    """What holds leases."""

    @property
    def stream(self) -> str:
        """Of what."""
        ...

    @property
    def lease_s(self) -> float:
        """Seconds that a lease lasts."""
        ...

    def renew(self) -> None:
        """Renew them."""
        ...


class Renewer:
    """A thread that renews leases while their consumer's own thread is busy.

    Args:
        period_s: seconds from one renewal to the next; None: a third of the shortest lease.
    """

    def __init__(self, consumers: Sequence[Renewable], *, period_s: float | None = None) -> None:
        self._consumers = consumers
        self._period_s = period_s or min(consumer.lease_s for consumer in consumers) / 3
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="renewer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._period_s):
            started = time.monotonic()
            for consumer in self._consumers:
                try:
                    consumer.renew()
                except Exception:
                    log.exception("renewal_failed stream=%s", consumer.stream)
            if time.monotonic() - started > self._period_s:
                lease_s = self._period_s * 3
                log.warning("renewal_slow took_s=%.1f lease_s=%.1f", time.monotonic() - started, lease_s)

    def stop(self) -> None:
        """End the thread; leases run out by themselves."""
        self._stop.set()
        self._thread.join(timeout=5.0)


def hand_back_within(hand_back: Iterable[Callable[[], int]], within_s: float) -> None:
    """Give leases up, for a process that must end. Takes `within_s` at most, and never raises.

    Args:
        hand_back: each gives up what one consumer holds (`Consumer.hand_back`) and returns the number of groups.
    """

    def give_up() -> None:
        for give in hand_back:
            try:
                log.warning("handed_back groups=%d", give())
            except Exception:
                log.exception("hand_back_failed: the leases run out")

    thread = threading.Thread(target=give_up, name="hand-back", daemon=True)
    thread.start()
    thread.join(within_s)
