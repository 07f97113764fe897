"""Zebra puzzles: who lives where with what, a table whose cells count one by one.

In: a row's `answer.value`, `{"header": [...], "rows": [[...], ...]}`, and the content of a completion's last
`<answer>`, which has the same form. Out: a `PuzzleResult` with the share of the cells that are right. Called by
`scorers.logic.scorer`; a value that is no such table raises `BadMessage`. Linear in the length of the answer.

What can be had for nothing counts for nothing. The column of positions says only which row is which. A value that an
answer repeats in a column counts nowhere in it, so that writing one guess down every row pays nothing. A table of
another shape is 0 as a whole.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from broker.errors import BadMessage
from scorers.logic.puzzles import PuzzleResult, structure
from scorers.text.literals import NotALiteral, cell_text, read_literal, unfenced
from tasks.values import listed, shown

CELLS: Final = "cells"  # the component: the share of right cells, whatever the credit
_POSITION: Final = "position"
_NOT_A_NAME: Final = re.compile(r"[\W_]+")
Rows = list[list[str | None]]  # cells in one spelling; None for what is no text


class _WrongShape(Exception):
    """The answer is no table like the reference's; the message is the reason of its zero."""


@dataclass(frozen=True, slots=True)
class Zebra:
    """A solved table."""

    header: tuple[str, ...]  # as the row has it
    rows: tuple[tuple[str, ...], ...]  # in one spelling
    free: int | None  # the column that only numbers the rows; None where there is none

    @classmethod
    def of(cls, value: Any) -> Zebra:
        """Raises BadMessage: `value` is no table, or one with nothing to find out."""
        table = structure(value, "zebra")
        try:
            header, found = _table(table)
        except _WrongShape as error:
            raise BadMessage(
                f"no answer: a zebra puzzle needs an object with header and rows: {error}"
            ) from None
        if not found:
            raise BadMessage("no answer: the table of a zebra puzzle has no rows")
        rows = tuple(tuple(cell for cell in row if cell) for row in found)
        if any(len(row) != len(header) for row in rows):
            raise BadMessage(
                "no answer: every row of a zebra puzzle needs a filled cell for each of "
                f"{listed(header)}; got {shown(table['rows'])}"
            )
        free = _free_column(header, rows)
        if free is not None and (len(header) == 1 or len({row[free] for row in rows}) != len(rows)):
            raise BadMessage(
                f"no answer: a zebra puzzle needs a column beside {header[free]}, and each position once; "
                f"got {shown(table)}"
            )
        return cls(tuple(header), rows, free)

    def judge(self, answer: str) -> PuzzleResult:
        """Return the share of the cells, without those of the free column, that are right."""
        try:
            rows = self._aligned(*_table(read_literal(unfenced(answer))))
        except NotALiteral as error:
            return PuzzleResult(0.0, f"the answer is no object with header and rows: {error}", {CELLS: 0.0})
        except _WrongShape as error:
            return PuzzleResult(0.0, f"the answer has not the reference's shape: {error}", {CELLS: 0.0})
        right, mistakes = 0, []
        for column in self._counted():
            given = Counter(row[column] for row in rows)
            expected = Counter(row[column] for row in self.rows)
            for number, (row, reference) in enumerate(zip(rows, self.rows, strict=True), start=1):
                cell = row[column]
                if cell == reference[column] and given[cell] <= expected[cell]:
                    right += 1
                else:
                    said = (
                        "which is repeated"
                        if cell == reference[column]
                        else f"expected {shown(reference[column])}"
                    )
                    mistakes.append(f"{self.header[column]} of row {number} is {shown(cell)}, {said}")
        share = right / (right + len(mistakes))
        reason = f"{right} of {right + len(mistakes)} cells are right"
        return PuzzleResult(share, f"{reason}; {mistakes[0]}" if mistakes else reason, {CELLS: share})

    def _counted(self) -> list[int]:
        return [column for column in range(len(self.header)) if column != self.free]

    def _aligned(self, header: list[str], rows: Rows) -> Rows:
        """Return an answer's rows with their columns and themselves in the reference's order. Raises _WrongShape.

        Columns go by their names where the names are the reference's, else by their order: what a column is called is
        not what the puzzle asks. Rows go by their positions.
        """
        if len(header) != len(self.header) or len(rows) != len(self.rows):
            raise _WrongShape(
                f"{len(rows)} rows of {len(header)} columns, expected {len(self.rows)} of {len(self.header)}"
            )
        names, expected = [_name(text) for text in header], [_name(text) for text in self.header]
        if sorted(names) == sorted(expected) and len(set(names)) == len(names):
            rows = [[row[names.index(name)] for name in expected] for row in rows]
        if self.free is not None:
            by_position = {row[self.free]: row for row in rows}
            if by_position.keys() != {row[self.free] for row in self.rows}:
                raise _WrongShape(
                    f"{self.header[self.free]} must be each of "
                    f"{listed(row[self.free] for row in self.rows)} once"
                )
            rows = [by_position[row[self.free]] for row in self.rows]
        if _has_twins(rows, self._counted()) and not _has_twins(self.rows, self._counted()):
            raise _WrongShape("two rows are the same")
        return rows


