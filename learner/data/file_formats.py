"""Read a source as tables: its files, or what `datasets` loads, each with its own columns.

In: a `DatasetSource`. Out: tables of records, in a fixed order, and a digest of their content. A file is read in
pieces, so memory depends on the size of a piece and not of the file. Called by `learner.data.ingest` in the process
that reads data. Unreadable data raise `RowError` with the file's name.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import hashlib
import itertools
import json
import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from broker.errors import BadMessage
from config.data import DatasetSource
from config.places import is_pattern
from config.run import Run
from learner.data.arrow import JSON, BatchReader
from learner.data.row import RowError
from tasks.lines import checked_object, read_lines

KINDS: Final[Mapping[str, str]] = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}
PIECE_BYTES: Final = 8 << 20  # of a parquet file's data converted to Python rows at once
MOST_ROWS: Final = 1024  # per piece
HEAD_ROWS: Final = 200  # of a file without a schema: their keys are its columns
CAUSE_CHARS: Final = 400  # of messages of `datasets` and pyarrow
SAVED: Final = ("state.json", "dataset_dict.json")  # in a folder that `save_to_disk` wrote


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a file."""

    values: Mapping[str, Any]
    line: int = 0  # in its file, counted from 1; 0: the file has no lines
    changed: tuple[str, ...] = ()  # values that reading has changed, in words
    wrong: str = ""  # why there are no values: the line is no row

    def where(self, name: str, index: int) -> str:
        """Return the row's place for messages: its file, its number from 0, and its line."""
        return f"{name} row {index}{f', line {self.line}' if self.line else ''}"


class RowTable(Protocol):
    """Rows with the same columns."""

    @property
    def name(self) -> str:
        """The file or the source, for messages."""
        ...

    def columns(self) -> Sequence[str]:
        """Return the names of the columns. Raises RowError."""
        ...

    def records(self, wanted: Sequence[str] | None) -> Iterator[Record]:
        """Yield the rows in order, with at least these columns; None: all. Raises RowError."""
        ...


def tables_of(run: Run, source: DatasetSource) -> list[RowTable]:
    """Return the tables of `source`, sorted by file name.

    Raises:
        RowError: there are no such files, or `datasets` can't load the source.
    """
    found = file_tables(source)
    return [LoadedTable(source.path, load_by_datasets(run, source))] if found is None else found


def file_tables(source: DatasetSource) -> list[RowTable] | None:
    """Return the tables of the files of `source`; None where `datasets` must load it. Raises RowError."""
    files = files_of(source)
    return None if files is None else [table_of(file) for file in files]


def table_of(file: Path) -> RowTable:
    """Return the table of one file, whose ending is one of KINDS; it is opened when it is read."""
    return _FILES[KINDS[file.suffix]](file)


