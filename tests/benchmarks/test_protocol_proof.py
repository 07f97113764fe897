"""The verdict of the protocol's random runs, on made-up batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.protocol import RULES, SEARCH_SEEDS, as_table, is_proven, search

JOBS = [("6.2", 1, ""), ("7", 1, "")]
OLD, NEW, *BROKEN = ({"redis": redis, "seed": seed, "without": without, "actions": 10_000, "did": {"steps trained": 5},
                     "seconds": 3.0, "failure": "invariant 14 | at 17\nmore" if without else ""}
                    for redis, seed, without in [*JOBS, *(("6.2", 2, rule) for rule in RULES)])
IN_VAIN = {**BROKEN[0], "seed": 1, "failure": ""}


@pytest.mark.parametrize(("rows", "proven", "missing"), [
    ([OLD, NEW, *BROKEN], True, 0),
    ([OLD, NEW, IN_VAIN, *BROKEN], True, 0),                        # another seed did not find it
    ([OLD, *BROKEN], False, 1),                                      # interrupted, or of another commit
    ([OLD, {**NEW, "failure": "invariant 5"}, *BROKEN], False, 0),
    ([OLD, NEW, IN_VAIN, *BROKEN[1:]], False, 0),                   # nobody misses the rule
])
def test_every_batch_is_there_and_every_rule_is_missed(
        rows: list[Mapping[str, Any]], proven: bool, missing: int) -> None:
    assert is_proven(rows, JOBS) is proven
    last = as_table(rows, JOBS)[-1]
    assert last.startswith("**Proven**" if proven else "**NOT proven**")
    assert last.endswith(f"; {missing} of 2 batches are missing.")


def test_the_tables_name_what_was_done_and_what_failed() -> None:
    lines = as_table([OLD, NEW, *BROKEN], JOBS)
    assert lines[2] == "| 6.2 | 10,000 | 0 | 0 | 0 | 0 | 0 | 0 | 5 | 1 | 0 | 3 |"
    assert "| the fence | 2 | 10,000 | invariant 14 / at 17 |" in lines


@pytest.mark.parametrize(("there", "run"), [
    ([], [1, 2]), ([1], [2]), ([1, 2], []), ([3], [1, 2])])
def test_a_missing_rule_is_searched_for_until_a_seed_finds_it(
        there: list[int], run: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"without": "rule 3", "seed": seed, "failure": "found" if seed == 2 else ""} for seed in there]
    begun: list[int] = []

    def play(job: tuple[str, int, str], _out: Path) -> None:
        begun.append(job[1])
        rows.append({"without": job[2], "seed": job[1], "failure": "found" if job[1] == 2 else ""})

    monkeypatch.setattr("benchmarks.protocol.run", play)
    monkeypatch.setattr("benchmarks.protocol.read", lambda _out: rows)
    search("rule 3", tmp_path)
    assert begun == run
    search("the fence", tmp_path)
    assert begun == [*run, 1, 2]
    assert len(SEARCH_SEEDS) > 2
