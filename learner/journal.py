"""The journal: the ledger of the whole run, and what every step trained on.

In: each batch before the optimizer sees it, and each group that ended otherwise. Out: files that say for ever what
became of every group. Written by rank 0 of the learner, read by recovery and the audit; needs no torch.
A failed write ends the learner before anything is acknowledged, so the groups are still in Redis.

Files, in `runs/NAME/journal/`, two for each life of the learner, named by its fence and created exclusively:
    ledger-FENCE.log     records; each is length, CRC-32 (u32 little-endian both) and msgpack
    payload-FENCE.bin    for each step a msgpack map with the groups as they were scored, in order
The first record of a life names the ledger before it and where that ended; what an older life appends beyond that end
is void. Nothing of an older life is ever cut or overwritten.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgpack

from broker.codec import decode_scored_payload, encode_scored_payload
from broker.errors import Fenced, Permanent, RunFailed
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
    lives = [path for path in _ledgers(folder) if before is None or _fence_of(path) < before]
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
    ledger.fence = max(map(_fence_of, lives), default=0)
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


class Journal:
    """This life's own files, and the ledger of all lives."""

    def __init__(self, folder: Path, fence: int, *, run: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.fence = fence
        self._log = _create(folder / f"ledger-{fence:06d}.log")
        self._payload_name = f"payload-{fence:06d}.bin"
        self._payload = _create(folder / self._payload_name)
        _sync_folder(folder)
        self.ledger = read_ledger(folder, before=fence)
        previous = self.ledger.previous
        self._write({"kind": "life", "fence": fence, "run": run, "previous": previous,
                     "previous_end": self.ledger.end if previous else None})

    def has(self, group_id: str) -> bool:
        """Whether the group has an outcome."""
        return group_id in self.ledger.outcomes

    def append(self, step: int, groups: Sequence[ScoredGroup], advantages: Sequence[Sequence[float | None]], *,
               weights: str) -> None:
        """Make step `step` stand: payload, fsync, record, fsync. From here on it can be replayed.

        Args:
            advantages: one list a group, one number a completion, as the step uses them.
            weights: checksum of the weights that the step starts from.
        Raises:
            RunFailed: it could not be written; nothing may be acknowledged.
            Fenced: a newer learner has opened the journal.
        """
        self.check_fence()
        payload = msgpack.packb({"step": step, "groups": [encode_scored_payload(group) for group in groups],
                                 "advantages": [list(row) for row in advantages]}, use_bin_type=True)
        try:
            offset = self._payload.seek(0, os.SEEK_END)
            _write_all(self._payload, payload)
            _sync(self._payload)
        except OSError as error:
            raise self._failed(error, len(payload)) from error
        self._record({"kind": "step", "step": step, "ids": [group.group_id for group in groups],
                      "file": self._payload_name, "offset": offset, "length": len(payload),
                      "crc32": zlib.crc32(payload), "weights": weights})

    def end(self, ends: Mapping[str, Outcome]) -> None:
        """Write down groups that ended without training; one fsync for all. Raises as `append` does."""
        self.check_fence()
        for group_id, outcome in ends.items():
            self._record({"kind": "end", "id": group_id, "outcome": outcome.kind, "reason": outcome.detail}, sync=False)
        self._flush()

    def evaluation(self, version: int, results: Mapping[str, Any]) -> None:
        """Write down an evaluation round: that is its groups' outcome. Raises as `append` does."""
        self.check_fence()
        self._record({"kind": "evaluation", "version": version, **results})

    def check_fence(self) -> None:
        """Raises Fenced if a newer learner has opened this journal: Redis may have forgotten its fence."""
        newest = max((_fence_of(path) for path in _ledgers(self.folder)), default=self.fence)
        if newest > self.fence:
            raise Fenced(f"{self.folder}: a newer learner (fence {newest}) has taken this run over from fence "
                         f"{self.fence}")

    def close(self) -> None:
        """Close the files."""
        self._log.close()
        self._payload.close()

    def _record(self, record: Mapping[str, Any], *, sync: bool = True) -> None:
        self._write(record, sync=sync)
        self.ledger.add(record)

    def _write(self, record: Mapping[str, Any], *, sync: bool = True) -> None:
        body = msgpack.packb(record, use_bin_type=True)
        try:
            _write_all(self._log, FRAME.pack(len(body), zlib.crc32(body)) + body)
        except OSError as error:
            raise self._failed(error, len(body)) from error
        if sync:
            self._flush()

    def _flush(self) -> None:
        try:
            _sync(self._log)
        except OSError as error:
            raise self._failed(error, 0) from error

    def _failed(self, error: OSError, size: int) -> RunFailed:
        return RunFailed(f"the journal in {self.folder} can't be written ({size} bytes): {error.strerror}. Nothing of "
                         "this step was acknowledged; its groups are still in Redis")


def _ledgers(folder: Path) -> list[Path]:
    return sorted(folder.glob("ledger-*.log"), key=_fence_of)


def _fence_of(path: Path) -> int:
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


def _create(path: Path) -> BinaryIO:
    try:
        return path.open("xb", buffering=0)
    except OSError as error:
        raise RunFailed(f"{path} can't be created: {error.strerror}") from error


def _write_all(stream: BinaryIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:                         # an unbuffered file may take a part, as when the disk is nearly full
        rest = rest[stream.write(rest):]


def _sync(stream: BinaryIO) -> None:
    os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
