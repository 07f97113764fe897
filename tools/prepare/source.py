"""Read the records of a preparation's source, each with its place for messages.

In: a preparation, the requested split, and `--source PATH` for local data. Out: records with checked columns, and their
origin for the manifest. A hub name is loaded by `datasets`, at the commit that the hub returns first, so that the
manifest's revision is the one read. Files are read in pieces by `learner.data.file_formats`. Unreadable data raise
`BadRecord` that names file, row and column.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Final

from config.data import DatasetSource
from learner.data.file_formats import LoadedTable, RowTable, file_tables, files_of
from learner.data.row import RowError
from tools.prepare.preparation import BadRecord, Files, Hub, Made, Preparation, Record, Split, Types, draw_of

HUB_S: Final = 30.0  # for the hub to return a commit
_LISTED: Final = 20  # files of a source listed individually in the manifest
_KINDS: Final[Mapping[type, str]] = {
    str: "text",
    list: "a list",
    dict: "an object",
    int: "a number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened source."""

    records: Iterator[tuple[int, str, Record]]  # with its number and its place
    origin: Mapping[str, Any]  # for the manifest


def open_source(
    preparation: Preparation, split: Split, *, path: Path | None, revision: str | None, seed: int
) -> Opened:
    """Return a preparation's records.

    Args:
        preparation: has their origin.
        split: which of them.
        path: a file or folder to read instead of the hub; None: the hub.
        revision: commit, tag or branch on the hub instead of the preparation's.
        seed: of generated records, which are unlimited.
    Raises:
        BadRecord: the source can't be read.
    """
    source = preparation.source
    if isinstance(source, Made):
        if path is not None or revision is not None:
            raise BadRecord(f"{preparation.name} is made here: it has neither --source nor --revision")
        return Opened(
            _made(preparation, source, split, seed), {"made_by": source.by, "version": source.version}
        )
    if isinstance(source, Files):
        if path is None:
            raise BadRecord(
                f"{preparation.name} is no data set of the hub: get it from {source.address}, and name the folder "
                "with --source"
            )
        return _of_folder(source, split, path)
    tables, origin = _tables(preparation, source, split, path, revision)
    for table in tables:
        _check_columns(table, preparation)
    return Opened(_numbered(_rows(tables, preparation.columns)), origin)


def check_record(record: Record, columns: Mapping[str, Types], where: str) -> None:
    """Raise BadRecord where a column of a record is missing, or has another type than published."""
    for name, types in columns.items():
        if name not in record and NoneType not in types:
            raise BadRecord(f"{where}: no column {name!r}; the row has {', '.join(record) or 'none'}")
        value = record.get(name)
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            wanted = " or ".join(dict.fromkeys(_KINDS[kind] for kind in types))
            raise BadRecord(f"{where}, column {name}: {wanted} is wanted, got {_shown(value)}")


def _shown(value: Any) -> str:
    return f"{_KINDS.get(type(value), type(value).__name__)}: {value!r:.80}"


def belongs(preparation: Preparation, split: Split, seed: int, number: int) -> bool:
    """Return whether the record of that number belongs to the split: disjoint shares have no record in common."""
    least, end = split.share
    if isinstance(preparation.source, Made):
        number //= preparation.source.cycle
    return (least, end) == (0.0, 1.0) or least <= draw_of(
        seed, preparation.name, "share", number
    ).random() < end


def _made(
    preparation: Preparation, source: Made, split: Split, seed: int
) -> Iterator[tuple[int, str, Record]]:
    for number in itertools.count():
        if belongs(preparation, split, seed, number):
            draw = draw_of(seed, preparation.name, "made", source.version, number)
            yield number, f"made record {number}", source.make(number, draw)


def _numbered(records: Iterator[tuple[str, Record]]) -> Iterator[tuple[int, str, Record]]:
    return ((number, where, record) for number, (where, record) in enumerate(records))


def _of_folder(source: Files, split: Split, path: Path) -> Opened:
    try:
        files = source.files(path, split.source)
    except OSError as error:
        raise BadRecord(f"{path} can't be read: {error.strerror or error}") from error
    if not files:
        raise BadRecord(
            f"{path} has no files of the split {split.source}: it should be what {source.address} gives"
        )
    origin = {"address": source.address, "split": split.source, "files": _digests(files, path)}
    return Opened(_numbered(_guarded(source, path, split.source)), origin)


def _guarded(source: Files, path: Path, split: str) -> Iterator[tuple[str, Record]]:
    try:
        yield from source.records(path, split)
    except (OSError, ValueError) as error:
        raise BadRecord(f"{path} can't be read: {error}") from error


