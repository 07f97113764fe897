"""The page on durability and README, by their sections and the rows of their tables."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "durability.md"

README = ROOT / "README.md"


def section(page: Path, heading: str) -> str:
    """Return what stands under a heading."""
    return page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table's rows, without its heading."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
