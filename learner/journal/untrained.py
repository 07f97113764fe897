"""Keep groups that never train, for people: dropped groups, and the groups of held-out rounds.

In: groups when they end. Out: `untrained-FENCE-NNN.bin` next to the ledger, and the same groups again. No step and no
recovery needs them: they are not synced, a failed write loses only them, and the oldest files are removed beyond
`learner.journal.untrained_mb`. The ledger decides which of them count. A kill between the two may leave a group here
that was trained later, or is here twice.

Each file is a sequence of framed records (`learner.journal.records`): `kind`, `step` (the next one trained, counted
from 0 as in the ledger: the version of that moment), `reasons` by group, and the groups as in a step's payload.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from broker.messages import ScoredGroup
from learner.journal.disk import write_all
from learner.journal.ledger import DROPPED, JournalError, Ledger
from learner.journal.payloads import MIB, StepEncoder, decode_step
from learner.journal.records import Broken, framed, scan, step_number

log = logging.getLogger(__name__)

EVALUATED = "evaluated"
SEGMENTS = 8  # files among which the newest payloads are divided: whole files are removed


@dataclass(frozen=True, slots=True)
class Untrained:
    """A group that did not train."""

    kind: str  # dropped | evaluated
    step: int  # for a dropped group the number of the step trained next; for a held-out one its version
    reason: str  # why it was dropped; "" for a held-out group
    group: ScoredGroup  # its completions have no text


class UntrainedWriter:
    """Write the files of one incarnation, and remove old files of all.

    Args:
        folder: the journal's.
        fence: this incarnation's.
        keep_mb: MiB to keep; 0: nothing is written.
    """

    def __init__(self, folder: Path, fence: int, *, keep_mb: int) -> None:
        self._folder = folder
        self._fence = fence
        self._limit = keep_mb * MIB
        self._encoder = StepEncoder()
        self._stream: BinaryIO | None = None
        self._number = self._size = 0
        self._failed = False

    def write(self, kind: str, step: int, groups: Sequence[ScoredGroup], reasons: Sequence[str]) -> None:
        """Write groups that ended; after one failed write, warn and write no more."""
        if not self._limit or not groups or self._failed:
            return
        nothing = [[None] * len(group.rewards) for group in groups]
        record = framed(
            {
                "kind": kind,
                "step": step,
                "reasons": list(reasons),
                "payload": bytes(self._encoder.encode(step, groups, nothing)),
            }
        )
        try:
            stream = self._stream
            if stream is None or self._size + len(record) > self._limit // SEGMENTS:
                stream = self._begin_file()
            write_all(stream, record)
            self._size += len(record)
        except OSError as error:
            self._failed = True
            log.warning("untrained_not_kept folder=%s reason=%s", self._folder, error.strerror)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()

    def _begin_file(self) -> BinaryIO:
        self.close()
        path = self._folder / f"untrained-{self._fence:06d}-{self._number:03d}.bin"
        stream = self._stream = path.open("xb", buffering=0)
        self._number += 1
        self._size = 0
        kept = 0
        for older in reversed(untrained_files(self._folder)):
            kept += older.stat().st_size
            if kept > self._limit - self._limit // SEGMENTS:  # for the new one
                older.unlink()
        return stream


def untrained_files(folder: Path) -> list[Path]:
    """List the existing files, the oldest first."""

    def place(path: Path) -> tuple[int, int]:
        _, fence, number = path.stem.split("-")
        return int(fence), int(number)

    return sorted(folder.glob("untrained-*-*.bin"), key=place)


def read_untrained(folder: Path, ledger: Ledger) -> Iterator[Untrained | JournalError]:
    """Yield each group once that the ledger has as dropped or evaluated, and an error for each damaged file.

    Args:
        folder: the journal's.
        ledger: of the same folder.
    """
    seen: set[str] = set()
    for path in untrained_files(folder):
        try:
            for found in scan(path):
                if isinstance(found, Broken):
                    if not found.is_tail:
                        yield JournalError(f"{path}: bytes {found.start} to {found.end} are damaged")
                    continue
                yield from _groups_of(found.record, f"{path}: the record at byte {found.start}", ledger, seen)
        except FileNotFoundError:  # retention was faster
            continue
        except (JournalError, OSError) as error:
            yield JournalError(str(error))


def _groups_of(record: Mapping[str, Any], where: str, ledger: Ledger, seen: set[str]) -> Iterator[Untrained]:
    kind, step = record["kind"], record["step"]
    groups, _ = decode_step(record["payload"], where)
    for group, reason in zip(groups, record["reasons"], strict=True):
        if group.group_id not in seen and _counts(kind, group.group_id, step, ledger):
            seen.add(group.group_id)
            yield Untrained(kind, step if kind == EVALUATED else step_number(record), reason, group)


def _counts(kind: str, group_id: str, step: int, ledger: Ledger) -> bool:
    """Return whether the ledger's outcome of a group matches the one written here."""
    if kind == EVALUATED:
        return group_id in ledger.evaluations.get(step, {}).get("ids", ())
    outcome = ledger.outcomes.get(group_id)
    return outcome is not None and outcome.kind == DROPPED
