"""`millrace journal export RUN --out FILE`: write a row per completion as JSON or parquet.

In: a run's journal. Out: a complete file: it is written under a temporary name and renamed. Steps whose payloads are
missing or damaged are named on standard error. Memory holds a step and a batch of rows.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.errors import Permanent
from learner.journal.ledger import COLLECTED, TRAINED
from learner.journal.records import step_number
from tools.journal.rows import JournalGroup, JournalReader, NotInJournal, Row, open_journal, ranges, rows_of

ROWS_AT_ONCE = 1024  # rows of a parquet row group

Write = Callable[[Row], None]


class CannotExport(Permanent):
    """The file can't be written; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The filter of completions: those that match everything that is not None."""

    outcomes: Sequence[str] = (TRAINED,)
    tasks: Sequence[str] | None = None
    sources: Sequence[str] | None = None
    status: str | None = None
    min_score: float | None = None  # a completion without a score matches neither bound
    max_score: float | None = None

    def fits(self, row: Row) -> bool:
        """Return whether a completion is exported."""
        score = row["score"]
        return (
            (self.tasks is None or row["task"] in self.tasks)
            and (self.sources is None or row["data_source"] in self.sources)
            and (self.status is None or row["status"] == self.status)
            and (self.min_score is None or (score is not None and score >= self.min_score))
            and (self.max_score is None or (score is not None and score <= self.max_score))
        )


EVERYTHING = Wanted()


def export(folder: Path, out: Path, steps: range | None, wanted: Wanted = EVERYTHING) -> int:
    """Write the rows of `steps`, or of all.

    Args:
        folder: of the run.
        out: file to write.
        steps: their numbers; None: all.
        wanted: the filter of their completions.
    Returns:
        0: done, except payloads that retention has removed; 1: one was damaged, or there was none.
    Raises:
        NotInJournal: there is no journal, or it has none of these steps.
        CannotExport: an unknown file ending, a full disk, no pyarrow for parquet.
    """
    reading = open_journal(folder)
    is_trained_wanted = TRAINED in wanted.outcomes
    records = [record for record in reading.ledger.steps if steps is None or step_number(record) in steps]
    if not records and is_trained_wanted:
        known = ranges(list(map(step_number, reading.ledger.steps)))
        raise NotInJournal(f"{folder / 'journal'} has no such step; it has {known or 'none'}")
    written = 0
    try:
        with _writer(out) as write:
            for found in _groups(reading, records, steps, wanted):
                for row in filter(wanted.fits, rows_of(found)):
                    write(row)
                    written += 1
    except OSError as error:
        raise CannotExport(f"{error.filename or out}: {error.strerror or error}") from error
    for line in _complaints(reading):
        sys.stderr.write(f"millrace journal: {line}\n")
    read = len(reading.read)
    of = f" of {read} steps" if wanted.outcomes == (TRAINED,) else f" ({', '.join(wanted.outcomes)})"
    sys.stdout.write(f"{written} completions{of} in {out}\n")
    return 1 if reading.damaged or reading.broken or (is_trained_wanted and not read) else 0


def _groups(
    reading: JournalReader, records: Sequence[Mapping[str, Any]], steps: range | None, wanted: Wanted
) -> Iterator[JournalGroup]:
    """Yield the groups of the wanted outcomes, trained ones first."""
    if TRAINED in wanted.outcomes:
        yield from reading.trained(records)
    if COLLECTED in wanted.outcomes:
        yield from reading.collected(reading.ledger.collected)
    if set(wanted.outcomes) - {TRAINED, COLLECTED}:
        for found in reading.untrained():
            if found.outcome in wanted.outcomes and (steps is None or found.step in steps):
                yield found


def _complaints(reading: JournalReader) -> list[str]:
    lines = list(reading.damaged.values())
    if reading.gone:
        lines.append(
            f"steps {ranges(list(reading.gone))} are not in it: their payloads are gone "
            f"({', '.join(sorted(set(reading.gone.values())))}); learner.journal says how long they stay"
        )
    return lines + reading.broken


