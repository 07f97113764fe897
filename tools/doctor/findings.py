"""What the doctor says: one finding for each thing that it looked at.

In: a check, and what it saw. Out: a finding for people and programs: all is well, a note, or a problem, with what to do
about it. The checks of an area are in the module of its name, `tools.doctor.redis` for one; no check raises for what
it finds.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

WIDTH = 100  # columns


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"  # nothing is in the way; an operator may want to know, or to change it
    PROBLEM = "problem"  # something will not work, or will lose work


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check saw, and what to do about it."""

    area: str  # redis | libraries | sandbox | machine | run
    name: str  # of the thing that was looked at
    level: Level
    seen: str  # for people
    do: str = ""  # what to do: a command, or words; "" where all is well


@dataclass(frozen=True, slots=True)
class Check:
    """The thing that is looked at; its methods make findings of it."""

    area: str
    name: str

    def ok(self, seen: str) -> Finding:
        """Makes the finding that all is well."""
        return Finding(area=self.area, name=self.name, level=Level.OK, seen=seen)

    def note(self, seen: str, *, do: str = "") -> Finding:
        """Makes a finding that is worth knowing."""
        return Finding(area=self.area, name=self.name, level=Level.NOTE, seen=seen, do=do)

    def problem(self, seen: str, *, do: str) -> Finding:
        """Makes the finding that something will not work."""
        return Finding(area=self.area, name=self.name, level=Level.PROBLEM, seen=seen, do=do)


def lines_of(findings: Iterable[Finding], width: int = WIDTH) -> Iterator[str]:
    """Yields the findings as people read them, area by area."""
    for area, some in groupby(findings, key=lambda finding: finding.area):
        yield area
        for finding in some:
            yield from _lines(finding, width)


def _lines(finding: Finding, width: int) -> Iterator[str]:
    head = f"  {finding.level:<8} {finding.name:<13} "
    for number, line in enumerate(finding.seen.splitlines()):
        yield from textwrap.wrap(
            line,
            width,
            initial_indent=" " * len(head) if number else head,
            subsequent_indent=" " * len(head),
            break_long_words=False,
            break_on_hyphens=False,
        )
    if finding.do:  # after an arrow, so that a command can be told from words about it
        yield from textwrap.wrap(
            finding.do,
            width,
            initial_indent=" " * (len(head) - 3) + "-> ",
            subsequent_indent=" " * len(head),
            break_long_words=False,
            break_on_hyphens=False,
        )


def readable(count: float) -> str:
    """Writes a number of bytes in the largest unit that leaves at least 1."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
