"""`millrace journal ls` and `show`: print the journal for people.

In: a run's journal. Out: a line per step; or a step's or a group's prompt, answers, scores, rewards and advantages.
`ls` reads the ledger alone. Only reads, and works while the run continues.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from learner.journal.ledger import DEAD, TRAINED, GroupOutcome, Ledger
from learner.journal.payloads import MIB
from learner.journal.records import step_number
from learner.reporting.conversations import summary, told_as_text
from tasks.turns import text_of
from tools.journal.rows import JournalGroup, JournalReader, NotInJournal, Row, open_journal, rows_of
from tools.printable import aligned, printable

HEADINGS = ("step", "groups", "tokens", "MiB", "incarnation", "trained at", "payload")


def list_steps(folder: Path) -> int:
    """Print a line per step. Returns 1 where the ledger is damaged."""
    ledger = open_journal(folder).ledger
    rows = [HEADINGS, *(_step_line(folder / "journal", record) for record in ledger.steps)]
    sys.stdout.writelines(line + "\n" for line in aligned(rows, ">" * (len(HEADINGS) - 1) + "<"))
    sys.stdout.write(_summary(ledger) + "\n")
    for problem in ledger.problems:
        sys.stderr.write(f"millrace journal: {problem}\n")
    return 1 if ledger.problems else 0


def show_step(folder: Path, step: int) -> int:
    """Print everything of one step.

    Raises:
        NotInJournal: there is no such step, or its payload can't be read.
    """
    reading = open_journal(folder)
    return _show(reading, _record(reading.ledger, step), None)


def show_group(folder: Path, group_id: str) -> int:
    """Print everything of one group; for a dropped or held-out group while it is kept.

    Raises:
        NotInJournal: the journal has no such group, or its payload can't be read.
    """
    reading = open_journal(folder)
    ledger = reading.ledger
    outcome = ledger.outcomes.get(group_id)
    if not ledger.state_of(group_id):
        raise NotInJournal(
            f"group {group_id} has no outcome in {folder / 'journal'}: it was never issued, or is on its way"
        )
    if outcome is not None and outcome.kind == TRAINED:
        return _show(reading, _record(ledger, int(outcome.detail)), group_id)
    if record := next((found for found in ledger.collected if group_id in found["ids"]), None):
        _print(reading.collected([record]), group_id)
        if reading.broken:
            raise NotInJournal(reading.broken[0])
        return 0
    if outcome is not None:
        _show_end(ledger, group_id, outcome)
        if outcome.kind == DEAD:  # `millrace dead show` has the dead letter
            return 0
    if not _print(reading.untrained(), group_id):
        sys.stdout.write(
            "    its answers are not kept any more, or never were: learner.journal.untrained_mb\n"
        )
    return 0


def _show_end(ledger: Ledger, group_id: str, outcome: GroupOutcome) -> None:
    retries = ledger.retries.get(group_id, 0)
    again = (
        f"; issued anew as {', '.join(f'{group_id}-r{number + 1}' for number in range(retries))}"
        if retries
        else ""
    )
    sys.stdout.write(
        f"group {group_id}: {outcome.kind}, {outcome.tokens} tokens thrown away{again}\n"
        f"    {printable(outcome.detail)}\n"
    )


def _step_line(journal: Path, record: Mapping[str, Any]) -> tuple[str, ...]:
    there = "there" if (journal / record["file"]).exists() else "gone"
    return (
        str(step_number(record)),
        str(len(record["ids"])),
        str(record["tokens"]),
        f"{record['length'] / MIB:.2f}",
        str(record["fence"]),
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record["at"])),
        f"{there} in {record['file']}",
    )


def _summary(ledger: Ledger) -> str:
    kinds = Counter(outcome.kind for outcome in ledger.outcomes.values())
    outcomes = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
    incarnations = f"{len(ledger.incarnations)} incarnation{'s' * (len(ledger.incarnations) != 1)}"
    return f"{len(ledger.steps)} steps of {incarnations}; groups: {outcomes}; {len(ledger.evaluations)} evaluations"


def _record(ledger: Ledger, step: int) -> Mapping[str, Any]:
    for record in ledger.steps:
        if step_number(record) == step:
            return record
    known = (
        f"steps {step_number(ledger.steps[0])} to {step_number(ledger.steps[-1])}"
        if ledger.steps
        else "no step"
    )
    raise NotInJournal(f"there is no step {step}: the journal has {known}")


def _show(reading: JournalReader, record: Mapping[str, Any], group_id: str | None) -> int:
    """Print a step's groups, or the requested group."""
    checksum = reading.ledger.checksums.get(record["step"])
    weights = f", from weights {checksum[:12]}" if checksum else ""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record["at"]))
    sys.stdout.write(
        f"step {step_number(record)}: {len(record['ids'])} groups, {record['tokens']} tokens, written {at} by "
        f"incarnation {record['fence']}{weights}\n"
    )
    _print(reading.trained([record]), group_id)
    if reading.gone:
        raise NotInJournal(
            f"the payload of step {step_number(record)} is gone with {record['file']}: learner.journal says "
            "how long payloads stay"
        )
    if reading.damaged:
        raise NotInJournal(reading.damaged[step_number(record)])
    return 0


def _print(groups: Iterator[JournalGroup], group_id: str | None) -> int:
    """Print the group of that id, or each; returns how many."""
    count = 0
    for found in groups:
        if group_id in {None, found.group.group_id}:
            sys.stdout.writelines(line + "\n" for line in _group_lines(found))
            count += 1
            if group_id is not None:
                break
    return count


def _group_lines(found: JournalGroup) -> Iterator[str]:
    group, prompt = found.group, found.group.rollout.prompt
    yield (
        f"\ngroup {group.group_id}: task {prompt.task}, row {prompt.row} of epoch {prompt.epoch}, seed "
        f"{prompt.seed}; sampled by {group.rollout.generator} in {group.rollout.seconds:.2f} s, scored by "
        f"{group.worker} in {group.seconds:.2f} s"
    )
    for turn in prompt.messages:
        yield block(turn["role"], text_of(turn))
    yield block("to score against", prompt.verification_info.text)
    for row in rows_of(found):
        yield from _completion_lines(row)


def _completion_lines(row: Row) -> Iterator[str]:
    versions = ", ".join(f"{span['version']} ({span['count']} tokens)" for span in row["versions"])
    parts = ", ".join(f"{part['name']} {part['value']:g}" for part in row["components"])
    yield (
        f"  completion {row['completion']}: reward {_number(row['reward'])}, advantage {_number(row['advantage'])}; "
        f"{row['finish_reason']}; versions {versions}"
    )
    yield (
        f"    {row['status']} {_number(row['score'])} by {row['scorer']} {row['scorer_version']} in "
        f"{row['score_seconds']:.3f} s{f'; {parts}' if parts else ''}: {printable(row['reason'])}"
    )
    if "messages" not in row:
        yield block("answer", row["answer"])
        return
    for line in summary(row):
        yield block("episode", line)
    for who, said in told_as_text(row):
        yield block(who, said)


def block(name: str, text: str) -> str:
    """Format a text under its name, with equal indentation."""
    lines = printable(text).split("\n")
    return f"    {printable(name)}: " + "\n      ".join(lines)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"
