"""Read the results of a collected run: one record per row, in the order of the rows.

In: the folder of a run that samples a data set (`learner.collect`), finished or not. Out: its sets, and for each row
its completions with their scores. Only the ledger and the payloads are read. The caller decodes the text
(`generators.decoding`): a completion's own is "", as everywhere in the journal. Used by `millrace difficulty` and
`millrace evaluate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.errors import Permanent
from broker.group_ids import order_of, ordinal_of
from broker.messages import Prompt, ScoredGroup
from learner.journal.ledger import DEAD, Ledger, read_ledger
from learner.journal.payloads import read_step
from learner.resume.history import COLLECTS


class NotCollected(Permanent):
    """The folder has no collected run; the message says what is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedSet:
    """A set of rows, and how it was sampled."""

    name: str  # of the held-out set, or of the rows' source
    first: int  # ordinal of its first row
    rows: int
    fingerprint: str  # of the data
    sampling: Mapping[
        str, Any
    ]  # n, temperature, max_tokens and the other fields of `learner.data.prompts.Sampling`


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowResult:
    """The result of one row."""

    ordinal: int  # among the rows of all sets
    set: str  # name of its set
    row: int | None  # its number in its source, counting rows left out; None where nothing was returned
    group: ScoredGroup | None  # its completions and their scores; None: nothing was sampled
    died: str | None  # why its group ended in `dead`; None: it was scored

    @property
    def prompt(self) -> Prompt | None:
        """Return the prompt: it has `data_source`, `columns`, `verification_info` and the chat."""
        return None if self.group is None else self.group.rollout.prompt

    @property
    def scores(self) -> list[float | None]:
        """Return each completion's score, None for one without; empty where nothing was sampled."""
        return [] if self.group is None else [score.value for score in self.group.scores]

    @property
    def reasons(self) -> list[str]:
        """Return the scorer's reason for each completion, or why it has no score."""
        return [] if self.group is None else [score.reason for score in self.group.scores]


class Results:
    """The rows of a collected run.

    Args:
        folder: the run's.
        ledger: of its journal.
    """

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.folder = folder
        self._ledger = ledger
        self.sets: list[CollectedSet] = []
        first = 0
        for facts in ledger.incarnations[0]["sets"]:
            sampling = {
                key: value for key, value in facts.items() if key not in {"name", "rows", "fingerprint"}
            }
            self.sets.append(
                CollectedSet(
                    name=facts["name"],
                    first=first,
                    rows=facts["rows"],
                    fingerprint=facts["fingerprint"],
                    sampling=sampling,
                )
            )
            first += facts["rows"]
        self._newest = _newest(ledger)

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of all rows and of how they were sampled."""
        return str(self._ledger.incarnations[0]["fingerprint"])

    @property
    def of(self) -> str:
        """Return which data the rows are from, `train` or `held_out`."""
        return str(self._ledger.incarnations[0]["of"])

    @property
    def size(self) -> int:
        """Count the rows of all sets."""
        return sum(each.rows for each in self.sets)

    @property
    def missing(self) -> int:
        """Count the rows that have no outcome yet."""
        return self.size - len(self._newest)

    @property
    def is_complete(self) -> bool:
        """Return whether every row has an outcome."""
        return not self.missing

    def rows(self) -> Iterator[RowResult]:
        """Yield the rows with an outcome, in order; a payload is kept in memory until its last row.

        Raises:
            JournalError: a payload is damaged or missing.
        """
        place = {
            group_id: number
            for number, record in enumerate(self._ledger.collected)
            for group_id in record["ids"]
        }
        held: dict[int, dict[str, ScoredGroup]] = {}
        for each in self.sets:
            for ordinal in range(each.first, each.first + each.rows):
                if (group_id := self._newest.get(ordinal)) is None:
                    continue
                group = self._group(group_id, place, held)
                outcome = self._ledger.outcomes[group_id]
                yield RowResult(
                    ordinal=ordinal,
                    set=each.name,
                    row=None if group is None else group.rollout.prompt.row,
                    group=group,
                    died=outcome.detail if outcome.kind == DEAD else None,
                )

    def _group(
        self, group_id: str, place: Mapping[str, int], held: dict[int, dict[str, ScoredGroup]]
    ) -> ScoredGroup | None:
        """Take a group out of its payload, which is read with its first group."""
        number = place.get(group_id)
        if number is None:
            return None
        if number not in held:
            groups, _ = read_step(self.folder / "journal", self._ledger.collected[number])
            held[number] = {
                group.group_id: group
                for group in groups
                if self._newest.get(ordinal_of(group.group_id)) == group.group_id
            }
        group = held[number].pop(group_id)
        if not held[number]:
            del held[number]
        return group


def open_results(folder: Path) -> Results:
    """Read the results of a collected run so far.

    Raises:
        NotCollected: the folder has no journal, or that of a training run.
        JournalError: the ledger is damaged.
    """
    ledger = read_ledger(folder / "journal")
    if not ledger.incarnations:
        raise NotCollected(f"{folder}: there is no journal of a run here")
    if ledger.incarnations[0].get("purpose") != COLLECTS:
        raise NotCollected(f"{folder} is a run that trains, and its rows were not collected")
    return Results(folder, ledger)


def _newest(ledger: Ledger) -> dict[int, str]:
    """Return the group that counts for each ordinal: the newest retry, where the group had died."""
    newest: dict[int, str] = {}
    for group_id in sorted(ledger.outcomes, key=order_of):
        newest[ordinal_of(group_id)] = group_id
    return newest
