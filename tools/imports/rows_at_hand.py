"""Find which scorers the rows of a run need: from local files, else from file names.

In: the files in verl's configuration. Out: names of tasks. Of parquet only the deciding columns are read, and of
other files the first thousand rows. Reasoning360's files are named like their `data_source`. Called by
`tools.imports.command`; an unreadable file is ignored, and the run reports it when it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, Final

from broker.errors import BadMessage
from config.data import DatasetSource
from learner.data.file_formats import file_tables
from learner.data.row import RowError
from tasks.kinds import DATA_SOURCES, TASK_OF_TYPE
from tasks.values import to_object
from tools.imports.theirs import Theirs, WrongValue, texts

_FILES: Final = ("data.train_files", "data.val_files")
_MOST_ROWS: Final = 1000
# Sources whose right and wrong answers verl's own scorer rewards with +1 and -1 (`default_compute_score`, v0.3 to
# 0.10), and their files.
_PAID: Final = re.compile(r"math_dapo|math|math_dapo_reasoning|aime.*")
_PAID_FILE: Final = re.compile(r"dapo|aime", re.IGNORECASE)
_COLUMNS: Final = ("data_source", "verification_info")


def found_tasks(theirs: Theirs) -> set[str]:
    """Return the tasks of the rows in training and held-out files."""
    tasks: set[str] = set()
    for key in _FILES:
        try:
            files = texts(theirs.get(key)) if theirs.has(key) else []
        except WrongValue:
            continue  # the key's rule reports it
        for name in files:
            path = Path(name).expanduser()
            tasks |= set(_in_file(path)) if path.is_file() else set(_of_source(path.name))
    return tasks


def paid_source(theirs: Theirs) -> str:
    """Return a source of the training rows that verl rewards with +1 and -1; "" for none, or none known."""
    try:
        files = [Path(name).expanduser() for name in texts(theirs.get(_FILES[0]) or [])]
    except WrongValue:
        return ""
    for path in files:
        if path.is_file():
            found = (record.get("data_source") for record in _records(path))
            names: Iterator[str] = (one for one in found if isinstance(one, str) and _PAID.fullmatch(one))
        else:
            is_paid = _PAID_FILE.search(path.name) and "__" not in path.name
            names = iter([path.name] if is_paid else [])
        if name := next(names, ""):
            return name
    return ""


def _in_file(path: Path) -> Iterator[str]:
    for record in _records(path):
        source, info = record.get("data_source"), record.get("verification_info")
        if info is not None:
            try:
                row_type = to_object(info, "verification_info").get("type")
            except BadMessage:
                continue  # the learner reports the row
            if isinstance(row_type, str) and row_type in TASK_OF_TYPE:
                yield TASK_OF_TYPE[row_type]
        elif isinstance(source, str):
            yield from _of_source(source)


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the fields that determine a row's task; only distinct ones where the column of sources is enough."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            file = pq.ParquetFile(path)
            columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
            for batch in file.iter_batches(columns=columns):
                yield from ({"data_source": one} for one in _distinct(batch, "data_source", columns))
                if "verification_info" in columns:
                    yield from (
                        {"verification_info": one} for one in batch.column("verification_info").to_pylist()
                    )
        except (pa.ArrowException, OSError):
            return
    else:
        with suppress(RowError):
            for table in file_tables(DatasetSource(path=str(path))) or ():
                yield from (record.values for record in islice(table.records(None), _MOST_ROWS))


def _distinct(batch: Any, name: str, columns: list[str]) -> list[Any]:
    return batch.column(name).unique().to_pylist() if columns == [name] else []


def _of_source(name: str) -> Iterator[str]:
    row_type = next((row_type for pattern, row_type in DATA_SOURCES if fnmatchcase(name, pattern)), None)
    if row_type is not None:
        yield TASK_OF_TYPE[row_type]
