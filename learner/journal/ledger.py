"""Read the ledger of a run: the outcome of every group, and the groups of every step.

In: the files that `learner.journal` writes. Out: a `Ledger`, and by `read_step` any step's groups. Read by the
learner's recovery, the audit and the tools; needs no torch. Damage is an error, or a line of `Ledger.problems` where
`strict` is off. A truncated record at the end, as a kill leaves it, does not count; it gets a warning and is not
removed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.group_ids import ordinal_of, retried
from broker.messages import ScoredGroup
from learner.journal.payloads import JournalError, PayloadGone, payload_files, read_payload, read_step
from learner.journal.records import Broken, Whole, first_record, published_in, scan, step_number

__all__ = [
    "COLLECTED",
    "DEAD",
    "DROPPED",
    "OVER",
    "RECORDED",
    "SURPLUS",
    "TRAINED",
    "GroupOutcome",
    "JournalError",
    "Ledger",
    "PayloadGone",
    "fence_of",
    "ledgers",
    "read_ledger",
    "read_payload",
    "read_step",
]

log = logging.getLogger(__name__)

TRAINED, DROPPED, DEAD = "trained", "dropped", "dead"
SURPLUS = "surplus"  # begins the detail of a group dropped because an earlier step had its groups without it
OVER = "over"  # begins the detail of a group dropped because the last step had its groups without it
COLLECTED = "collected"  # kept with its payload, by a run without training
RECORDED = "recorded"  # a held-out group, with the round of its version
ADVICE = "restore the file from a copy, or begin a new run from a checkpoint: learner.resume=FOLDER"


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """How a group ended, and why."""

    kind: str  # trained | dropped | dead | collected
    detail: str  # the number of the step (`step_number`), or the reason; "" for a collected group
    tokens: int = 0  # sampled tokens that were discarded with the group; 0 where unknown, and if trained
    # Further facts for people (`learner.groups.discarded`). They are not read back, except into `Ledger.followed`.
    facts: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    # For `learner.journal.untrained`; not read back either.
    group: ScoredGroup | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Ledger:
    """The outcomes, steps and incarnations of a journal."""

    outcomes: dict[str, GroupOutcome] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)  # ids, once for each outcome after the first
    # Records of the steps: step (from 0, see `step_number`), ids, tokens, at, published (see `published_in`), fence (of
    # the incarnation that wrote the record), file, offset, length and crc32 (of the payload).
    steps: list[Mapping[str, Any]] = field(default_factory=list)
    evaluations: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # by version
    # Records of collected groups: ids, dead (reasons by id, for those that ended in `dead`), tokens, fence, file,
    # offset, length and crc32 (of the payload with all of them).
    collected: list[Mapping[str, Any]] = field(default_factory=list)
    retries: dict[str, int] = field(default_factory=dict)  # dead or over group -> number of its retries
    incarnations: list[Mapping[str, Any]] = field(
        default_factory=list
    )  # first record of each incarnation, the oldest first
    problems: list[str] = field(default_factory=list)  # damaged, missing or misplaced records, in words
    fence: int = 0  # the highest of any incarnation
    previous: str | None = None  # file of the newest incarnation with records
    end: int = 0  # valid bytes of that file
    follow: str = ""  # a group whose records are all kept
    followed: list[Mapping[str, Any]] = field(default_factory=list)  # those records, the oldest first

    @property
    def checksums(self) -> dict[int, str]:
        """The checksum of each published version's weights that a later step names."""
        return {
            version: checksum for record in self.steps for version, checksum in published_in(record).items()
        }

    @property
    def over(self) -> list[str]:
        """The groups that the last step had no need of, and that were not retried since."""
        return [
            group_id
            for group_id, outcome in self.outcomes.items()
            if outcome.kind == DROPPED
            and outcome.detail.startswith(f"{OVER}: ")
            and group_id == self.newest_try(group_id)
        ]

    @property
    def open_retries(self) -> list[str]:
        """The newest retry of each group that has one, where it has no outcome: issued, or still to be issued."""
        tries = (retried(base, number) for base, number in self.retries.items())
        return [group_id for group_id in tries if group_id not in self.outcomes]

    def state_of(self, group_id: str) -> str:
        """Return a group's outcome, RECORDED for a held-out group; "" where the ledger has none."""
        if group_id in self.outcomes:
            return self.outcomes[group_id].kind
        rounds = self.evaluations.values()
        return RECORDED if any(group_id in record.get("ids", ()) for record in rounds) else ""

    def newest_try(self, group_id: str) -> str:
        """Return the id of a training group's newest recorded retry: its own where there is none."""
        return retried(group_id, self.retries.get(str(ordinal_of(group_id)), 0))

    def add(self, record: Mapping[str, Any]) -> None:
        """Add one record to the ledger."""
        if self.follow and self.follow in _named_by(record):
            self.followed.append(record)
        match record["kind"]:
            case "life":
                self.incarnations.append(record)
            case "step":
                self._add_step(record)
            case "end":
                self._end(record["id"], GroupOutcome(record["outcome"], record["reason"], record["tokens"]))
            case "retry":
                self.retries[record["id"]] = max(record["number"], self.retries.get(record["id"], 0))
            case "evaluation":
                self.evaluations[record["version"]] = record
            case "collected":
                self._add_collected(record)
            case other:
                self.problems.append(
                    f"record {record['n']} is of kind {other!r}, which this program does not know"
                )

    def _add_step(self, record: Mapping[str, Any]) -> None:
        step = step_number(record)
        if self.steps:
            expected = step_number(self.steps[-1]) + 1
        else:  # a run that began with a checkpoint's weights may count from there
            expected = step if self.incarnations and self.incarnations[0].get("start") else 1
        if step != expected:
            self.problems.append(f"step {step} stands where step {expected} was expected")
        self.steps.append(record)
        for group_id in record["ids"]:
            self._end(group_id, GroupOutcome(TRAINED, str(step)))

    def _add_collected(self, record: Mapping[str, Any]) -> None:
        self.collected.append(record)
        for group_id in record["ids"]:
            why = record["dead"].get(group_id)
            self._end(group_id, GroupOutcome(COLLECTED, "") if why is None else GroupOutcome(DEAD, why))

    def _end(self, group_id: str, outcome: GroupOutcome) -> None:
        if group_id in self.outcomes:
            self.twice.append(group_id)
        self.outcomes[group_id] = outcome


