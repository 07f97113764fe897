"""Read, check and route a source's rows once, into a folder that later starts read.

In: one source of `data.train` or `data.held_out`. Out: its rows, in the source's order, each with its task and answer,
and the fingerprint of the data. Runs in the learner's rank 0, in `millrace doctor` and in `millrace data check`. The
folder's name is a digest of everything that determines the rows: the files' bytes, the keys for reading them, the
tasks, and the code that reads them. So a changed file is read again. A bad row ends the reading, or is quarantined
where `data.bad_rows` says so; no partial folder is left.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from config.data import DatasetSource, EnvironmentSource, ProceduralSource, SourceConfig
from config.loading import cache_folder
from config.run import Run
from learner.data.file_formats import RowTable, content_digest, tables_of
from learner.data.row import Row, RowError
from learner.data.row_shapes import BadRow, RowReader, procedural_rows, seed_rows
from learner.data.store import CHANGED, RowList, RowStore, StoreWriter, is_store
from tasks.verl import IN_DOUBT

log = logging.getLogger(__name__)

# Keys of a source that determine how its rows are read, which their path does not.
_READING: Final = (
    "prompt_column",
    "prompt_template",
    "system_prompt",
    "verification_column",
    "task_column",
    "answer_column",
    "answer_pattern",
    "task",
    "limit",
)
_CODE: Final = (
    Path(__file__).parent.parent.parent / "tasks",
    Path(__file__).parent,
)  # together they determine the rows
_KEPT_S: Final = 30 * 24 * 3600.0  # how long unused rows are kept
_TOLD: Final = 10_000  # bad rows listed in an error
SAY_EVERY_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """The rows of one source."""

    rows: RowStore | RowList
    fingerprint: str  # of the data and of the keys for reading them
    count: int  # rows of the source, quarantined ones included


def ingest(run: Run, source: SourceConfig) -> Ingested:
    """Return the rows of `source`, read now or by an earlier start.

    Raises:
        RowError: a source or a column is missing, or a row is bad and may not be quarantined.
    """
    if not isinstance(source, DatasetSource):
        rows, fingerprint = (
            procedural_rows(run, source) if isinstance(source, ProceduralSource) else seed_rows(run, source)
        )
        return Ingested(rows=RowList(rows), fingerprint=fingerprint, count=len(rows))
    tables = tables_of(run, source)
    how = {name: getattr(source, name) for name in _READING}
    fingerprint = _digest([content_digest(tables), how], size=8)
    folder = _folder(run, _digest([fingerprint, _routing(run), _code_digest()], size=16))
    if not is_store(folder):
        _write(run, source, tables, folder)
    with contextlib.suppress(OSError):  # another user's, for example
        os.utime(folder)
    store = RowStore(folder)
    return Ingested(rows=store, fingerprint=fingerprint, count=store.facts["count"])


def source_name(source: SourceConfig) -> str:
    """Return the source's name for people."""
    match source:
        case ProceduralSource():
            return f"procedural {source.problem} {source.split}"
        case EnvironmentSource():
            return f"environment {source.task} {source.split}"
    return source.path


def doubts(run: Run, store: RowStore | RowList) -> list[str]:
    """Return the data sources of a store that two systems read differently, unless the configuration chooses."""
    found = store.facts["in_doubt"] if isinstance(store, RowStore) else {}
    settled = [*run.data.source_types]
    return [
        f"data_source {name!r}, {count} rows: {IN_DOUBT[name][1]}"
        for name, count in found.items()
        if not any(fnmatchcase(name, pattern) for pattern in settled)
    ]


def _folder(run: Run, digest: str) -> Path:
    return (run.data.cache_dir or cache_folder() / "data") / digest


def _write(run: Run, source: DatasetSource, tables: Sequence[RowTable], folder: Path) -> None:
    """Read every row, and make the folder of the good ones."""
    bad: list[str] = []
    refused = changed = 0
    first = ""
    try:
        with StoreWriter(folder) as writer:
            counts: Counter[str] = Counter()
            in_doubt: Counter[str] = Counter()
            number = -1
            for number, found in enumerate(_limited(source, _rows(run, source, tables))):
                if isinstance(found, Row):
                    writer.add(number, found)
                    if found.verification_info.get("type") == IN_DOUBT.get(found.data_source, ("",))[0]:
                        in_doubt[found.data_source] += 1
                    if found.changed:
                        changed, first = changed + 1, first or found.changed[0]
                        writer.note_changed(
                            {"row": number, "data_source": found.data_source, "changed": found.changed}
                        )
                    continue
                counts[found.data_source] += 1
                refused += 1
                if len(bad) < _TOLD:
                    bad.append(found.reason)
                writer.quarantine(
                    {"row": number, "data_source": found.data_source, "reason": found.reason, "by": "reading"}
                )
            if bad and run.data.bad_rows == "refuse":
                raise RowError(*bad, of_rows=True)
            writer.finish({"count": number + 1, "quarantined": refused, "in_doubt": in_doubt})
    except OSError as error:
        raise RowError(
            f"rows of {source.path} can't be kept in {folder.parent}: {error.strerror or error}; data.cache_dir names "
            "another folder"
        ) from error
    if refused:
        log.warning(
            "rows_quarantined count=%d of=%d file=%s", refused, number + 1, folder / "quarantine.jsonl"
        )
    if changed:
        log.warning(
            "rows_changed count=%d of=%d first=%r: %s has all", changed, number + 1, first, folder / CHANGED
        )
    _forget_old(folder.parent)


def _rows(run: Run, source: DatasetSource, tables: Sequence[RowTable]) -> Iterator[Row | BadRow]:
    """Yield the rows of all tables, after checking all their columns."""
    started = said = time.monotonic()
    readers = [RowReader(run, source, table) for table in tables]
    number = 0
    for reader in readers:
        for row in reader.rows():
            yield row
            number += 1
            if number % 1000 == 0 and time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                log.info("reading source=%s rows=%d took_s=%.0f", source.path, number, said - started)


def _limited(source: DatasetSource, rows: Iterator[Row | BadRow]) -> Iterator[Row | BadRow]:
    for number, row in enumerate(rows):
        if source.limit is not None and number >= source.limit:
            return
        yield row


def _forget_old(folder: Path) -> None:
    """Remove rows unused for a month; they are read again when needed."""
    for store in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - store.stat().st_mtime > _KEPT_S:
                shutil.rmtree(store, ignore_errors=True)


def _routing(run: Run) -> Any:
    """Return the parts of a run's configuration that determine its rows."""
    tasks = {name: task.model_dump(mode="json") for name, task in run.scorers.tasks.items()}
    data = run.data
    return [tasks, data.source_types, data.unknown_source, sorted(data.columns), data.bad_rows]


@cache
def _code_digest() -> str:
    """Return a digest of the code that reads rows: another version may read them differently."""
    digest = hashlib.blake2b(digest_size=8)
    for folder in _CODE:
        for file in sorted(folder.glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _digest(facts: object, *, size: int) -> str:
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=size).hexdigest()
