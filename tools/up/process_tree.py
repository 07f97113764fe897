"""Read the tree of processes below one process with psutil.

In: a process id. Out: its descendants with their command lines. `millrace chaos` and the benchmarks kill some of them;
tests check that none is left.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this machine at one moment."""

    pid: int
    parent: int
    words: tuple[str, ...]  # of its command line; none for a zombie
    began: float  # Unix seconds

    def has_words(self, *words: str) -> bool:
        """Return whether the command line contains these words, adjacent and in this order."""
        return any(self.words[start : start + len(words)] == words for start in range(len(self.words)))

    def kill(self, number: int) -> bool:
        """Send the process a signal. Returns False where the process has ended."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def below(pid: int) -> list[Process]:
    """Return every living descendant of a process, parents first; none where the process has ended."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # the process has ended, or is a zombie
                words = tuple(filter(None, child.cmdline()))  # a fork's are followed by empty ones
                found.append(Process(child.pid, child.ppid(), words, child.create_time()))
    return found
