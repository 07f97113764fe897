"""Read the FILE of `millrace score` and `millrace judge-check`: its rows as lines of JSON, one after the other.

In: JSON lines, from standard input too, or what `learner.data.file_formats` reads: one list, CSV, parquet. Out: lines
with their numbers; what is wrong with one is said where it is parsed, and ends nothing. Memory holds a row or a piece
of parquet, but a list whole. Also the arguments of both verbs: FILE, --config CONFIG with settings over it, and --out.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from broker.errors import BadMessage
from config.explanations import ConfigError
from config.loading import load_run
from config.scorers import ScorersConfig
from tasks.lines import Line, read_lines
from tasks.values import plain
from tools.arguments import UsageError, check_out

if TYPE_CHECKING:
    from learner.data.file_formats import Record

MAX_LINE_BYTES: Final = 64 << 20  # a longer line is an error, and is not kept
_TABLES: Final = frozenset({".json", ".csv", ".parquet"})  # endings; any other file has JSON lines


def add_row_file(parser: argparse.ArgumentParser, *, out: str) -> None:
    """Add FILE, the scorers' configuration, and where the results go, in words."""
    parser.add_argument(
        "file", metavar="FILE", help="JSON lines, - for standard input; or NAME.json, NAME.csv, NAME.parquet"
    )
    parser.add_argument(
        "values", nargs="*", metavar="key=value", help="settings over CONFIG's: scorers.retries=0"
    )
    parser.add_argument(
        "--config",
        metavar="CONFIG",
        help="a run's YAML file: score as its `scorers` section says (every scorer; LLM_JUDGE_... name a judge)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help=out)


def given_scorers(options: argparse.Namespace) -> ScorersConfig | None:
    """Return the scorers of --config; None without one. Raises UsageError, ConfigError."""
    if options.config is not None:
        return load_run(["--config", options.config, *options.values]).scorers
    if options.values:
        raise UsageError(f"{options.values[0]!r} sets a key of a configuration: give --config too")
    return None


@dataclass(frozen=True, slots=True)
class RowFile:
    """An open file of rows."""

    name: str  # as it was given
    stream: IO[bytes]

    @property
    def size(self) -> int | None:
        """Return the size in bytes that `Line.end` counts to; None where it is unknown."""
        return None if self._is_table else os.fstat(self.stream.fileno()).st_size or None

    @property
    def _is_table(self) -> bool:
        path = Path(self.name)
        return path.suffix in _TABLES and path.is_file()  # a pipe can't be opened twice

    def lines(self) -> Iterator[Line]:
        """Yield the rows, numbered by line, or from 1 where there are no lines.

        Raises:
            ConfigError: the file is not of the kind that its name says.
        """
        if not self._is_table:
            yield from read_lines(self.stream, MAX_LINE_BYTES)
            return
        from learner.data.file_formats import table_of
        from learner.data.row import RowError

        try:
            for number, record in enumerate(table_of(Path(self.name)).records(None), 1):
                yield _line(record, record.line or number)
        except RowError as error:
            raise ConfigError(str(error)) from None
        except ImportError as error:
            raise ConfigError(
                f"{self.name}: parquet needs pyarrow, which comes with millrace[model]: {error}"
            ) from error


def _line(record: Record, number: int) -> Line:
    # Where rows have columns, every row has every key.
    given = {name: value for name, value in record.values.items() if value is not None}
    if record.wrong:
        return Line(number, None, wrong=record.wrong)
    try:
        return Line(number, json.dumps(given, default=partial(plain, name="the row")).encode("ascii"))
    except (BadMessage, RecursionError) as error:
        return Line(number, None, wrong=str(error))


def open_rows(source: str, out: Path | None, stack: ExitStack) -> RowFile:
    """Open `source`, `-` for standard input, until the stack ends.

    Raises:
        ConfigError: it can't be opened, or is `out` itself.
        UsageError: nothing can be written to `out`.
    """
    path = Path(source)
    if source != "-" and out is not None and out.exists() and path.exists() and out.samefile(path):
        raise ConfigError(f"--out {out} is the input itself")
    check_out(out)
    try:
        stream = open(0, "rb", closefd=False) if source == "-" else path.open("rb")  # noqa: SIM115 - the stack's
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}") from None
    return RowFile(source, stack.enter_context(stream))
