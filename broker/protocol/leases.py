"""Lease entries of a work stream, renew the leases and hand results over: a worker's side of the stream.

In: a stream with a consumer group, `prompts` or `rollouts`. Out: each entry's result, by one hand-over. Generators, the
scorers' dispatcher and every scorer have a `Consumer`, and run a `Renewer` during their work. A killed process neither
renews nor hands back: its leases expire, and other workers take its entries over.
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
    dead_letter_entry,
    entries_by_stream,
    entries_of,
    hand_over,
    reject,
)
from config.logs import mask

log = logging.getLogger(__name__)
M = TypeVar("M")

SILENT_S = 3600.0  # a consumer without entries that was silent this long is removed


@dataclass(slots=True, eq=False)
class _Hold:
    """A renewed lease. A lease that was lost and taken again is a new `_Hold`."""

    begun: int = 0  # 1 once work on the entry has begun


class Consumer:
    """A worker's view of a stream with a consumer group.

    Args:
        stream: `prompts` or `rollouts`.
        name: of this consumer; entries of others are taken over once idle longer than `lease_s`.
        worker: the process that works, where several share a consumer name; unique among the run's processes.
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
        """Make the consumer group, at 0: a group at `$` would skip existing entries."""

        def attempt(client: redis.Redis) -> None:
            try:
                client.xgroup_create(self.key, GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

        self.link(attempt)

    def lease(self, count: int, *, block_s: float) -> list[Entry]:
        """Lease up to `count` entries, expired leases first, then new ones; waits up to `block_s` seconds."""
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
        """Lease entries as `read_new` does, for a worker that passes them on: only the first has its payload.

        The first is read by the blocking call, which returns whole entries.
        """
        first = self.read_new(1, block_s=block_s)
        if not first or count == 1:
            return first
        found = self._with_group(
            lambda: self.link.script("lease_headers", self.keys.scripts(), self.stream, self.name, count - 1)
        )
        return first + self._entries(found)

    def take_over(self, count: int, *, headers_only: bool = False) -> list[Entry]:
        """Take over up to `count` entries whose leases have expired; `headers_only`: without payloads.

        Entries that this worker already holds are renewed and not returned: it is working on them.
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
            # Lost and taken back before a renewal noticed: that renewal must not release it.
            for entry_id in again:
                self._held[entry_id] = _Hold(self._held[entry_id].begun)
        return [entry for entry in taken if entry.entry_id not in again]

    def note_begun(self, entry: Entry) -> None:
        """Note that work on `entry` has begun, so that giving it up uncounts an attempt."""
        with self._lock:
            if entry.entry_id in self._held:
                self._held[entry.entry_id].begun = 1

    def begin(self, entry: Entry) -> int:
        """Count an attempt. Returns the number of attempts, this one included; 0: another worker has the entry now."""
        attempts = int(
            self.link.script(
                "begin", self.keys.scripts(), self.stream, self.name, entry.entry_id, self.worker
            )
        )
        if attempts:
            self.note_begun(entry)
        return attempts

    def uncount(self, entry: Entry) -> bool:
        """Uncount the attempt of `begin`, when the work is put off. False: another worker has the entry now."""
        counted = self.link.script(
            "uncount", self.keys.scripts(), self.stream, self.name, entry.entry_id, self.worker
        )
        with self._lock:
            if counted and entry.entry_id in self._held:
                self._held[entry.entry_id].begun = 0
        return bool(counted)

    def decode(self, entry: Entry, decoder: Callable[[codec.Raw], M]) -> M | None:
        """Return the message in `entry`; None where it can't be read, and the entry has gone to `dead`.

        None also where a newer program wrote it: no attempt is counted, and when the lease expires another process
        takes the entry over, until one can read it.
        """
        try:
            return decoder(entry.raw)
        except NewerSchema as error:
            self._leave_to_newer(entry, str(error))
            return None
        except BadMessage as error:
            dead_letter_entry(self.link, self.keys, entry, reason=str(error))
            self.release(entry)
            return None

    def _leave_to_newer(self, entry: Entry, reason: str) -> None:
        """Release an entry without counting an attempt; one of no living group goes to `dead`."""
        if not reject(self.link, self.keys, entry, reason=reason):
            log.error("left_for_a_newer_role stream=%s group=%s: %s", self.stream, entry.group_id, reason)
            with self._lock:
                held = self._held.get(entry.entry_id)
            if held is not None and held.begun:
                self.uncount(entry)
        self.release(entry)

    def hand_over(self, entry: Entry, to: str, fields: codec.Fields) -> bool:
        """Append the result to `to` and release the entry. False: another worker's result already counted."""
        counted = hand_over(self.link, self.keys, entry, to, fields)
        if counted:
            self.release(entry)
        else:
            self.let_go(entry)
        return counted

    def let_go(self, entry: Entry) -> None:
        """Release an entry of no living group; if it still exists, it goes to `dead`."""
        reject(self.link, self.keys, entry, reason="where does not name it")
        self.release(entry)

    def dead_letter_entry(self, entry: Entry, *, reason: str, attempts: int, traceback: str = "") -> None:
        """Hand the entry over to `dead` and release it."""
        dead_letter_entry(self.link, self.keys, entry, reason=reason, attempts=attempts, traceback=traceback)
        self.release(entry)

    def tries(self, entry: Entry) -> int:
        """Return the known number of attempts at the entry's group in this stage; counts nothing."""
        names: Any = self.link(lambda client: client.hget(self.keys.tries, entry.group_id))
        return len(names.split()) if names else 0

    def note_failure(self, entry: Entry, text: str) -> None:
        """Record the error, for the dead letter of a group that fails at every attempt. Secrets are masked."""
        text = mask(text)[-TRACEBACK_BYTES:]
        self.link.script("note_failure", self.keys.scripts(), self.stream, entry.entry_id, text)

    def hold(self, entry: Entry) -> None:
        """Renew the lease of `entry` until `release`."""
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
        """Give up all held entries, unfinished: other workers take them over at once, and no attempt is counted.

        Args:
            unbegun: entries leased to this consumer but not held, to give up too.
        Returns:
            The number of entries. A later result still counts if it is the first.
        """
        with self._lock:
            held, self._held = self._held, {}
        begun = {entry_id: hold.begun for entry_id, hold in held.items()}
        return self._give_back({**dict.fromkeys(unbegun, 0), **begun})

    def give_up(self, entry: Entry, *, counts: bool = True) -> None:
        """Give up one entry; another worker takes it over at once.

        Args:
            counts: whether the attempt stays counted: the work failed, or was never tried.
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
        """Return whether entries of this stream were handed back and not taken over yet."""
        found = self._with_group(
            lambda: self.link(lambda client: client.xpending_range(self.key, GROUP, "-", "+", 1, NOBODY))
        )
        return bool(found)

    def leave(self) -> None:
        """Remove this consumer's name, unless it still has leases; those are taken over when they expire."""
        self._remove_idle_consumers(self.name)

    def renew(self) -> None:
        """Renew the leases of held entries; release entries that another worker has now."""
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
                if self._held.get(lost) is held[lost]:  # otherwise it was taken again meanwhile
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
            log.warning("group_lost stream=%s", self.stream)  # Redis lost it
            self.create_group()
            return attempt()


def read_any(consumers: Sequence[Consumer], *, block_s: float) -> list[Entry]:
    """Lease an entry from each of several streams that no worker has read, waiting up to `block_s` for the first.

    Args:
        consumers: with the same name and link.
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
    """A holder of leases."""

    @property
    def stream(self) -> str:
        """The stream of the leases."""
        ...

    @property
    def lease_s(self) -> float:
        """Seconds that a lease lasts."""
        ...

    def renew(self) -> None:
        """Renew the leases."""
        ...


class Renewer:
    """Renew leases from a thread while the consumer's own thread is busy.

    Args:
        period_s: seconds between renewals; None: a third of the shortest lease.
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
        """End the thread; the leases expire by themselves."""
        self._stop.set()
        self._thread.join(timeout=5.0)


def hand_back_within(hand_back: Iterable[Callable[[], int]], within_s: float) -> None:
    """Give leases up, for a process that must exit. Takes at most `within_s`, and never raises.

    Args:
        hand_back: each gives up the entries of one consumer (`Consumer.hand_back`) and returns the number of groups.
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