@contextlib.contextmanager
def _writer(out: Path) -> Iterator[Write]:
    """Open the writer of rows to `out`, by its file ending."""
    kinds = {".jsonl": _json_lines, ".parquet": _parquet}
    if out.suffix not in kinds:
        raise CannotExport(f"--out {out}: its name must end with {' or '.join(kinds)}")
    part = out.with_name(out.name + ".part")
    try:
        with kinds[out.suffix](part) as write:
            yield write
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _json_lines(path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as stream:
        yield lambda row: _write_line(stream.write, row)


def _write_line(write: Callable[[str], Any], row: Row) -> None:
    components = {part["name"]: part["value"] for part in row["components"]}
    columns = json.loads(row["columns"])
    write(json.dumps({**row, "components": components, "columns": columns}) + "\n")


@contextlib.contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise CannotExport(
            f"parquet needs pyarrow, which comes with millrace[model]: {error}. "
            "JSON lines need nothing: --out FILE.jsonl"
        ) from error
    plain, wide = _schema(pa), _schema_of_episodes(pa)
    before = path.with_name(path.name + ".plain")  # the rows before the first episode
    waiting: list[Row] = []
    writer = parquet.ParquetWriter(path, plain)

    def widen() -> None:
        """Write the existing rows again, with the columns of episodes."""
        nonlocal writer
        writer.close()
        path.replace(before)
        writer = parquet.ParquetWriter(path, wide)
        for batch in parquet.ParquetFile(before).iter_batches(ROWS_AT_ONCE):
            writer.write_table(pa.Table.from_pylist(batch.to_pylist(), schema=wide))

    def flush(least: int) -> None:
        if len(waiting) >= least:
            if writer.schema is plain and any("messages" in row for row in waiting):
                widen()
            writer.write_table(pa.Table.from_pylist([*map(_flat, waiting)], schema=writer.schema))
            waiting.clear()

    def write(row: Row) -> None:
        waiting.append(row)
        flush(ROWS_AT_ONCE)

    try:
        yield write
        flush(1)
    finally:
        writer.close()
        before.unlink(missing_ok=True)


def _flat(row: Row) -> Row:
    """Return a row with its messages as JSON text, since they may have any structure."""
    return {**row, "messages": json.dumps(row["messages"])} if "messages" in row else row


def _schema(pa: Any) -> Any:
    """Return the types of a row's columns. They are lists of structs, since few readers of parquet support maps."""
    text, whole, number = pa.string(), pa.int64(), pa.float64()

    def structs(**fields: Any) -> Any:
        return pa.list_(pa.struct(list(fields.items())))

    return pa.schema(
        [
            ("outcome", text),
            ("why", text),
            ("step", whole),
            ("group", text),
            ("completion", whole),
            ("prompt", structs(role=text, content=text)),
            ("answer", text),
            ("reward", number),
            ("advantage", number),
            ("status", text),
            ("score", number),
            ("reason", text),
            ("components", structs(name=text, value=number)),
            ("scorer", text),
            ("scorer_version", text),
            ("score_seconds", number),
            ("versions", structs(version=whole, first=whole, count=whole)),
            ("tokens", whole),
            ("finish_reason", text),
            ("generator", text),
            ("sample_seconds", number),
            ("worker", text),
            ("task", text),
            ("data_source", text),
            ("columns", text),
            ("row", whole),
            ("epoch", whole),
            ("seed", whole),
            ("fingerprint", text),
        ]
    )


def _schema_of_episodes(pa: Any) -> Any:
    """Return the types of the columns of a file with episodes."""
    text, whole, number = pa.string(), pa.int64(), pa.float64()
    schema = _schema(pa)
    versions = pa.list_(pa.struct([("version", whole), ("count", whole)]))
    reward = pa.struct([("value", number), ("low", number), ("high", number), ("turns", pa.list_(number))])
    for name, kind in (
        ("messages", text),
        ("message_versions", pa.list_(versions)),
        ("turns", whole),
        ("tool_calls", whole),
        ("tool_errors", whole),
        ("sampled_tokens", whole),
        ("observed_tokens", whole),
        ("segments", whole),
        ("ended_by", text),
        ("remark", text),
        ("environment_reward", reward),
    ):
        schema = schema.append(pa.field(name, kind))
    return schema
