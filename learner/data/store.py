"""Store rows in a folder on disk, with random access by number.

In: rows, in order. Out: a folder with `rows.bin`, one record after the other, and arrays indexed by row: the record's
offset, its number in the source, a hash of its prompt. The folder is made under a temporary name and renamed when
complete, so a reader never sees part of one. Written by `learner.data.ingest`; read by the prompt source, which holds
no row in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgpack
import numpy as np
from numpy.typing import NDArray

from learner.data.row import Row

ROWS, FACTS, BAD, CHANGED = "rows.bin", "facts.json", "quarantine.jsonl", "changed.jsonl"
STARTS, NUMBERS, PROMPTS = "starts.npy", "numbers.npy", "prompts.npy"
_PACKED_FROM_BYTES: Final = 4096  # larger records are compressed
_PLAIN, _PACKED = b"\0", b"\1"  # the first byte of a record
_BUFFER_BYTES: Final = 1 << 20


def prompt_hash(row: Row) -> int:
    """Return 63 bits of a hash of the prompt's text: equal for rows with the same question.

    Without a user's turn, the rest of the row that makes the question is hashed.
    """
    said = json.dumps([row.raw_prompt, [_as_list(turn) for turn in row.messages]])
    if not row.raw_prompt and all(turn["role"] == "system" for turn in row.messages):
        said += json.dumps([row.task, row.verification_info], sort_keys=True)
    return int.from_bytes(hashlib.blake2b(said.encode(), digest_size=8).digest(), "big") >> 1


class StoreWriter:
    """Write a folder of rows. Leaving the block without `finish` removes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._aside = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
        self._rows = (self._aside / ROWS).open("wb", buffering=_BUFFER_BYTES)
        self._bad = (self._aside / BAD).open("w", encoding="utf-8")
        self._changed = (self._aside / CHANGED).open("w", encoding="utf-8")
        self._starts = array("q", [0])
        self._numbers = array("q")
        self._prompts = array("q")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self._rows, self._bad, self._changed):
            file.close()
        shutil.rmtree(self._aside, ignore_errors=True)

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, number: int, row: Row) -> None:
        """Write the next row, which has `number` in its source."""
        record = _record(row)
        self._rows.write(record)
        self._starts.append(self._starts[-1] + len(record))
        self._numbers.append(number)
        self._prompts.append(prompt_hash(row))

    def note_changed(self, facts: Mapping[str, Any]) -> None:
        """Record a row in which reading has changed a value."""
        self._changed.write(json.dumps(facts, ensure_ascii=False) + "\n")

    def quarantine(self, facts: Mapping[str, Any]) -> None:
        """Record a row that is left out, with the reason."""
        self._bad.write(json.dumps(facts, ensure_ascii=False) + "\n")

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Publish the folder to readers; one that another process has made meanwhile stays instead.

        Raises:
            OSError: the disk is full, or the folder can't be written.
        """
        for name, values in ((STARTS, self._starts), (NUMBERS, self._numbers), (PROMPTS, self._prompts)):
            np.save(self._aside / name, np.frombuffer(values, dtype=np.int64), allow_pickle=False)
        (self._aside / FACTS).write_text(json.dumps(facts), encoding="utf-8")
        for file in (self._rows, self._bad, self._changed):
            file.flush()
            os.fsync(file.fileno())
        self._aside.chmod(0o755)
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            try:
                self._aside.rename(self._folder)
            except OSError:
                if not is_store(self._folder):
                    raise


class RowStore:
    """Rows of a folder, each read from disk on access."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        self.numbers: NDArray[np.int64] = _mapped(folder / NUMBERS)  # of the rows in their source
        self.prompts: NDArray[np.int64] = _mapped(folder / PROMPTS)  # hashes of their prompts
        self._starts: NDArray[np.int64] = _mapped(folder / STARTS)
        self._file = os.open(folder / ROWS, os.O_RDONLY | os.O_CLOEXEC)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, place: int) -> Row:
        start, end = int(self._starts[place]), int(self._starts[place + 1])
        return _row(os.pread(self._file, end - start, start))

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self._file)

    def rows(self) -> Iterator[Row]:
        """Yield every row in order, read in large blocks."""
        return map(_row, self._records())

    def checked_parts(self) -> Iterator[tuple[str, str]]:
        """Yield each row's task and its `verification_info` as JSON, the scorer's input, as stored."""
        for record in self._records():
            _, task, info, *_ = _unpacked(record)
            yield task, info

    def _records(self) -> Iterator[bytes]:
        ends = self._starts[1:]
        with (self.folder / ROWS).open("rb", buffering=_BUFFER_BYTES) as file:
            start = 0
            for end in ends:
                yield file.read(int(end) - start)
                start = int(end)

    def quarantined(self) -> Iterator[dict[str, Any]]:
        """Yield the records of rows that are left out."""
        with (self.folder / BAD).open(encoding="utf-8") as file:
            yield from map(json.loads, file)

    def changed(self) -> Iterator[dict[str, Any]]:
        """Yield the records of rows in which reading has changed a value."""
        with (self.folder / CHANGED).open(encoding="utf-8") as file:
            yield from map(json.loads, file)


class RowList(Sequence[Row]):
    """Rows generated in memory, with the interface of a folder."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = list(rows)
        self.numbers: NDArray[np.int64] = np.arange(len(self._rows))

    @cached_property
    def prompts(self) -> NDArray[np.int64]:
        """Hashes of the rows' prompts."""
        return np.asarray([*map(prompt_hash, self._rows)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def rows(self) -> Iterator[Row]:
        """Yield every row in order."""
        return iter(self._rows)

    def quarantined(self) -> Iterator[dict[str, Any]]:
        """Yield nothing: no row is left out."""
        return iter(())

    def changed(self) -> Iterator[dict[str, Any]]:
        """Yield nothing: reading can't change generated rows."""
        return iter(())


def is_store(folder: Path) -> bool:
    """Return whether the folder has a complete store."""
    return (folder / FACTS).is_file()


def _mapped(path: Path) -> NDArray[np.int64]:
    values: NDArray[np.int64] = np.load(path, mmap_mode="r", allow_pickle=False)
    return values


def _as_list(turn: Mapping[str, Any]) -> list[str]:
    """Return a turn in stored form: its role, its content, and the JSON of its other fields."""
    more = {key: value for key, value in turn.items() if key not in ("role", "content")}
    return [turn["role"], turn["content"], *([json.dumps(more)] if more else [])]


def _record(row: Row) -> bytes:
    packed: bytes = msgpack.packb(
        [
            [_as_list(turn) for turn in row.messages],
            row.task,
            json.dumps(row.verification_info),
            row.data_source,
            row.raw_prompt,
            json.dumps(row.columns) if row.columns else "",
            row.solution,
        ]
    )
    if len(packed) < _PACKED_FROM_BYTES:
        return _PLAIN + packed
    return _PACKED + zlib.compress(packed, 1)


def _unpacked(record: bytes) -> list[Any]:
    body = zlib.decompress(record[1:]) if record[:1] == _PACKED else record[1:]
    values: list[Any] = msgpack.unpackb(body)
    return values


def _row(record: bytes) -> Row:
    turns, task, info, data_source, raw_prompt, columns, solution = _unpacked(record)
    return Row(
        messages=tuple(
            {"role": role, "content": content, **(json.loads(more[0]) if more else {})}
            for role, content, *more in turns
        ),
        task=task,
        verification_info=json.loads(info),
        data_source=data_source,
        raw_prompt=raw_prompt,
        columns=json.loads(columns) if columns else {},
        solution=solution,
    )
