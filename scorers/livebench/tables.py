r"""Tables as text, read and compared.

In: a text and the name of its format: CSV, TSV, Markdown, HTML, JSON (objects by rows, or an array of them) or JSON
lines. Out: its table, or `NoTable` with the reason. Read without pandas, whose readers also open files and addresses,
and in time linear in the text's length. Used by `scorers.livebench.data`.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

MAX_TABLE_CHARS: Final = 200_000
_SHOWN_CHARS: Final = 60
_MISSING: Final = frozenset({"", "nan", "none", "null", "na", "n/a", "<na>", "#n/a"})
_TRUTHS: Final = frozenset({"true", "false"})
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?")
_TOLERANCE: Final = Decimal("1e-6")
_PIPE: Final = re.compile(r"(?<!\\)\|")
_RULER: Final = frozenset(" \t|:-")
_CELL_TAG: Final = re.compile(r"<(/?)(table|tr|th|td)\b[^<>]*>", re.IGNORECASE)
_OTHER_TAG: Final = re.compile(r"<(?!/?(?:table|tr|th|td)\b)/?[a-z][^<>]*>", re.IGNORECASE)
_LINE_BREAK: Final = re.compile(r"<br\s*/?>", re.IGNORECASE)
_SPANS: Final = re.compile(r"(?:col|row)span", re.IGNORECASE)


class NoTable(Exception):
    """The text is no table of that format; the message says why."""


class CellTable(NamedTuple):
    """Cells as text, with single spaces in them and none around them."""

    columns: list[str]
    rows: list[list[str]]  # each as long as the columns


def read_table(text: str, name: str) -> CellTable:
    """Return the table that `text` is, all of it but for HTML around one.

    Args:
        text: of the table.
        name: a key of READERS.
    Raises:
        NoTable: saying why it is none.
    """
    if len(text) > MAX_TABLE_CHARS:
        raise NoTable(f"{len(text)} characters; {MAX_TABLE_CHARS} is the limit")
    return _without_labels(READERS[name](text))


def difference(answer: CellTable, reference: CellTable) -> str:
    """Return what makes them two tables; "" where nothing does.

    The same are those with the same columns in any order and the same rows in the same order; numbers within 1e-6, all
    else as text. Of columns of one name, the first is compared to the first.
    """
    if sorted(answer.columns) != sorted(reference.columns):
        return f"columns {_shown(', '.join(answer.columns))}, expected {_shown(', '.join(reference.columns))}"
    if len(answer.rows) != len(reference.rows):
        return f"{len(answer.rows)} rows, expected {len(reference.rows)}"
    places = [
        sorted(range(len(table.columns)), key=table.columns.__getitem__) for table in (answer, reference)
    ]
    for number, (row, expected) in enumerate(zip(answer.rows, reference.rows, strict=True), start=1):
        for here, there in zip(*places, strict=True):
            if not _same(row[here], expected[there]):
                return (
                    f"row {number}, column {_shown(answer.columns[here])}: {_shown(row[here])!r}, "
                    f"expected {_shown(expected[there])!r}"
                )
    return ""


def _same(cell: str, expected: str) -> bool:
    lower, expected_lower = cell.lower(), expected.lower()
    if cell == expected or (lower in _MISSING and expected_lower in _MISSING):
        return True
    if _NUMBER.fullmatch(cell) and _NUMBER.fullmatch(expected):
        return abs(Decimal(cell) - Decimal(expected)) < _TOLERANCE
    return lower == expected_lower and lower in _TRUTHS


def _csv(text: str, delimiter: str = ",") -> CellTable:
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise NoTable(str(error)) from None
    return _table(line for line in lines if line)


def _tsv(text: str) -> CellTable:
    return _csv(text, delimiter="\t")


def _markdown(text: str) -> CellTable:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) < 2 or "-" not in lines[1] or not _RULER.issuperset(lines[1]):
        raise NoTable("its second line is no |---|")
    cells = []
    for line in (lines[0], *lines[2:]):
        if "|" not in line:
            raise NoTable(f"a line without |: {_shown(line)}")
        inner = line.removeprefix("|")
        inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
        cells.append([cell.replace("\\|", "|") for cell in _PIPE.split(inner)])
    return _table(cells)


def _html(text: str) -> CellTable:
    """Return the one table of the text. Tags within cells are left out; what spans several cells is refused."""
    text = _OTHER_TAG.sub("", _LINE_BREAK.sub(" ", text))
    tags = list(_CELL_TAG.finditer(text))
    rows: list[list[str]] = []
    tables = 0
    for number, tag in enumerate(tags):
        kind = tag[2].lower()
        if tag[1]:
            continue
        tables += kind == "table"
        if kind == "tr":
            rows.append([])
        elif kind != "table":
            if _SPANS.search(tag[0]) or not rows:
                raise NoTable(f"a cell in no row, or in several: {_shown(tag[0])}")
            end = tags[number + 1].start() if number + 1 < len(tags) else len(text)
            rows[-1].append(text[tag.end() : end])
    if tables != 1:
        raise NoTable(f"{tables} tables, one is asked for")
    try:
        return _table([html.unescape(cell) for cell in row] for row in rows if row)
    except ValueError:  # `&#` with more digits than Python reads
        raise NoTable("a character reference that is none") from None


def _json(text: str) -> CellTable:
    value = _loaded(text)
    if isinstance(value, dict) and isinstance(value.get("data"), list) and "schema" in value:
        value = value["data"]
    return _records(list(value.values()) if isinstance(value, dict) else value)


def _jsonl(text: str) -> CellTable:
    return _records([_loaded(line) for line in text.split("\n") if line.strip()])


READERS: Final[Mapping[str, Callable[[str], CellTable]]] = {
    "csv": _csv,
    "tsv": _tsv,
    "markdown": _markdown,
    "html": _html,
    "json": _json,
    "jsonl": _jsonl,
}


def _table(lines: Iterable[list[str]]) -> CellTable:
    """Read a header and rows; cells that a row lacks at its end are empty."""
    tidied = [[" ".join(cell.split()) for cell in line] for line in lines]
    if not tidied:
        raise NoTable("it is empty")
    header, *rows = tidied
    for row in rows:
        if len(row) > len(header):
            raise NoTable(f"a row of {len(row)} cells under {len(header)} columns")
        row.extend([""] * (len(header) - len(row)))
    return CellTable(header, rows)


def _records(values: Any) -> CellTable:
    if not isinstance(values, list) or not values or not all(isinstance(value, dict) for value in values):
        raise NoTable("no objects, one a row")
    columns = list(dict.fromkeys(key for value in values for key in value))
    if len(columns) * len(values) > MAX_TABLE_CHARS:
        raise NoTable(f"{len(values)} rows of {len(columns)} columns; {MAX_TABLE_CHARS} cells are the limit")
    return _table([columns, *([_cell(value.get(column)) for column in columns] for value in values)])


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, sort_keys=True)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoTable(f"no JSON: {error}") from None


def _without_labels(table: CellTable) -> CellTable:
    """Return the table without the rows' numbers: the column `index`, or one without a name.

    Raises:
        NoTable: nothing is left, or there are no rows.
    """
    kept = [place for place, column in enumerate(table.columns) if column not in {"", "index"}]
    if not kept or not table.rows:
        raise NoTable("it has no cells")
    return CellTable(
        [table.columns[place] for place in kept], [[row[place] for place in kept] for row in table.rows]
    )


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
