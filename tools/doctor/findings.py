"""Define the doctor's findings, one for each thing checked.

In: a check, and its observation. Out: a finding for people and programs: fine, a note, or a problem, with what to do
about it. The checks of an area are in the module of its name, such as `tools.doctor.redis`; no check raises for what it
finds.
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
    NOTE = "note"  # nothing prevents a run; an operator may want to know, or to change it
    PROBLEM = "problem"  # something will not work, or will lose work


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """The result of one check, and what to do about it."""

    area: str  # redis | libraries | sandbox | machine | run
    name: str  # of the thing checked
    level: Level
    seen: str  # for people
    do: str = ""  # what to do: a command, or words; "" where it is fine


@dataclass(frozen=True, slots=True)
class Check:
    """A thing to check; its methods make findings about it."""

    area: str
    name: str

    def ok(self, seen: str) -> CheckFinding:
        """Make the finding that it is fine."""
        return CheckFinding(area=self.area, name=self.name, level=Level.OK, seen=seen)

    def note(self, seen: str, *, do: str = "") -> CheckFinding:
        """Make a finding that is worth knowing."""
        return CheckFinding(area=self.area, name=self.name, level=Level.NOTE, seen=seen, do=do)

    def problem(self, seen: str, *, do: str) -> CheckFinding:
        """Make the finding that something will not work."""
        return CheckFinding(area=self.area, name=self.name, level=Level.PROBLEM, seen=seen, do=do)


def lines_of(findings: Iterable[CheckFinding], width: int = WIDTH) -> Iterator[str]:
    """Yield the findings for people, area by area."""
    for area, some in groupby(findings, key=lambda finding: finding.area):
        yield area
        for finding in some:
            yield from _lines(finding, width)


def _lines(finding: CheckFinding, width: int) -> Iterator[str]:
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
    if finding.do:  # after an arrow, to separate a command from words about it
        yield from textwrap.wrap(
            finding.do,
            width,
            initial_indent=" " * (len(head) - 3) + "-> ",
            subsequent_indent=" " * len(head),
            break_long_words=False,
            break_on_hyphens=False,
        )


def readable(count: float) -> str:
    """Format a number of bytes in the largest unit that leaves at least 1."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