def content_digest(tables: Sequence[RowTable]) -> str:
    """Return 32 hex digits that change with any byte of the files, or with the table that `datasets` loaded."""
    digest = hashlib.blake2b(digest_size=16)
    for table in tables:
        if isinstance(table, LoadedTable):
            digest.update(table.fingerprint.encode())
            continue
        try:
            with Path(table.name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise _unreadable(table.name, error) from error
    return digest.hexdigest()


def files_of(source: DatasetSource) -> list[Path] | None:
    """Return the files of `source`, sorted; None where `datasets` must load it.

    Raises:
        RowError: a pattern or a folder matches no files, or a folder lacks this split.
    """
    path = Path(source.path)
    if path.is_file() and path.suffix in KINDS:
        return [path]
    if is_pattern(source.path) and not path.exists():
        found = _sorted(Path(name) for name in glob.glob(source.path, recursive=True))  # noqa: PTH207 - also absolute
        if not found:
            raise RowError(f"{source.path}: no file of {', '.join(KINDS)} has such a name")
        return found
    if not path.is_dir() or any((path / name).exists() for name in SAVED) or source.config_name is not None:
        return None
    return _files_of_folder(path, source)


def _files_of_folder(folder: Path, source: DatasetSource) -> list[Path] | None:
    """Return a folder's files of the split: its subfolder of that name, else those that `datasets` would choose."""
    if (folder / source.split).is_dir():
        return _files_or_none(folder / source.split, source)
    if (card := folder / "README.md").is_file() and "configs:" in card.read_text(errors="replace"):
        return None  # its own list of files by split
    found = _sorted(folder.rglob("*"))
    if not found:
        return _files_or_none(folder, source)
    from datasets.data_files import get_data_patterns, resolve_pattern

    patterns = get_data_patterns(str(folder))
    if source.split not in patterns:
        raise RowError(
            f"{source.path} (split {source.split}) can't be read: its files are of the splits "
            f"{', '.join(map(str, patterns))}, by their names"
        )
    names: set[Path] = set()
    for pattern in patterns[source.split]:
        with contextlib.suppress(FileNotFoundError):  # one of several patterns, without a match
            names.update(Path(name).resolve() for name in resolve_pattern(pattern, str(folder)))
    return [file for file in found if file.resolve() in names]


def _files_or_none(folder: Path, source: DatasetSource) -> list[Path]:
    found = _sorted(folder.rglob("*"))
    if not found:
        raise RowError(
            f"{source.path} (split {source.split}) can't be read: {folder} has no file of {', '.join(KINDS)}"
        )
    return found


def _sorted(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if path.suffix in KINDS and path.is_file())


def _unreadable(name: str, error: object) -> RowError:
    return RowError(f"{name} can't be read: {error}")


@dataclass(frozen=True, slots=True)
class _Json:
    """A file of JSON lines, or of one list of objects."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def columns(self) -> Sequence[str]:
        head = list(itertools.islice(self.records(None), HEAD_ROWS))
        if head and all(record.wrong for record in head):
            raise RowError(f"{head[0].where(self.name, 0)}: {head[0].wrong}")
        return list(dict.fromkeys(itertools.chain.from_iterable(record.values for record in head)))

    def records(self, wanted: Sequence[str] | None) -> Iterator[Record]:
        del wanted  # every key of a line is parsed anyway
        try:
            with self.path.open("rb") as file:
                is_list = self.path.suffix == ".json" and _is_list(file.read(64))
                file.seek(0)
                if is_list:
                    for value in json.load(file):
                        yield _record(partial(checked_object, value))
                    return
                for line in read_lines(file):
                    yield _record(line.record, line.number)
        except (OSError, ValueError, RecursionError) as error:
            raise _unreadable(self.name, error) from error


def _record(read: Callable[[], Mapping[str, Any]], line: int = 0) -> Record:
    try:
        return Record(read(), line)
    except BadMessage as error:
        return Record({}, line, wrong=str(error))


def _is_list(head: bytes) -> bool:
    return head.lstrip().startswith(b"[")


@dataclass(frozen=True, slots=True)
class _Csv:
    """A file of comma-separated values; its first line has the names, and an empty value is missing."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def columns(self) -> Sequence[str]:
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                return list(csv.DictReader(file).fieldnames or ())
        except (OSError, ValueError, csv.Error) as error:
            raise _unreadable(self.name, error) from error

    def records(self, wanted: Sequence[str] | None) -> Iterator[Record]:
        del wanted
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file)
                for values in reader:
                    yield Record({name: value or None for name, value in values.items()}, reader.line_num)
        except (OSError, ValueError, csv.Error) as error:
            raise _unreadable(self.name, error) from error


