"""Show things on a terminal: text that can't control it, tables, progress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


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


def tracked(items: Iterable[T], doing: str, total: int | None = None) -> Iterable[T]:
    """Yield the items, with a progress bar on standard error where that is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(items, doing, total, console=console, transient=True, disable=not console.is_terminal)
