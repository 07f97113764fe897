"""Store rows on disk until it is known which are drawn, then write those to one parquet file.

In: rows, one after the other, of JSON types. Out: a parquet file of the drawn ones in order. Memory depends on the size
of a piece and not on the number of rows: LiveCodeBench alone has gigabytes of tests. The file's schema covers all its
rows, and the same rows give the same bytes. A row that parquet can't store raises `BadRecord`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tools.prepare.preparation import BadRecord

PIECE_BYTES: Final = 32 << 20  # of JSON text converted to Python rows at once
PIECE_ROWS: Final = 1024


class Spool:
    """Rows in an unnamed file, in a folder of the caller's."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__
        self._starts = [0]  # of each row, and of the next one

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, which removes it."""
        self._file.close()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._starts) - 1

    def add(self, row: Mapping[str, Any]) -> None:
        """Store a row."""
        self._starts.append(self._starts[-1] + self._file.write(json.dumps(row).encode()))

    def write(self, path: Path, chosen: Sequence[int]) -> None:
        """Write the rows of these numbers as parquet. Raises BadRecord, OSError."""
        import pyarrow as pa
        from pyarrow import parquet

        self._file.flush()
        try:
            schemas = [pa.Table.from_pylist(piece).schema for piece in self._pieces(chosen)]
            schema = pa.unify_schemas(schemas, promote_options="permissive")
            with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
                for piece in self._pieces(chosen):
                    writer.write_table(pa.Table.from_pylist(piece, schema=schema))
        except pa.ArrowException as error:
            raise BadRecord(f"the rows do not go into one parquet file: {error}") from error

    def _pieces(self, chosen: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
        piece: list[dict[str, Any]] = []
        size = 0
        for number in chosen:
            start, end = self._starts[number : number + 2]
            self._file.seek(start)
            piece.append(json.loads(self._file.read(end - start)))
            size += end - start
            if size >= PIECE_BYTES or len(piece) >= PIECE_ROWS:
                yield piece
                piece, size = [], 0
        if piece:
            yield piece
