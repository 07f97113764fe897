"""The logic puzzles whose answers are right or wrong as a whole: an order, a word, a grid of numbers.

In: a row's `answer.value`, which makes a puzzle, and the content of a completion's last `<answer>`. Out: a
`PuzzleResult`. `scorers.logic.scorer` calls it, `scorers.logic.zebra` has the puzzle whose cells count one by one. A
value that is no reference raises `BadMessage`; what is wrong with an answer is its verdict. Linear in the length of the
answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from broker.errors import BadMessage
from scorers.text.latex import words
from scorers.text.literals import NotALiteral, cell_text, read_literal, unfenced
from tasks.values import shown

# How the prompts of ARC-AGI and BARC introduce a grid; their answers do so, too.
_LEAD: Final = re.compile(r"(?:test )?output(?: array| grid)?[ ]?[:=]\s*", re.IGNORECASE)
_AROUND_A_WORD: Final = " .!\"'`*\u201c\u201d\u2018\u2019"  # quotes, emphasis and a sentence's end


@dataclass(frozen=True, slots=True)
class PuzzleResult:
    """What an answer deserves."""

    value: float  # in [0, 1]
    reason: str
    components: dict[str, float] = field(default_factory=dict)


class Puzzle(Protocol):
    """A reference that answers are compared with."""

    def judge(self, answer: str) -> PuzzleResult:
        """Compare the content of an answer, stripped and not empty."""
        ...


@dataclass(frozen=True, slots=True)
class Ordering:
    """Objects from left to right, whatever they are: no list of known words decides what an answer may hold."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, value: Any) -> Ordering:
        """Raises BadMessage: `value` is no list of names."""
        names = _cells(structure(value, "ordering"))
        if not names:
            raise BadMessage(f"no answer: an ordering needs a list of names; got {shown(value)}")
        return cls(names)

    def judge(self, answer: str) -> PuzzleResult:
        """Score 1 for the same names in the same order; upper and lower case are the same, quotes may be missing."""
        try:
            names = _cells(read_literal(unfenced(answer), bare_words=True))
        except NotALiteral as error:
            return PuzzleResult(0.0, f"the answer is no list: {error}")
        if names is None:
            return PuzzleResult(0.0, f"the answer is no list of names: {shown(answer)}")
        if len(names) != len(self.names):
            return PuzzleResult(0.0, f"the answer has {len(names)} names, expected {len(self.names)}")
        for place, (name, expected) in enumerate(zip(names, self.names, strict=True), start=1):
            if name != expected:
                return PuzzleResult(
                    0.0, f"number {place} from the left is {shown(name)}, expected {shown(expected)}"
                )
        return PuzzleResult(1.0, f"all {len(names)} names in order")


@dataclass(frozen=True, slots=True)
class Graph:
    """The one word at the end of a chain of implications."""

    word: str

    @classmethod
    def of(cls, value: Any) -> Graph:
        """Raises BadMessage: `value` is no word."""
        word = value.strip() if isinstance(value, str) else ""
        if not word.isalpha():
            raise BadMessage(f"no answer: a graph puzzle needs one word of letters; got {shown(value)}")
        return cls(word)

    def judge(self, answer: str) -> PuzzleResult:
        r"""Score 1 for the word and nothing beside it but quotes, emphasis, `\text{}` or a full stop, in any case."""
        word = words(unfenced(answer)).strip(_AROUND_A_WORD)
        if not word.isalpha():
            return PuzzleResult(0.0, f"the answer is not one word: {shown(answer)}")
        if word.casefold() != self.word.casefold():
            return PuzzleResult(0.0, f"answered {shown(word)}, expected {shown(self.word)}")
        return PuzzleResult(1.0, f"answered {shown(word)}")


@dataclass(frozen=True, slots=True)
class Arc:
    """The output grid of an ARC-AGI or BARC task."""

    rows: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, value: Any) -> Arc:
        """Raises BadMessage: `value` is no rectangle of whole numbers."""
        rows = _grid(structure(value, "arc"))
        if not rows or not rows[0] or len({len(row) for row in rows}) != 1:
            raise BadMessage(
                f"no answer: an arc puzzle needs rows of whole numbers, all of one length; got {shown(value)}"
            )
        return cls(rows)

    def judge(self, answer: str) -> PuzzleResult:
        """Score 1 for the same grid, after `Output:` or without it; one cell more, less or otherwise is 0."""
        try:
            rows = _grid(read_literal(unfenced(_without_lead(answer))))
        except NotALiteral as error:
            return PuzzleResult(0.0, f"the answer is no array: {error}")
        if rows is None:
            return PuzzleResult(0.0, f"the answer is no array of rows of whole numbers: {shown(answer)}")
        if [len(row) for row in rows] != [len(row) for row in self.rows]:
            return PuzzleResult(0.0, f"the answer has {_shape(rows)}, expected {_shape(self.rows)}")
        wrong = [
            (row, column)
            for row, cells in enumerate(self.rows)
            for column, cell in enumerate(cells)
            if rows[row][column] != cell
        ]
        if wrong:
            row, column = wrong[0]
            return PuzzleResult(
                0.0,
                f"{len(wrong)} of {len(self.rows) * len(self.rows[0])} cells are wrong, the first in "
                f"row {row + 1}, column {column + 1}: {rows[row][column]}, "
                f"expected {self.rows[row][column]}",
            )
        return PuzzleResult(1.0, f"all {_shape(rows)} are right")


def structure(value: Any, row_type: str) -> Any:
    """Return a reference as lists and objects: its text is read, anything else is as it is. Raises BadMessage."""
    if not isinstance(value, str):
        return value
    try:
        return read_literal(value)
    except NotALiteral as error:
        raise BadMessage(
            f"no answer: the value of a row of type {row_type!r} can't be read: {error}: {shown(value)}"
        ) from None


def _cells(value: Any) -> tuple[str, ...] | None:
    """Return a list of texts and numbers in one spelling, none of them empty; None for anything else."""
    cells = [cell_text(cell) for cell in value] if isinstance(value, list) else [None]
    return None if not all(cells) else tuple(cell for cell in cells if cell)


def _grid(value: Any) -> tuple[tuple[int, ...], ...] | None:
    """Rows of whole numbers; None for anything else."""
    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        return None
    rows = [[_whole(cell) for cell in row] for row in value]
    if any(cell is None for row in rows for cell in row):
        return None
    return tuple(tuple(cell for cell in row if cell is not None) for row in rows)


def _whole(cell: Any) -> int | None:
    """Return a whole number, or its text: `2`, `2.0`, `"2"`."""
    if isinstance(cell, str) and cell.isascii() and cell.isdigit() and len(cell) < 18:
        return int(cell)
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return cell if isinstance(cell, int) and not isinstance(cell, bool) else None


def _without_lead(answer: str) -> str:
    lead = _LEAD.match(answer)
    return answer if lead is None else answer[lead.end() :]


def _shape(rows: tuple[tuple[int, ...], ...]) -> str:
    widths = sorted({len(row) for row in rows})
    return f"{len(rows)} rows of {' and '.join(map(str, widths[:3])) or 'no'} cells"
