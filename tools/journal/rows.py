"""Convert the journal's steps to rows, one per completion, for `millrace journal export` and `show`.

In: a run's folder and the records of its ledger. Out: groups and rows with text, a payload at a time, so that memory
holds one and not the journal. What is missing or damaged gives no rows, and is recorded with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.errors import Permanent
from broker.messages import ScoredGroup
from config.loading import from_yaml
from config.run import Run
from generators.decoding import CompletionDecoder, open_decoder
from learner.groups.facts.episodes import as_tree
from learner.journal.ledger import (
    COLLECTED,
    TRAINED,
    JournalError,
    Ledger,
    PayloadGone,
    read_ledger,
    read_step,
)
from learner.journal.records import step_number
from learner.journal.untrained import read_untrained
from tools.runs.folder import NoJournal

Row = dict[str, Any]


class NotInJournal(Permanent):
    """The journal lacks what was requested; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalGroup:
    """A group of the journal, with its completions' text."""

    outcome: str  # trained | dropped | evaluated | collected
    # Of the step that trained on it, or that was trained next; for a held-out group its version, which is the number of
    # the step that made it; 0 for a collected one.
    step: int
    group: ScoredGroup
    advantages: Sequence[float | None] | None = None  # of a trained group
    why: str = ""  # a dropped group's reason


@dataclass(slots=True)
class JournalReader:
    """Read the groups of a run's journal in sequence, and record those that could not be read.

    Its iterators raise RunFailed where the tokenizer of the run's model can't be loaded.
    """

    folder: Path  # of the run
    ledger: Ledger
    read: list[int] = field(default_factory=list)  # steps read so far
    gone: dict[int, str] = field(default_factory=dict)  # step -> its missing payload file
    damaged: dict[int, str] = field(default_factory=dict)  # step -> the damage of its payload
    broken: list[str] = field(default_factory=list)  # damage of what did not train
    _decoder: CompletionDecoder | None = None

    def trained(self, records: Iterable[Mapping[str, Any]]) -> Iterator[JournalGroup]:
        """Yield each group of the steps of `records`, which are the ledger's."""
        for record in records:
            step = step_number(record)
            try:
                groups, advantages = read_step(self.folder / "journal", record)
            except PayloadGone:
                self.gone[step] = record["file"]
                continue
            except JournalError as error:
                self.damaged[step] = str(error)
                continue
            self.read.append(step)
            for group, weights in zip(groups, advantages, strict=True):
                yield self._group(TRAINED, step, group, advantages=weights)

    def collected(self, records: Iterable[Mapping[str, Any]]) -> Iterator[JournalGroup]:
        """Yield the groups of a run without training, from `records` of the ledger."""
        for record in records:
            try:
                groups, _ = read_step(self.folder / "journal", record)
            except JournalError as error:
                self.broken.append(str(error))
                continue
            for group in groups:
                yield self._group(COLLECTED, 0, group)

    def untrained(self) -> Iterator[JournalGroup]:
        """Yield the kept dropped and held-out groups."""
        for found in read_untrained(self.folder / "journal", self.ledger):
            if isinstance(found, JournalError):
                self.broken.append(str(found))
            else:
                yield self._group(found.kind, found.step, found.group, why=found.reason)

    def _group(self, outcome: str, step: int, group: ScoredGroup, **more: Any) -> JournalGroup:
        self._decoder = self._decoder or open_decoder(run_of(self.folder))
        return JournalGroup(outcome=outcome, step=step, group=self._decoder.with_text(group), **more)


def open_journal(folder: Path) -> JournalReader:
    """Read the ledger of the run in `folder`, its problems listed.

    Raises:
        NoJournal: there is no journal.
    """
    if not (folder / "journal").is_dir():
        raise NoJournal(folder)
    return JournalReader(folder, read_ledger(folder / "journal", strict=False))


def run_of(folder: Path) -> Run:
    """Read the run of a folder, with its newest configuration.

    Raises:
        NotInJournal: its config.yaml is missing.
    """
    try:
        return from_yaml((folder / "config.yaml").read_bytes(), str(folder / "config.yaml"))
    except OSError as error:
        raise NotInJournal(
            f"{folder / 'config.yaml'}: {error.strerror}; the text of a completion is decoded with the "
            "tokenizer that is named there"
        ) from error


def rows_of(found: JournalGroup) -> Iterator[Row]:
    """Yield a row for each completion of a group; an episode's has more columns at its end."""
    group, advantages = found.group, found.advantages
    prompt, rollout = group.rollout.prompt, group.rollout
    for index, completion in enumerate(rollout.completions):
        score = group.scores[index]
        yield {
            "outcome": found.outcome,
            "why": found.why,
            "step": found.step,
            "group": group.group_id,
            "completion": index,
            "prompt": [{"role": turn["role"], "content": turn.get("content")} for turn in prompt.messages],
            "answer": completion.text,
            "reward": group.rewards[index],
            "advantage": None if advantages is None else advantages[index],
            "status": str(score.status),
            "score": score.value,
            "reason": score.reason,
            "components": [{"name": name, "value": value} for name, value in score.components.items()],
            "scorer": score.scorer,
            "scorer_version": score.version,
            "score_seconds": score.seconds,
            "versions": [
                {"version": span.version, "first": span.first, "count": span.count}
                for span in completion.spans
            ],
            "tokens": completion.num_sampled,
            "finish_reason": str(completion.finish_reason),
            "generator": rollout.generator,
            "sample_seconds": rollout.seconds,
            "worker": group.worker,
            "task": prompt.task,
            "data_source": prompt.data_source,
            "columns": json.dumps(dict(prompt.columns)),  # text, since values may have any type
            "row": prompt.row,
            "epoch": prompt.epoch,
            "seed": prompt.seed,
            "fingerprint": prompt.fingerprint,
            **as_tree(completion),
        }


def ranges(steps: Sequence[int]) -> str:
    """Format steps as ranges: `0-3, 7` for 0, 1, 2, 3, 7."""
    parts: list[list[int]] = []
    for step in sorted(steps):
        if parts and parts[-1][1] == step - 1:
            parts[-1][1] = step
        else:
            parts.append([step, step])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