@dataclass(frozen=True, slots=True)
class _Parquet:
    """A parquet file, with a piece of some megabytes in memory at a time."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def columns(self) -> Sequence[str]:
        import pyarrow as pa
        from pyarrow import parquet

        try:
            return list(parquet.read_schema(self.path).names)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(self.name, error) from error

    def records(self, wanted: Sequence[str] | None) -> Iterator[Record]:
        import pyarrow as pa
        from pyarrow import parquet

        columns = None if wanted is None else list(wanted)
        try:
            with parquet.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
                reader = BatchReader(file.schema_arrow)
                for group in range(file.num_row_groups):
                    found = file.metadata.row_group(group)
                    mean_bytes = max(1, found.total_byte_size // max(1, found.num_rows))
                    rows = max(1, min(MOST_ROWS, PIECE_BYTES // mean_bytes))
                    for piece in file.iter_batches(rows, row_groups=[group], columns=columns):
                        yield from (Record(values, changed=changed) for values, changed in reader.rows(piece))
        except (OSError, ValueError, pa.ArrowException) as error:
            raise _unreadable(self.name, error) from error


class LoadedTable:
    """A saved folder, or a name on the hub, loaded by `datasets`: on disk, memory-mapped."""

    def __init__(self, name: str, table: Any) -> None:
        self.name = name
        self.fingerprint = str(table._fingerprint)  # noqa: SLF001 - the one name that datasets gives it
        self._table = table

    def columns(self) -> Sequence[str]:
        """See RowTable."""
        return list(self._table.column_names)

    def records(self, wanted: Sequence[str] | None) -> Iterator[Record]:
        """See RowTable."""
        table = self._table if wanted is None else self._table.select_columns(list(wanted))
        if not _has_json(table.features.to_dict()):
            yield from map(Record, table)
            return
        reader = BatchReader(table.features.arrow_schema)
        for piece in table.with_format("arrow").iter(MOST_ROWS):
            for batch in piece.to_batches():
                yield from (Record(values, changed=changed) for values, changed in reader.rows(batch))


def _has_json(feature: Any) -> bool:
    """Return whether the features contain a value that `datasets` stores as JSON text."""
    if isinstance(feature, Mapping):
        return feature.get("_type") == JSON or any(map(_has_json, feature.values()))
    return isinstance(feature, list) and any(map(_has_json, feature))


def load_by_datasets(run: Run, source: DatasetSource) -> Any:
    """Load a saved folder or a name on the hub. Raises RowError."""
    import datasets

    datasets.disable_progress_bars()
    token = run.model.hf_token.get_secret_value() if run.model.hf_token else None
    path, named = Path(source.path), f"{source.path} (split {source.split})"
    try:
        if path.is_dir() and any((path / name).exists() for name in SAVED):
            saved = datasets.load_from_disk(str(path))
            return saved[source.split] if isinstance(saved, datasets.DatasetDict) else saved
        return datasets.load_dataset(
            source.path, source.config_name, split=source.split, revision=source.revision, token=token
        )
    except datasets.exceptions.DatasetGenerationError as error:
        raise _unreadable(named, _not_put_together(run.data.key_of(source), source, error)) from error
    except (OSError, ValueError, KeyError, datasets.exceptions.DatasetsError) as error:
        is_type = isinstance(error, ValueError) and "does not have a datasets dtype" in str(error)
        reason = _not_put_together(run.data.key_of(source), source, error) if is_type else error
        raise _unreadable(named, reason) from error


def _not_put_together(key: str, source: DatasetSource, error: Exception) -> str:
    """Explain in one line why `datasets` could not build a table of its files, and how to read them without it."""
    said = ": ".join(" ".join(str(one).split()) for one in (error, error.__cause__) if one is not None)
    if Path(source.path).is_dir():
        config = f" {key}.config_name=null" if source.config_name else ""
        advice = f"name its files instead, {key}.path={shlex.quote(f'{source.path}/**/*.parquet')}{config}"
    else:
        revision = f" --revision {source.revision}" if source.revision else ""
        advice = (
            f"files with unlike columns are read as files: `hf download --repo-type dataset {source.path}{revision} "
            f"--local-dir FOLDER`, and {key}.path=FOLDER"
        )
    return f"{textwrap.shorten(said, CAUSE_CHARS, placeholder=' ...')}; {advice}"


_FILES: Final[Mapping[str, type[_Json | _Csv | _Parquet]]] = {"json": _Json, "csv": _Csv, "parquet": _Parquet}