def compatible_share(value: Any, answer: str) -> PuzzleResult:
    """Return Reasoning360's number: the share of the reference's cells that stand in the same place of the answer.

    The column of positions counts, a number is no text, case matters, the header does not. A row or a cell that is
    missing makes all of it 0; what the answer has beyond the reference is not looked at. Source:
    `zebra_puzzle.py` of Reasoning360, commit 1315834. Raises BadMessage as `Zebra.of`.
    """
    Zebra.of(value)
    expected = structure(value, "zebra")["rows"]
    try:
        found = read_literal(answer)
        rows: Any = found["rows"] if isinstance(found, dict) else None
        pairs = [
            (rows[row][column], cell)
            for row, cells in enumerate(expected)
            for column, cell in enumerate(cells)
        ]
    except (NotALiteral, KeyError, IndexError, TypeError) as error:
        return PuzzleResult(0.0, f"the answer is no table with the reference's rows: {error}", {CELLS: 0.0})
    right = sum(isinstance(mine, str) and mine == cell for mine, cell in pairs)
    share = right / len(pairs)
    return PuzzleResult(
        share, f"{right} of {len(pairs)} cells stand where they do in the reference", {CELLS: share}
    )


def _table(value: Any) -> tuple[list[str], Rows]:
    """Names of the columns, and rows of as many cells each. Raises _WrongShape."""
    if not isinstance(value, dict) or value.keys() != {"header", "rows"}:
        raise _WrongShape(f"an object with header and rows, and nothing else, is wanted; got {shown(value)}")
    header, rows = value["header"], value["rows"]
    if not isinstance(header, list) or not header or not all(isinstance(name, str) for name in header):
        raise _WrongShape(f"header must be a list of names; got {shown(header)}")
    if not isinstance(rows, list) or not all(
        isinstance(row, list) and len(row) == len(header) for row in rows
    ):
        raise _WrongShape(f"rows must be lists of {len(header)} cells; got {shown(rows)}")
    return header, [[cell_text(cell) for cell in row] for row in rows]


def _free_column(header: list[str], rows: tuple[tuple[str, ...], ...]) -> int | None:
    """Return the column called position; else the first one, if it counts the rows from 1."""
    names = [_name(text) for text in header]
    if _POSITION in names:
        return names.index(_POSITION)
    return 0 if [row[0] for row in rows] == [str(number) for number in range(1, len(rows) + 1)] else None


def _has_twins(rows: Rows | tuple[tuple[str, ...], ...], columns: list[int]) -> bool:
    return len({tuple(row[column] for column in columns) for row in rows}) < len(rows)


def _name(text: str) -> str:
    """Return what a column is called, without case, space and punctuation."""
    return _NOT_A_NAME.sub("", text).casefold()
