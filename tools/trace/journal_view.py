"""Read one group's outcome and data from a run's folder, for `millrace trace`.

In: the run's folder and a group's id. Out: an `Account`. Needs no Redis, no torch and no tokenizer: `millrace journal
show` decodes completions. A missing or damaged payload is no error here: the ledger still has the group's outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker import group_ids
from broker.messages import ScoredGroup
from learner.journal.ledger import GroupOutcome, JournalError, Ledger, PayloadGone, read_ledger, read_step
from learner.journal.records import step_number
from learner.reporting.metrics_file import read_metrics
from tools.audit.notes import read_notes

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The data about a group on disk."""

    folder: Path  # of the journal
    is_there: bool  # whether there is a journal
    outcome: GroupOutcome | None = None
    record: Record | None = None  # the record of its outcome: a step's, an end's or an evaluation's
    born: Record | None = None  # of a retry: the record made before its issue
    before: GroupOutcome | None = None  # of a retry: the outcome of the group that it repeats
    heir: Record | None = None  # the record of the group's own retry
    group: ScoredGroup | None = None  # as trained or collected
    advantages: Sequence[float | None] = ()  # one per completion, of a trained group
    missing: str = ""  # why a trained group is not here
    is_damaged: bool = False  # whether it is missing because of damage
    committed_at: float = 0.0  # Unix seconds of the end of the group's step; 0: unknown
    purge: Record | None = None  # the operator's note about purging the group's dead letter
    problems: Sequence[str] = field(default=())  # damage of the ledger


def read_account(folder: Path, group_id: str) -> Account:
    """Read the data in the run's `folder`."""
    journal = folder / "journal"
    if not journal.is_dir():
        return Account(folder=journal, is_there=False)
    ledger = read_ledger(journal, strict=False, follow=group_id)
    record = next((found for found in ledger.followed if found["kind"] != "retry"), None)
    group, advantages, missing, is_damaged = _payload(journal, record, group_id)
    return Account(
        folder=journal,
        is_there=True,
        outcome=ledger.outcomes.get(group_id),
        record=record,
        group=group,
        advantages=advantages,
        missing=missing,
        is_damaged=is_damaged,
        committed_at=_committed_at(folder, record),
        purge=_purge(journal, group_id),
        problems=tuple(ledger.problems),
        **_family(ledger, group_id),
    )


def _payload(
    journal: Path, record: Record | None, group_id: str
) -> tuple[ScoredGroup | None, Sequence[float | None], str, bool]:
    if record is None or record["kind"] not in {"step", "collected"}:
        return None, (), "", False
    try:
        groups, advantages = read_step(journal, record)
    except PayloadGone:
        return (
            None,
            (),
            (f"what it looked like went with {record['file']}: learner.journal says how long payloads stay"),
            False,
        )
    except JournalError as error:
        return None, (), str(error), True
    place = record["ids"].index(group_id)
    return groups[place], advantages[place], "", False


def _family(ledger: Ledger, group_id: str) -> dict[str, Any]:
    """Find the record of a retry, the outcome of the group that it repeats, and the record of the next retry."""
    number = group_ids.retry_of(group_id)
    notes = {record["number"]: record for record in ledger.followed if record["kind"] == "retry"}
    before = ledger.outcomes.get(repeated(notes[number])) if number in notes else None
    return {"born": notes.get(number), "before": before, "heir": notes.get(number + 1)}


def repeated(retry: Record) -> str:
    """Return the id of the group that a retry's record issues again."""
    return group_ids.retried(retry["id"], retry["number"] - 1)


def _committed_at(folder: Path, record: Record | None) -> float:
    """Find when the line of metrics.jsonl was written, just after a step's slots are freed."""
    if record is None or record["kind"] != "step":
        return 0.0
    line = next(
        (line for line in reversed(read_metrics(folder)) if line["step"] == step_number(record)), None
    )
    return 0.0 if line is None or line.get("is_replayed") else float(line["at"])


def _purge(journal: Path, group_id: str) -> Record | None:
    return next(
        (
            note
            for note in reversed(read_notes(journal))
            if note.get("note") == "purge"
            and any(dead_letter.get("group") == group_id for dead_letter in note.get("letters", ()))
        ),
        None,
    )
