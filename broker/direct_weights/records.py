"""This module describes how weights go directly: an epoch, its members, its rounds, and a generator's wish.

An **epoch** is one communicator between the learner and the generators that are its members, for as long as they stay
the same and nothing fails. A **round** moves one announced version to all members of an epoch. The learner writes the
epoch with its last round, each generator its own wish. Records and pure functions; both ends use them. All text is
JSON, and what can't be read is no record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

TEXT_LIMIT = 1_000_000  # characters of one record


class State(StrEnum):
    """What an epoch is at."""

    FORMING = "forming"  # its members are to connect
    OPEN = "open"  # all have connected: a round may be under way
    ENDED = "ended"  # no round comes any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One announced version on its way to all members."""

    number: int  # of its epoch, from 1
    version: int
    checksum: str  # as announced
    sizes_bytes: tuple[int, ...]  # of the version's files, in the order in which they travel
    is_over: bool = False  # sent, or void: it brings nothing that is not here

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(self.sizes_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A communicator between the learner, its rank 0, and the members, ranks 1 and on."""

    id: str  # another one for each epoch of each learner
    type: str  # of `learner.weights.direct`
    host: str  # where the learner's courier listens
    port: int
    bucket_bytes: int
    timeout_s: float  # for all members to connect, and for each round
    members: tuple[str, ...]  # names of generators, in the order of their ranks
    state: State
    reason: str = ""  # why it has ended, for people
    round: Round | None = None  # the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A generator's wish for direct weights. Its count rises with each look, which shows that the generator lives."""

    count: int
    machine: str  # which this generator runs on, see `broker.direct_weights.board.this_machine`


def courier_settings(epoch: Epoch, *, rank: int, port: int) -> dict[str, Any]:
    """Return what a courier of an epoch is told first (`courier.rendezvous.Settings`)."""
    return {
        "epoch": epoch.id,
        "type": epoch.type,
        "host": epoch.host,
        "port": port,
        "rank": rank,
        "world": 1 + len(epoch.members),
        "bucket_bytes": epoch.bucket_bytes,
        "timeout_s": epoch.timeout_s,
    }


def epoch_text(epoch: Epoch) -> str:
    """Write an epoch as JSON."""
    return json.dumps(asdict(epoch))


def read_epoch_text(text: str | bytes) -> Epoch | None:
    """Read an epoch; None where it is none, or damaged."""
    try:
        found = _tree(text)
        under_way = found["round"]
        return Epoch(
            id=str(found["id"]),
            type=str(found["type"]),
            host=str(found["host"]),
            port=int(found["port"]),
            bucket_bytes=_positive(found["bucket_bytes"]),
            timeout_s=float(found["timeout_s"]),
            members=tuple(str(member) for member in found["members"]),
            state=State(found["state"]),
            reason=str(found["reason"]),
            round=_round(under_way) if under_way else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def wish_text(wish: Wish) -> str:
    """Write a wish as JSON."""
    return json.dumps(asdict(wish))


def read_wish_text(text: str | bytes) -> Wish | None:
    """Read a wish; None where it is none."""
    try:
        found = _tree(text)
        return Wish(count=int(found["count"]), machine=str(found["machine"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _tree(text: str | bytes) -> Mapping[str, Any]:
    if len(text) > TEXT_LIMIT:
        raise ValueError("longer than a record")
    found: Mapping[str, Any] = json.loads(text)
    return found


def _round(found: Mapping[str, Any]) -> Round:
    sizes_bytes = tuple(_positive(size) for size in found["sizes_bytes"])
    if not sizes_bytes:
        raise ValueError("no files")
    return Round(
        number=_positive(found["number"]),
        version=int(found["version"]),
        checksum=str(found["checksum"]),
        sizes_bytes=sizes_bytes,
        is_over=bool(found["is_over"]),
    )


def _positive(found: Any) -> int:
    if (number := int(found)) < 1:
        raise ValueError(f"{number} is not positive")
    return number
