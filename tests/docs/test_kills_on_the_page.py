"""The tables of kills in docs/durability.md and README are the newest that `make prove-chaos` wrote down."""

from __future__ import annotations

import re

from benchmarks.proofs.chaos import COLUMNS, ROLES
from benchmarks.results import RESULTS
from tests.support.durability_page import PAGE, README, rows, section

HEADING = "## Chaos: every role killed again and again"
SHOWN = ("killed with -9", "kills", "lost", "twice", "back, s: median", "largest")  # of them, by README


def newest() -> tuple[str, list[list[str]]]:
    """Commit and rows of the last block that proves something."""
    blocks = [
        block for block in RESULTS.read_text(encoding="utf-8").split("\n## ") if block.startswith(HEADING[3:])
    ]
    block = [block for block in blocks if "**Proven**" in block][-1]
    found = re.search(r"^Commit ([0-9a-f]{10});", block, re.MULTILINE)
    assert found, "of one commit"
    return found[1], rows(block)


def test_each_role_was_killed_fifty_times_and_nothing_was_lost_or_trained_twice() -> None:
    _, table = newest()
    by_role = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in table}
    for role in ROLES:
        assert int(by_role[role]["kills"]) >= 50, role
    for row in by_role.values():
        assert (row["lost"], row["twice"]) == ("0", "0"), row


def test_the_page_shows_that_table_and_names_its_commit() -> None:
    commit, table = newest()
    text = PAGE.read_text(encoding="utf-8")
    shown = next(text[at:].split("\n\n")[0] for at in [text.index("| killed with -9 |")])
    assert rows(shown) == table
    assert f"commit `{commit}`" in text


def test_readme_shows_its_columns_for_people() -> None:
    commit, table = newest()
    wanted = [[row[COLUMNS.index(name)] for name in SHOWN] for row in table]
    part = section(README, "Nothing is lost")
    assert rows(part[part.index("| killed with -9 |") :]) == wanted
    assert f"commit `{commit}`" in part
