"""Read the entries of the work streams, hand them over, dead-letter and reject them.

In: entries of `prompts`, `rollouts`, `scored` or `dead`. Out: one result of each, by the script `hand_over`, or a
dead letter on `dead`. Every role uses it; `broker.protocol.leases` distributes the work of a stream. `scored` and
`dead` have one reader, the learner (`learner.groups.intake`), and no consumer group.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from broker import codec
from broker.connection import RedisLink
from broker.keys import DEAD, Keys
from broker.messages import DeadLetter
from config.logs import mask

log = logging.getLogger(__name__)
M = TypeVar("M")

TRACEBACK_BYTES = 4000  # kept of the end of a traceback in a dead letter
NOBODY = "nobody"  # the consumer of entries that were handed back (lua/hand_back.lua)
LONGEST_NUMBER = 15  # digits of a floor: Lua would round a longer number, which is no floor


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """An entry of a work stream, as in Redis."""

    stream: str  # prompts | episodes | rollouts | scored | dead
    entry_id: str
    raw: codec.Raw
    is_new: bool = False  # no worker has leased it before

    @property
    def group_id(self) -> str:
        """Return the group's id from the header, or "?"."""
        return codec.text(self.raw, "group", "?")

    @property
    def floor(self) -> int:
        """Return the floor from the header; where there is none -1, which no slot has."""
        floor = codec.text(self.raw, "floor", "-1")
        return int(floor) if floor.isdecimal() and len(floor) <= LONGEST_NUMBER else -1

    @property
    def issued_at(self) -> float:
        """Return the time of issue from the header, Unix seconds; 0 where there is none."""
        try:
            seconds = float(codec.text(self.raw, "at", "0"))
        except ValueError:
            return 0.0
        return seconds if math.isfinite(seconds) else 0.0


def entries_of(stream: str, reply: Any, *, are_new: bool = False) -> list[Entry]:
    """Return the entries of an XRANGE-like reply, without those that are gone (no fields)."""
    return [Entry(stream, entry_id.decode(), fields, are_new) for entry_id, fields in reply or () if fields]


def read_entry(link: RedisLink, keys: Keys, stream: str, entry_id: str) -> Entry | None:
    """Read the entry with that id; None if it is gone."""
    found = entries_of(stream, link(lambda client: client.xrange(keys.stream(stream), entry_id, entry_id)))
    return found[0] if found else None


def entries_by_stream(reply: Any) -> Iterator[tuple[bytes, list[Any]]]:
    """Yield key and entries of each stream in a reply to XREAD or XREADGROUP, for any RESP version and parser.

    The reply is a mapping in RESP3 and pairs before, and the entries of a stream may be nested in one more list.
    """
    for key, items in reply.items() if isinstance(reply, dict) else reply or ():
        yield key, [entry for item in items for entry in (item if isinstance(item, list) else [item])]


def hand_over(
    link: RedisLink,
    keys: Keys,
    entry: Entry,
    to: str,
    fields: codec.Fields,
    *,
    attempt: str = "",
    ends: Sequence[bytes] = (),
) -> bool:
    """Append the result of `entry` to stream `to`, once. False: another worker's result already counted.

    Args:
        attempt: of an entry of `episodes`; "" only to `dead`, for callers without an attempt.
        ends: the ids of the ends of its episodes, in order, as `broker.protocol.episodes` made them.

    Raises:
        ResponseError: the result's floor differs from that of the group's slot; nothing has changed.
    """
    flat = [part for pair in fields.items() for part in pair]
    return bool(
        link.script(
            "hand_over",
            keys.scripts(),
            entry.stream,
            entry.entry_id,
            entry.group_id,
            to,
            entry.floor,
            attempt,
            b"".join(ends),
            *flat,
        )
    )


def dead_letter_entry(
    link: RedisLink,
    keys: Keys,
    entry: Entry,
    *,
    reason: str,
    attempts: int = 0,
    traceback: str = "",
    attempt: str = "",
) -> bool:
    """Hand `entry` over to `dead`; reject a foreign entry, which has no place in `where`.

    An entry with a place in `where` ends even if its header is damaged: the dead letter gets the slot's floor. Secrets
    in `reason` and `traceback` are masked: the dead letter stays in Redis and in its file.

    Args:
        attempts: how often work on it began.
        attempt: as in `hand_over`.
    """
    reason = mask(reason)
    dead_letter = DeadLetter(
        group_id=entry.group_id,
        stage=entry.stream,
        reason=reason,
        attempts=attempts,
        traceback=mask(traceback)[-TRACEBACK_BYTES:],
        original=entry.raw.get(b"payload", b""),
    )
    if hand_over(link, keys, entry, DEAD, codec.encode_dead(dead_letter, floor=entry.floor), attempt=attempt):
        log.error(
            "dead group=%s stage=%s attempts=%d reason=%s", entry.group_id, entry.stream, attempts, reason
        )
        return True
    return reject(link, keys, entry, reason=reason)


def reject(link: RedisLink, keys: Keys, entry: Entry, *, reason: str) -> bool:
    """Move an entry of no living group to `dead`. False: the entry is gone, or its group is alive after all."""
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
