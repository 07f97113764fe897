"""Make text safe for a terminal, since a model's text must not control an operator's, and align tables."""

from __future__ import annotations

from collections.abc import Sequence


def printable(text: str) -> str:
    """Return the text with its control characters escaped, except newlines and tabs."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def aligned(table: Sequence[Sequence[str]], sides: str = "<>") -> list[str]:
    """Return the lines of a table, each column to its side, `<` or `>`; the last side counts for all that follow."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    columns = list(zip(sides.ljust(len(widths), sides[-1]), widths, strict=True))
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, (side, width) in zip(line, columns, strict=True)).rstrip()
        for line in table
    ]