def _named_by(record: Mapping[str, Any]) -> Sequence[str]:
    """Return the groups in a record; a retry has the dead group and the new group."""
    match record["kind"]:
        case "step" | "evaluation" | "collected":
            return list(record.get("ids", ()))
        case "retry":
            return retried(record["id"], record["number"] - 1), retried(record["id"], record["number"])
        case _:
            return (record.get("id", ""),)


def read_ledger(folder: Path, *, before: int | None = None, strict: bool = True, follow: str = "") -> Ledger:
    """Read the ledgers of all incarnations in `folder`, the oldest first.

    Args:
        folder: the journal's; a missing folder is an empty ledger.
        before: only incarnations with a lower fence.
        strict: raise at the first problem. Otherwise read on as far as possible, and list the problems.
        follow: a group whose records are all kept, in `Ledger.followed`.
    Raises:
        JournalError: a record is damaged, missing, out of order or duplicated, or a whole incarnation is missing. The
            message names the file and the record.
    """
    return _Reader(folder, before=before, strict=strict, follow=follow).read()


def ledgers(folder: Path) -> list[Path]:
    """List the ledger files of all incarnations, the oldest first."""
    return sorted(folder.glob("ledger-*.log"), key=fence_of)


def fence_of(path: Path) -> int:
    """Return the fence of the incarnation that wrote a ledger file."""
    return int(path.stem.removeprefix("ledger-"))


