"""Which processes a process has started, and those in turn, by /proc."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """Return the processes below `pid`, with their command lines."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ").strip()
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {child: names[child] for child in found - {pid}}
