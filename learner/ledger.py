"""The ledger of a run as it is read: what became of every group, and what every step trained on.

In: the files that `learner.journal` writes. Out: a `Ledger`, and any step's groups. Read by the learner's recovery, the
audit and the tools; needs no torch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack

from broker.codec import decode_scored_payload
from broker.errors import Permanent
from broker.messages import ScoredGroup

FRAME = struct.Struct("<II")
TRAINED, DROPPED, DEAD = "trained", "dropped", "dead"


class JournalError(Permanent):
    """A journal that can't be read or written."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a group ended."""

    kind: str           # trained | dropped | dead
    detail: str         # the step, or the reason


@dataclass(slots=True)
class Ledger:
    """What the records say."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)          # ids with a second outcome: must stay empty
    steps: list[Mapping[str, Any]] = field(default_factory=list)
    evaluations: dict[int, Mapping[str, Any]] = field(default_factory=dict)      # by version
    fence: int = 0
    previous: str | None = None
    end: int = 0                                            # bytes of the newest ledger file that stand

    def add(self, record: Mapping[str, Any]) -> None:
        """Take one record in."""
        match record["kind"]:
            case "step":
                self.steps.append(record)
                for group_id in record["ids"]:
                    self._end(group_id, Outcome(TRAINED, str(record["step"])))
            case "end":
                self._end(record["id"], Outcome(record["outcome"], record["reason"]))
            case "evaluation":
                self.evaluations[record["version"]] = record

    def _end(self, group_id: str, outcome: Outcome) -> None:
        if group_id in self.outcomes:
            self.twice.append(group_id)
        self.outcomes[group_id] = outcome


def read_ledger(folder: Path, *, before: int | None = None) -> Ledger:
    """Everything that stands in the ledgers of `folder`, oldest life first.

    Args:
        before: only lives with a lower fence.
    Raises:
        JournalError: a ledger that a later life has read is damaged or gone.
    """
    lives = [path for path in ledgers(folder) if before is None or fence_of(path) < before]
    ledger = Ledger()
    for path, end in reversed(_chain(lives)):
        for record, position in _records(path):
            if end is not None and position > end:
                break
            ledger.add(record)
            ledger.end = position
        if end is not None and ledger.end != end:
            raise JournalError(f"{path} is damaged: a later life read it up to byte {end}, and now its last whole "
                               f"record ends at byte {ledger.end}")
        ledger.previous = path.name
    ledger.fence = max(map(fence_of, lives), default=0)
    return ledger


def read_step(folder: Path, record: Mapping[str, Any]) -> tuple[list[ScoredGroup], list[list[float | None]]]:
    """Groups and advantages of one step record, in the order they were trained in."""
    try:
        with (folder / record["file"]).open("rb") as stream:
            stream.seek(record["offset"])
            payload = stream.read(record["length"])
    except OSError as error:
        raise JournalError(f"{folder / record['file']}: the payload of step {record['step']} can't be read: "
                           f"{error.strerror}") from error
    if len(payload) != record["length"] or zlib.crc32(payload) != record["crc32"]:
        raise JournalError(f"{folder / record['file']}: the payload of step {record['step']} is damaged")
    tree = msgpack.unpackb(payload, raw=False)
    return [decode_scored_payload(item) for item in tree["groups"]], tree["advantages"]


def ledgers(folder: Path) -> list[Path]:
    """The ledgers of all lives, the oldest first."""
    return sorted(folder.glob("ledger-*.log"), key=fence_of)


def fence_of(path: Path) -> int:
    """The fence of the life that a ledger belongs to."""
    return int(path.stem.removeprefix("ledger-"))


def _chain(lives: list[Path]) -> list[tuple[Path, int | None]]:
    """Ledgers from the newest life to the first, each with the position where it ends for the next one.

    A life that was killed before its first record is whole has written nothing, and nobody names it: the one before it
    is the newest.
    """
    newest = next((path for path in reversed(lives) if next(_records(path), None)), None)
    chain: list[tuple[Path, int | None]] = []
    end = None
    while newest is not None:
        opening = next(_records(newest), None) if newest.exists() else None
        if opening is None:
            raise JournalError(f"{newest} is damaged or gone, and a later life of this run began where it ends")
        chain.append((newest, end))
        end = opening[0]["previous_end"]
        newest = newest.with_name(opening[0]["previous"]) if opening[0]["previous"] else None
    return chain


def _records(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Whole records of a ledger with the position after each; ends at the first that is torn."""
    with path.open("rb") as stream:
        while len(frame := stream.read(FRAME.size)) == FRAME.size:
            length, checksum = FRAME.unpack(frame)
            body = stream.read(length)
            if not body or len(body) != length or zlib.crc32(body) != checksum:     # 0 bytes have the CRC 0: a tail
                return                                                          # of zeros, as a power cut leaves it
            yield msgpack.unpackb(body, raw=False), stream.tell()
