"""The verdict of the protocol's random runs, on made-up batches."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.proofs import protocol
from benchmarks.proofs.machines import GROUPS, MACHINES, StateMachine
from benchmarks.proofs.protocol import SEARCH_SEEDS, as_table, is_proven, missing_of, read, search

pytestmark = pytest.mark.process

FAILURE = "invariant 14 | at 17\nmore"
JOBS = [("6.2", 1, ""), ("7", 1, "")]
DONE = {"actions": 10_000, "rules": 4_000, "did": dict.fromkeys(GROUPS.acts, 5), "exit": 0, "seconds": 3.0}
OLD, NEW, *BROKEN = (
    {"redis": redis, "seed": seed, "without": without, "failure": FAILURE if without else "", **DONE}
    for redis, seed, without in [*JOBS, *(("6.2", 2, rule) for rule in GROUPS.rules)]
)
IN_VAIN = {**BROKEN[0], "seed": 1, "failure": "", "exit": 1, "actions": GROUPS.search}


@pytest.mark.parametrize(
    ("rows", "proven", "missing"),
    [
        ([OLD, NEW, *BROKEN], True, 0),
        ([OLD, NEW, IN_VAIN, *BROKEN], True, 0),  # another seed did not find it
        ([OLD, *BROKEN], False, 1),  # interrupted, or of another commit
        ([OLD, {**NEW, "failure": "invariant 5"}, *BROKEN], False, 0),
        ([OLD, NEW, IN_VAIN, *BROKEN[1:]], False, 0),  # nobody misses the rule
        ([OLD, {**NEW, "exit": 1}, *BROKEN], False, 0),
        ([OLD, {**NEW, "actions": 9_999}, *BROKEN], False, 0),  # it ended early
        # something else failed: the edit does not fit, say
        ([OLD, NEW, {**BROKEN[0], "exit": 1}, *BROKEN[1:]], False, 0),
        *(
            ([OLD, {**NEW, "did": {**dict.fromkeys(GROUPS.acts, 5), act: 0}}, *BROKEN], False, 0)
            for act in GROUPS.acts
        ),
    ],
)
def test_every_batch_is_there_and_every_rule_is_missed(
    rows: list[Mapping[str, Any]], proven: bool, missing: int
) -> None:
    assert is_proven(GROUPS, rows, JOBS) is proven
    last = as_table(GROUPS, rows, JOBS)[-1]
    assert last.startswith("**Proven**" if proven else "**NOT proven**")
    assert last.endswith(f"; {missing} of 2 batches are missing.")


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title)
def test_each_machine_is_proven_by_its_own_rules_and_acts(machine: StateMachine) -> None:
    did = {"did": dict.fromkeys(machine.acts, 5)}
    missed = [{**BROKEN[0], "without": rule} for rule in machine.rules]
    assert is_proven(machine, [{**OLD, **did}, {**NEW, **did}, *missed], JOBS)
    assert not is_proven(machine, [{**OLD, **did}, {**NEW, **did}, *missed[1:]], JOBS)
    other = next(one for one in MACHINES if one is not machine)
    assert not is_proven(other, [{**OLD, **did}, {**NEW, **did}, *missed], JOBS)


def test_the_tables_name_what_was_done_and_what_failed() -> None:
    lines = as_table(GROUPS, [OLD, NEW, *BROKEN], JOBS)
    of_both = ["actions | 10,000 | 10,000", "rules | 4,000 | 4,000", "groups trained | 5 | 5"]
    assert {f"| {cells} |" for cells in (*of_both, "failed | 0 | 0", "s | 3 | 3")} < {*lines}
    assert "| the fence | 2 | 10,000 | invariant 14 / at 17 |" in lines


@pytest.mark.parametrize(("there", "run"), [([], [1, 2]), ([1], [2]), ([1, 2], []), ([3], [1, 2])])
def test_a_missing_rule_is_searched_for_until_a_seed_finds_it(
    there: list[int], run: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def row(rule: str, seed: int) -> dict[str, Any]:
        return {"without": rule, "seed": seed, "failure": "found" if seed == 2 else "", "exit": 0}

    rows = [row("rule 3", seed) for seed in there]
    begun: list[int] = []

    def play(_machine: StateMachine, job: tuple[str, int, str], _out: Path) -> None:
        begun.append(job[1])
        rows.append(row(job[2], job[1]))

    monkeypatch.setattr("benchmarks.proofs.protocol.run", play)
    monkeypatch.setattr("benchmarks.proofs.protocol.read", lambda _out: rows)
    search(GROUPS, "rule 3", tmp_path)
    assert begun == run
    search(GROUPS, "the fence", tmp_path)
    assert begun == [*run, 1, 2]
    assert len(SEARCH_SEEDS) > 2


@pytest.mark.prove(after=4)
@pytest.mark.parametrize(
    ("body", "has_line", "failure"),
    [
        ("raise SystemExit(2)", False, ""),  # interrupted by hand
        ("", False, ""),  # skipped: there is no such Redis
        ("raise SystemExit(1)", True, "exit code 1: see redis-6.2-seed-1.log"),
        ("os.kill(os.getpid(), 9)", True, "exit code -9: see redis-6.2-seed-1.log"),
        ("time.sleep(60)", True, "exit code -9: see redis-6.2-seed-1.log"),
        ("tell('Failed()'); raise SystemExit(1)", True, "Failed()"),
        ("tell('KeyboardInterrupt()'); raise SystemExit(2)", False, ""),
        ("tell(''); raise SystemExit(1)", True, "exit code 1: see redis-6.2-seed-1.log"),
        ("tell('')", True, ""),
    ],
)
def test_a_batch_that_ends_wrongly_is_no_batch_that_passed(
    body: str, has_line: bool, failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text(
        f"""#!{sys.executable}
import json, os, time
def tell(failure):
    with open(os.environ["PROTOCOL_REPORT"], "w") as report:
        json.dump({{"seed": 1, "without": "", "actions": 10_000, "rules": 1, "did": {{}}, "failure": failure}}, report)
{body}
""",
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(protocol, "TIMEOUT_S", 0.5 if "sleep" in body else 30.0)
    protocol.run(GROUPS, ("6.2", 1, ""), tmp_path)
    assert [row["failure"] for row in read(tmp_path)] == [failure] * has_line
    assert bool(missing_of(JOBS[:1], read(tmp_path))) is not has_line
