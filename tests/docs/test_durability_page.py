"""docs/durability.md, and README's part of it: sources are named, and the tables of kills are the newest that `make prove-chaos` wrote.

Its commands and links are checked with those of all pages, by test_pages_commands.py and test_links.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.proofs.chaos import COLUMNS, ROLES
from benchmarks.results import RESULTS
from tests.support.paths import ROOT

PAGE, README = ROOT / "docs" / "durability.md", ROOT / "README.md"
HEADING = "Chaos: every role killed again and again"
SHOWN = ("killed with -9", "kills", "lost", "twice", "back, s: median", "largest")  # of them, by README
FILE = r"`[\w./-]+\.(py|md|mdx)` lines? \d"
THREAD = r"https://github\.com/[\w-]+/[\w-]+/(issues|pull)/\d"


def section(page: Path, heading: str) -> str:
    """Return what stands under a heading."""
    return page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table's rows, without its heading."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_every_operators_verb_is_on_the_page() -> None:
    verbs = re.findall(
        r"^(?:\.venv/bin/)?millrace (\S+)", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert {*verbs} == {"audit", "dead", "journal", "replay", "rescore", "drain", "pause", "resume", "chaos"}


def is_proven(claim: list[str]) -> bool:
    """Return whether a row names a commit with its date, a public file or thread, and the day on which that was read."""
    if len(claim) != 4:
        return False
    system, _, source, read = claim
    return (
        re.search(r"`[0-9a-f]{7,}`.*\d{4}-\d\d-\d\d$", system) is not None
        and re.search(f"{FILE}|{THREAD}", source) is not None
        and re.fullmatch(r"\d{4}-\d\d-\d\d", read) is not None
    )


def test_every_claim_about_another_system_names_its_version_its_source_and_a_date() -> None:
    found = rows(section(PAGE, "What others lose"))
    assert len(found) >= 8
    assert [claim for claim in found if not is_proven(claim)] == []


LINES = "`a/b.py` lines 1-2"


@pytest.mark.parametrize(
    "claim",
    [
        ["NeMo-RL", "loses", "pull request [#1](https://github.com/a/b/pull/1) of 2026-08-12", "2026-11-21"],
        ["NeMo-RL, 2026-08-12", "loses", LINES, "2026-11-21"],
        ["NeMo-RL `1234567`", "loses", LINES, "2026-11-21"],
        ["NeMo-RL `1234567`, 2026-08-12", "loses", "their talk", "2026-11-21"],
        ["NeMo-RL `1234567`, 2026-08-12", "loses", LINES, "lately"],
        ["NeMo-RL `1234567`, 2026-08-12", "loses", LINES],
    ],
)
def test_a_claim_without_one_of_them_fails(claim: list[str]) -> None:
    assert not is_proven(claim)


def test_the_page_says_that_a_healthy_group_can_be_given_up_as_poison() -> None:
    """What is promised is an outcome, and no step: who counts on more is told here."""
    costs = section(PAGE, "What each kill costs").splitlines()
    (said,) = [line for line in costs if "`broker.max_attempts`" in line]
    assert "neither lost nor trained" in said
    assert "`dead`" in said


def newest_kills() -> tuple[str, list[list[str]]]:
    """Commit and rows of the last block of results that proves something."""
    blocks = RESULTS.read_text(encoding="utf-8").split("\n## ")
    block = [block for block in blocks if block.startswith(HEADING) and "**Proven**" in block][-1]
    found = re.search(r"^Commit ([0-9a-f]{10});", block, re.MULTILINE)
    assert found, "of one commit"
    return found[1], rows(block)


def test_each_role_was_killed_fifty_times_and_nothing_was_lost_or_trained_twice() -> None:
    by_role = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in newest_kills()[1]}
    assert all(int(by_role[role]["kills"]) >= 50 for role in ROLES)
    assert {(row["lost"], row["twice"]) for row in by_role.values()} == {("0", "0")}


def test_the_page_shows_that_table_readme_its_columns_for_people_and_both_name_its_commit() -> None:
    commit, table = newest_kills()
    text, part = PAGE.read_text(encoding="utf-8"), section(README, "Nothing is lost")
    first = "| killed with -9 |"
    assert rows(text[text.index(first) :].split("\n\n")[0]) == table
    assert rows(part[part.index(first) :]) == [[row[COLUMNS.index(name)] for name in SHOWN] for row in table]
    assert f"commit `{commit}`" in text
    assert f"commit `{commit}`" in part
