"""The journal: the ledger of the whole run, and what every step trained on.

In: each batch before the optimizer sees it, and each group that ended otherwise. Out: files that say for ever what
became of every group. Written by rank 0 of the learner, read by `learner.ledger`; needs no torch.
A failed write ends the learner before anything is acknowledged, so the groups are still in Redis.

Files, in `runs/NAME/journal/`, two for each life of the learner, named by its fence and created exclusively:
    ledger-FENCE.log     records; each is length, CRC-32 (u32 little-endian both) and msgpack
    payload-FENCE.bin    for each step a msgpack map with the groups as they were scored, in order
The first record of a life names the ledger before it and where that ended; what an older life appends beyond that end
is void. Nothing of an older life is ever cut or overwritten.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgpack

from broker.codec import encode_scored_payload
from broker.errors import Fenced, RunFailed
from broker.messages import ScoredGroup
from learner.ledger import FRAME, Outcome, fence_of, ledgers, read_ledger


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
        newest = max((fence_of(path) for path in ledgers(self.folder)), default=self.fence)
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
