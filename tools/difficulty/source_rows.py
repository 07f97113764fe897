"""Write the rows of a source, with additional columns, as parquet.

In: a source of `data.train`, and the values of new columns for each row. Out: a parquet file of all rows or of the kept
ones. Rows are read twice, first for their types, so memory does not grow with their number. A column of mixed types is
written as JSON text. Used by `millrace difficulty`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.errors import PipelineError
from config.data import EnvironmentSource, ProceduralSource, SourceConfig
from config.run import Run
from learner.data.file_formats import tables_of
from learner.data.row_shapes import made_problems, seed_records

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK: Final = 1024  # rows in memory at once
Values = Mapping[str, Any]


def records_of(run: Run, source: SourceConfig) -> Iterator[Values]:
    """Yield every row of a source with all its columns, by number. Raises RowError."""
    match source:
        case ProceduralSource():
            yield from made_problems(source)[0]
        case EnvironmentSource():
            yield from seed_records(source)
        case _:
            records = (record.values for table in tables_of(run, source) for record in table.records(None))
            yield from islice(records, source.limit)


class SourceRows:
    """The rows of one source, with additional columns.

    Args:
        records: returns the rows, from the first on, at each call.
        beside: returns the new columns for a row's number; all rows have the same.
        types: the Arrow types of the new columns, by name.
    """

    def __init__(
        self,
        records: Callable[[], Iterator[Values]],
        beside: Callable[[int], Values],
        types: Mapping[str, pa.DataType],
    ) -> None:
        self._records = records
        self._beside = beside
        self._types = types
        self._schema, self._as_text = self._read_types()

    def write(self, path: Path, *, keeps: Callable[[int], bool] = lambda _number: True) -> int:
        """Write the kept rows to a temporary file, and rename it to `path` when complete.

        Returns:
            The number of rows in the file.
        Raises:
            PipelineError: the file can't be written.
        """
        import pyarrow as pa
        from pyarrow import parquet

        aside = path.with_name(f"{path.name}.new")
        count = 0
        try:
            with parquet.ParquetWriter(aside, self._schema) as writer:
                for chunk in _chunks(enumerate(self._records())):
                    kept = [self._row(number, row) for number, row in chunk if keeps(number)]
                    count += len(kept)
                    if kept:
                        writer.write_table(pa.Table.from_pylist(kept, schema=self._schema))
            aside.rename(path)
        except OSError as error:
            raise PipelineError(f"{path} can't be written: {error.strerror or error}") from error
        finally:
            aside.unlink(missing_ok=True)  # left by an error
        return count

    def _row(self, number: int, row: Values) -> dict[str, Any]:
        made = {name: _text(value) if name in self._as_text else value for name, value in row.items()}
        return {**made, **self._beside(number)}

    def _read_types(self) -> tuple[pa.Schema, set[str]]:
        """Read all rows for the types of their columns; return the schema, and the columns to convert to text."""
        import pyarrow as pa

        found: dict[str, pa.DataType] = {}
        as_text: set[str] = set()
        for chunk in _chunks(enumerate(self._records())):
            names = dict.fromkeys(name for _, row in chunk for name in row)
            for name in names:
                if name in as_text:
                    continue
                try:
                    type_ = pa.array([row.get(name) for _, row in chunk]).type
                    found[name] = _unified(found.get(name, pa.null()), type_)
                except (pa.ArrowException, TypeError, ValueError, OverflowError):
                    as_text.add(name)
                    found[name] = pa.string()
        both = sorted(found.keys() & self._types.keys())
        if both:
            raise PipelineError(
                f"the rows have a column {both[0]} already: give the model another name, --model NAME=PATH"
            )
        # An all-null column has no type in parquet; text allows nulls everywhere.
        own = {name: pa.string() if pa.types.is_null(type_) else type_ for name, type_ in found.items()}
        return pa.schema({**own, **self._types}), as_text


def file_stems(sources: int) -> list[str]:
    """Return a file name's prefix for each source: empty for one, numbers for several."""
    return [""] if sources == 1 else [f"-{number}" for number in range(1, sources + 1)]


def _unified(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return a common type for the values of both. Raises ArrowException where there is none."""
    import pyarrow as pa

    schemas = [pa.schema({"x": one}), pa.schema({"x": other})]
    return pa.unify_schemas(schemas, promote_options="permissive").field("x").type


def _text(value: Any) -> str | None:
    with contextlib.suppress(TypeError):
        return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return str(value)


def _chunks(rows: Iterator[tuple[int, Values]]) -> Iterator[list[tuple[int, Values]]]:
    while chunk := list(islice(rows, CHUNK)):
        yield chunk
