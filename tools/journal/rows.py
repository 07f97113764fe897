"""Convert the journal's steps to rows, one per completion, for `millrace journal export` and `show`.

In: a journal's folder and the records of its steps. Out: rows with text, a step at a time, so that memory holds one
step and not the journal. A step whose payload is missing or damaged gives no rows, and is recorded with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from broker.errors import Permanent
from broker.messages import ScoredGroup
from config.loading import from_yaml
from config.run import Run
from generators.decoding import CompletionDecoder, open_decoder
from learner.groups.facts.episodes import as_tree
from learner.journal.ledger import TRAINED, JournalError, Ledger, PayloadGone, read_ledger, read_step
from learner.journal.records import step_number
from learner.journal.untrained import Untrained, read_untrained
from tools.runs.folder import NoJournal

Row = dict[str, Any]


class NotInJournal(Permanent):
    """The journal lacks what was requested; the message says what."""


@dataclass(slots=True)
class Steps:
    """Read steps of a journal in sequence, and record those that could not be read."""

    folder: Path  # of the run
    records: Sequence[Mapping[str, Any]]  # the ledger's, of the requested steps
    read: list[int] = field(default_factory=list)  # steps read so far
    gone: dict[int, str] = field(default_factory=dict)  # step -> its missing payload file
    damaged: dict[int, str] = field(default_factory=dict)  # step -> the damage of its payload
    _decoder: CompletionDecoder | None = None

    def groups(self) -> Iterator[tuple[int, ScoredGroup, Sequence[float | None]]]:
        """Yield each group, with decoded completions, with its step's number and advantages, in order.

        Raises:
            RunFailed: the tokenizer of the run's model can't be loaded.
        """
        for record in self.records:
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
            self._decoder = self._decoder or open_decoder(run_of(self.folder))
            for group, weights in zip(groups, advantages, strict=True):
                yield step, self._decoder.with_text(group), weights


def open_journal(folder: Path) -> Ledger:
    """Read the ledger of the run in `folder`, its problems listed.

    Raises:
        NoJournal: there is no journal.
    """
    if not (folder / "journal").is_dir():
        raise NoJournal(folder)
    return read_ledger(folder / "journal", strict=False)


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


def untrained_groups(folder: Path, ledger: Ledger) -> Iterator[Untrained | JournalError]:
    """Yield the kept dropped and held-out groups, with decoded completions, and errors for damaged files.

    Raises:
        RunFailed: the tokenizer of the run's model can't be loaded.
    """
    decoder: CompletionDecoder | None = None
    for found in read_untrained(folder / "journal", ledger):
        if isinstance(found, Untrained):
            decoder = decoder or open_decoder(run_of(folder))
            yield replace(found, group=decoder.with_text(found.group))
        else:
            yield found


def collected_groups(folder: Path, ledger: Ledger) -> Iterator[ScoredGroup | JournalError]:
    """Yield the groups of a run without training, with decoded completions, and errors for damaged payloads.

    Raises:
        RunFailed: the tokenizer of the run's model can't be loaded.
    """
    decoder: CompletionDecoder | None = None
    for record in ledger.collected:
        try:
            groups, _ = read_step(folder / "journal", record)
        except JournalError as error:
            yield error
            continue
        decoder = decoder or open_decoder(run_of(folder))
        yield from map(decoder.with_text, groups)


def rows_of(
    step: int,
    group: ScoredGroup,
    advantages: Sequence[float | None] | None,
    *,
    outcome: str = TRAINED,
    why: str = "",
) -> Iterator[Row]:
    """Yield a row for each completion of a decoded group; an episode's has more columns at its end.

    Args:
        step: the number of the step that trained on it, or that was trained next; for a held-out group its version,
            which is the number of the step that made it; 0 for a collected one.
        group: decoded.
        advantages: of a trained group, else None.
        outcome: trained, dropped, evaluated or collected.
        why: a dropped group's reason.
    """
    prompt, rollout = group.rollout.prompt, group.rollout
    for index, completion in enumerate(rollout.completions):
        score = group.scores[index]
        yield {
            "outcome": outcome,
            "why": why,
            "step": step,
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
