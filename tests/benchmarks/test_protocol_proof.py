"""The verdict of the protocol's random runs, on made-up batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.protocol import as_table, is_proven

JOBS = [("6.2", 1, ""), ("7", 1, ""), ("6.2", 1, "the fence")]
OLD, NEW, BROKEN = ({"redis": redis, "seed": seed, "without": without, "actions": 10_000, "did": {"steps trained": 5},
                     "seconds": 3.0, "failure": "invariant 14 | at 17\nmore" if without else ""}
                    for redis, seed, without in JOBS)


@pytest.mark.parametrize(("rows", "proven", "missing"), [
    ([OLD, NEW, BROKEN], True, 0),
    ([OLD, BROKEN], False, 1),                                      # interrupted, or of another commit
    ([OLD, {**NEW, "failure": "invariant 5"}, BROKEN], False, 0),
    ([OLD, NEW, {**BROKEN, "failure": ""}], False, 0),              # nobody misses the rule
])
def test_every_batch_is_there_and_fails_exactly_without_a_rule(
        rows: list[Mapping[str, Any]], proven: bool, missing: int) -> None:
    assert is_proven(rows, JOBS) is proven
    last = as_table(rows, JOBS)[-1]
    assert last.startswith("**Proven**" if proven else "**NOT proven**")
    assert last.endswith(f"; {missing} of 3 batches are missing.")


def test_the_tables_name_what_was_done_and_what_failed() -> None:
    lines = as_table([OLD, NEW, BROKEN], JOBS)
    assert lines[2] == "| 6.2 | 10,000 | 0 | 0 | 0 | 0 | 0 | 0 | 5 | 1 | 0 | 3 |"
    assert "| the fence | 10,000 | invariant 14 / at 17 |" in lines