def _tables(
    preparation: Preparation, source: Hub, split: Split, path: Path | None, revision: str | None
) -> tuple[Sequence[RowTable], Mapping[str, Any]]:
    named = {"hub": source.path, "config": source.config, "split": split.source}
    if path is None:
        tables, commit = _from_hub(preparation, source, split, revision or source.revision)
        return tables, {**named, "file": source.file, "revision": commit}
    if not path.exists():
        raise BadRecord(f"--source {path}: there is no such file or folder")
    where = DatasetSource(path=str(path), split=split.source)
    try:
        files, found = files_of(where), file_tables(where)
    except RowError as error:
        raise BadRecord(str(error)) from error
    if found is None:
        saved = _saved(path, split.source)
        return [LoadedTable(str(path), saved)], {
            **named,
            "saved": path.name,
            "fingerprint": str(saved._fingerprint),  # noqa: SLF001 - the one name that datasets gives it
        }
    return found, {**named, "files": _digests(files or [], path if path.is_dir() else path.parent)}


def _from_hub(
    preparation: Preparation, source: Hub, split: Split, revision: str | None
) -> tuple[Sequence[RowTable], str | None]:
    """Load from the hub, at a commit. Raises BadRecord that says how to continue without the hub."""
    import datasets
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # httpx's or httpx2's, by its version

    datasets.disable_progress_bars()
    try:
        commit = commit_of(source.path, revision)
        if source.file is not None:  # rows that no common schema fits
            path = hf_hub_download(source.path, source.file, repo_type="dataset", revision=commit)
            return file_tables(DatasetSource(path=path, split=split.source)) or [], commit
        table = datasets.load_dataset(source.path, source.config, split=split.source, revision=commit)
        return [LoadedTable(source.path, table)], commit
    except (OSError, ValueError, KeyError, RowError, HTTPError, datasets.exceptions.DatasetsError) as error:
        config = f" ({source.config})" if source.config else ""
        raise BadRecord(
            f"{source.path}{config}, split {split.source}, can't be loaded from the hub: {error}\n"
            f"With the data on this machine: millrace prepare {preparation.name} --source FILE_OR_FOLDER, in the "
            f"shape that the hub has, with the columns {', '.join(preparation.columns)}"
        ) from error


def commit_of(path: str, revision: str | None) -> str | None:
    """Return the current commit of a data set's revision, None: the newest. Raises OSError, HTTPError.

    With `HF_HUB_OFFLINE` there is no request: it is the revision itself, and the cache is read.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        return HfApi().dataset_info(path, revision=revision, timeout=HUB_S).sha
    except OfflineModeIsEnabled:
        return revision


def table_records(path: Path, split: str) -> Iterator[tuple[str, Record]]:
    """Yield the records of a file, or of a folder's files of the split, with any columns. Raises BadRecord."""
    try:
        for table in file_tables(DatasetSource(path=str(path), split=split)) or ():
            yield from _records(table, None)
    except RowError as error:
        raise BadRecord(str(error)) from error


def _saved(path: Path, split: str) -> Any:
    import datasets

    try:
        saved = datasets.load_from_disk(str(path))
        return saved[split] if isinstance(saved, datasets.DatasetDict) else saved
    except (OSError, ValueError, KeyError) as error:
        raise BadRecord(f"{path} (split {split}) can't be read: {error}") from error


def _check_columns(table: RowTable, preparation: Preparation) -> None:
    """Raise BadRecord where a table lacks a column, before its first row is read."""
    try:
        present = list(table.columns())
    except RowError as error:
        raise BadRecord(str(error)) from error
    for name, types in preparation.columns.items():
        if name not in present and NoneType not in types:
            raise BadRecord(
                f"{table.name}: no column {name!r} among {', '.join(present) or 'none'}; {preparation.name} "
                f"is made of {', '.join(preparation.columns)}"
            )


def _rows(tables: Sequence[RowTable], columns: Mapping[str, Types]) -> Iterator[tuple[str, Record]]:
    for table in tables:
        try:
            yield from _records(table, [name for name in table.columns() if name in columns])
        except RowError as error:
            raise BadRecord(str(error)) from error


def _records(table: RowTable, wanted: Sequence[str] | None) -> Iterator[tuple[str, Record]]:
    for index, found in enumerate(table.records(wanted)):
        where = found.where(table.name, index)
        if found.wrong:
            raise BadRecord(f"{where}: {found.wrong}")
        yield where, found.values


def _digests(files: Sequence[Path], root: Path) -> list[Mapping[str, Any]]:
    """Return name, size and SHA-256 of files; for many files, one digest over all."""
    found: list[Mapping[str, Any]] = []
    for file in files:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        found.append(
            {"name": file.relative_to(root).as_posix(), "bytes": file.stat().st_size, "sha256": digest}
        )
    if len(found) <= _LISTED:
        return found
    total = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    return [{"name": f"{len(found)} files", "bytes": sum(one["bytes"] for one in found), "sha256": total}]
