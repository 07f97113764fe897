"""Processes below another one, as /proc shows them.

In: a process id. Out: its descendants with their command lines. Used by what kills some of them, `millrace chaos` and
benchmarks, and by what makes sure that none is left.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A process at one moment."""

    pid: int
    parent: int
    words: tuple[str, ...]  # of its command line; none for a zombie

    def has_words(self, *words: str) -> bool:
        """Whether its command line holds these words, in this order, beside each other."""
        return any(self.words[start : start + len(words)] == words for start in range(len(self.words)))

    def kill(self, number: int) -> bool:
        """Send it a signal. False: it has ended."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def below(pid: int) -> list[Process]:
    """Every living descendant, parents before their children."""
    children: dict[int, list[Process]] = {}
    for folder in PROC.iterdir():
        if folder.name.isdecimal() and (process := _read(folder)) is not None:
            children.setdefault(process.parent, []).append(process)
    found: list[Process] = list(children.get(pid, ()))
    for process in found:  # it grows while it is walked
        found += children.get(process.pid, ())
    return found


def _read(folder: Path) -> Process | None:
    """None where it has ended, or is a zombie."""
    try:
        state, parent = (
            (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()[:2]
        )
        words = (folder / "cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return None
    if state in "ZX":
        return None
    return Process(int(folder.name), int(parent), tuple(word.decode(errors="replace") for word in words))
