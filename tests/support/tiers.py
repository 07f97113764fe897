"""Each test has one tier, and runs with every change or in `make prove-suite`: markers in the test's own file say it.

In: a test's file, its markers and fixtures. Out: its tier, whether `make test` leaves it out, and what runs beside it.

`pytestmark = pytest.mark.process` gives a whole file its tier. A test without a marker is `redis` where it asks for a
server of its own, else `unit`. `pytest.mark.prove` leaves a test to `make prove-suite`; `prove(after=3)` leaves it the
cases behind the first three, and `prove(cases=("a", "b"))` those of these names. The nearest mark counts:
`prove(keep=True)` keeps a test in `make test` whose whole file is marked. `pytest.mark.together("x")` has one
process run all files of that name in turn: they begin with the same imports, or fork from one process that has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

TIERS = {
    "unit": "needs nothing but this process",
    "redis": "needs a redis-server besides",
    "process": "starts processes or a sandbox, or works for seconds",
    "e2e": "whole runs, started as users start them",
    "model": "loads or trains a model",
}
FAST = ("unit", "redis")
REDIS_FIXTURES = {"_shared_redis"}
MARKERS = {
    **TIERS,
    "prove(after, cases, keep)": "left to `make prove-suite`: the test, its cases behind the first so many, or those named",
    "together(name)": "run in turn by one process, with the other files of that name",
}

_OF_FILE = re.compile(r"^pytestmark = ((?:[^\n\[]|\[[^\]]*\])*)", re.MULTILINE)
_TIER = re.compile(rf"pytest\.mark\.({'|'.join(TIERS)})\b")
_TOGETHER = re.compile(r'pytest\.mark\.together\("([^"]+)"\)')


@cache
def _marks_of_file(path: Path) -> str:
    found = _OF_FILE.search(path.read_text(encoding="utf-8"))
    return "" if found is None else found[1]


def tier_of_file(path: Path) -> str | None:
    """Return the tier that a file gives to all its tests, without importing it; None where it gives none."""
    found = _TIER.search(_marks_of_file(path))
    return None if found is None else found[1]


def scope_of(path: Path, name: str) -> str:
    """Name what one process runs in turn: a file, all files that are marked as together, or all whole runs.

    Whole runs disturb each other.
    """
    if tier_of_file(path) == "e2e":
        return "whole runs"
    together = _TOGETHER.search(_marks_of_file(path))
    return name if together is None else together[1]


def tier_of(nodeid: str, markers: Iterable[str], fixtures: Iterable[str]) -> str:
    """Return the one tier of a test.

    Raises:
        ValueError: it is marked with several.
    """
    marked = sorted(TIERS.keys() & set(markers))
    if len(marked) > 1:
        raise ValueError(f"{nodeid} has more than one tier: {marked}")
    return marked[0] if marked else "redis" if REDIS_FIXTURES & set(fixtures) else "unit"


def is_left_to_prove(marker: pytest.Mark | None, case: str, before: int) -> bool:
    """Return whether `make test` leaves out a test.

    Args:
        marker: the nearest `prove`; None where there is none.
        case: the name of its case, "" where it has none.
        before: how many cases of the same test are collected before it.

    Raises:
        ValueError: the marker says something else than `after`, `cases` and `keep`.
    """
    if marker is None:
        return False
    if unknown := [*marker.args, *(marker.kwargs.keys() - {"after", "cases", "keep"})]:
        raise ValueError(f"pytest.mark.prove knows `after`, `cases` and `keep`, and not {unknown}")
    if marker.kwargs.get("keep"):
        return False
    if "after" in marker.kwargs:
        return before >= int(marker.kwargs["after"])
    return "cases" not in marker.kwargs or case in marker.kwargs["cases"]