class _Reader:
    """Read a journal once."""

    def __init__(self, folder: Path, *, before: int | None, strict: bool, follow: str) -> None:
        self._payload_files = payload_files(
            folder
        )  # listed first: an incarnation creates its ledger before its payload files
        self._files = [path for path in ledgers(folder) if before is None or fence_of(path) < before]
        self._before = before
        self._strict = strict
        self._ledger = Ledger(fence=max(map(fence_of, self._files), default=0), follow=follow)

    def read(self) -> Ledger:
        """Read the ledgers of the incarnations, each linked to the one before."""
        for path, end in reversed(self._chain()):
            self._read_incarnation(path, end)
            self._ledger.previous = path.name
        fences = set(map(fence_of, self._files))
        for payload_file in self._payload_files:
            if payload_file.fence not in fences and (
                self._before is None or payload_file.fence < self._before
            ):
                self._problem(
                    f"{payload_file.path} is there, and the ledger of the incarnation that wrote it is gone: {ADVICE}"
                )
        return self._ledger

    def _problem(self, text: str) -> None:
        if self._strict:
            raise JournalError(text)
        self._ledger.problems.append(text)

    def _chain(self) -> list[tuple[Path, int | None]]:
        """Return the ledgers from the newest incarnation to the first, each with its end as the next one recorded it.

        An incarnation that was killed before its first complete record has written nothing, and no record names it: the
        incarnation before it is the newest.
        """
        path = self._newest(self._files)
        chain: list[tuple[Path, int | None]] = []
        end = None
        while path is not None:
            chain.append((path, end))
            first = first_record(path) if path.exists() else None
            if (
                isinstance(first, Whole)
                and first.record["kind"] == "life"
                and first.record["fence"] == fence_of(path)
            ):
                end = first.record["previous_end"]
                path = path.with_name(first.record["previous"]) if first.record["previous"] else None
            else:  # reading that ledger will report the problem; this is for the other ledgers
                end = None
                path = self._newest([file for file in self._files if fence_of(file) < fence_of(path)])
        return chain

    @staticmethod
    def _newest(files: list[Path]) -> Path | None:
        """Return the ledger of the newest incarnation with a record."""
        for path in reversed(files):
            first = first_record(path)
            if isinstance(first, Broken) and first.is_tail:
                _warn_of_tail(path, first)
            elif first is not None:
                return path
        return None

    def _read_incarnation(self, path: Path, end: int | None) -> None:
        """Read the records of one incarnation, up to `end` where a later one has recorded its length."""
        problems = len(self._ledger.problems)
        self._ledger.end = 0
        number = 0  # of the next record
        if not path.exists():
            self._problem(
                f"{path} is gone, and a later incarnation of this run began where it ends: {ADVICE}"
            )
            return
        for found in scan(path, until=end):
            if isinstance(found, Whole):
                number = self._take(path, found, number)
                self._ledger.end = found.end
            elif not found.is_tail:
                self._problem(
                    f"{path}: record {number} (at byte {found.start}) is damaged, and others follow it: "
                    f"{ADVICE}"
                )
                number += 1
            elif end is None:
                _warn_of_tail(path, found)
        if end is not None and self._ledger.end != end and len(self._ledger.problems) == problems:
            self._problem(
                f"{path}: record {number} is damaged or gone: a later incarnation read this file up to byte {end}, "
                f"and now its last whole record ends at byte {self._ledger.end}: {ADVICE}"
            )

    def _take(self, path: Path, found: Whole, expected: int) -> int:
        """Add one complete record to the ledger; returns the number expected of the next record."""
        number = found.record.get("n")
        if number is None:
            raise JournalError(
                f"{path}: the record at byte {found.start} has no number: an older version of this "
                "program wrote it, and this one can't read it"
            )
        if number > expected:
            gone = (
                f"record {expected} is"
                if number == expected + 1
                else f"records {expected} to {number - 1} are"
            )
            self._problem(f"{path}: {gone} missing before byte {found.start}: {ADVICE}")
        elif number < expected:
            self._problem(f"{path}: record {number} is there twice, again at byte {found.start}: {ADVICE}")
        if found.record["kind"] == "life" and found.record["fence"] != fence_of(path):
            self._problem(
                f"{path}: record {number} is the beginning of incarnation {found.record['fence']}: a copy of that "
                "incarnation's file, or the file itself under another name"
            )
        before = len(self._ledger.problems)
        self._ledger.add(found.record)
        if new := self._ledger.problems[before:]:
            del self._ledger.problems[before:]
            self._problem(f"{path}: {new[0]} (at byte {found.start}): {ADVICE}")
        return max(expected, int(number) + 1)


def _warn_of_tail(path: Path, tail: Broken) -> None:
    log.warning(
        "torn_record file=%s byte=%d bytes=%d: what ends the file is no whole record, and void: it is being "
        "written now, or was when that incarnation ended",
        path,
        tail.start,
        tail.end - tail.start,
    )
