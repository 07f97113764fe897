"""Benchmarks: the tables, every benchmark in a tiny size, and the verdict on made-up runs of the demo."""

from __future__ import annotations

import json
import re
import subprocess
from argparse import ArgumentTypeError
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import LONG, TITLES
from benchmarks.comparison import Comparison, TimedWork, as_table, median_interval, take_turns
from benchmarks.measures.journal import shares_of
from benchmarks.proofs.demo_seeds import ENGINES, parse_seeds
from benchmarks.results import append, commit, remarks
from benchmarks.rigs.groups import made_up_rollout, scored
from benchmarks.rigs.seed_runs import BARS, SeedRun, enough_pass, read_seed_run
from benchmarks.rigs.seed_runs import as_table as seed_table
from learner.journal.ledger import DROPPED, GroupOutcome
from learner.journal.writer import Journal
from tests.conftest import ROOT, SHARED
from tests.support.forked_program import fork_module
from tests.support.groups import a_rollout, a_scored_group

pytestmark = pytest.mark.process

HF = BARS["hf"]


def compare(ours: list[float], other: list[float], *, less_is_better: bool = False) -> Comparison:
    said = {"what": "hand over", "unit": "1/s", "beside": "limit: none", "less_is_better": less_is_better}
    return Comparison(**{"ours": ours, "other": other, **said})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ours", "other", "less_is_better", "ratio"),
    [
        ([10.0], [5.0], False, 2.0),
        ([10.0], [5.0], True, 0.5),
        ([1.0, 100.0, 3.0], [1.0, 50.0, 1.0], False, 2.0),  # a slow moment that hits both sides is none
    ],
)
def test_ratio_is_above_one_where_ours_is_ahead(
    ours: list[float], other: list[float], less_is_better: bool, ratio: float
) -> None:
    assert compare(ours, other, less_is_better=less_is_better).ratio == ratio


def test_table_shows_median_and_spread_of_the_rounds() -> None:
    (line,) = as_table([compare([2000.0, 1500.0, 3000.0], [4000.0, 3000.0, 6000.0])])[2:]
    assert (
        line == "| hand over | 1/s | 2,000 (1,500 to 3,000) | limit: none | 4,000 (3,000 to 6,000) | 0.50 |"
    )
    (line,) = as_table([compare([2000.0, 1500.0, 3000.0], [4000.0, 2000.0, 5000.0])])[2:]
    assert line.endswith("| 4,000 (2,000 to 5,000) | 0.60 (0.50 to 0.75) |")


def test_sides_take_turns_and_the_first_round_does_not_count() -> None:
    begun: list[str] = []

    def side(name: str) -> Any:
        def work(number: int) -> TimedWork:
            begun.append(f"{name}{number}")
            return TimedWork(amount=number, seconds=0.5)

        return work

    ours, other = take_turns(side("a"), side("b"), rounds=2)
    assert begun == ["a0", "b0", "b1", "a1", "a2", "b2"]
    assert [turn.rate for turn in ours] == [turn.rate for turn in other] == [2.0, 4.0]


@pytest.mark.parametrize(
    ("rounds", "low", "high"),
    [(1, 1, 1), (4, 1, 4), (5, 1, 5), (8, 2, 7), (15, 4, 12)],  # of 8: 2 x (1 + 8) / 2**8 lies beyond
)
def test_median_lies_between_two_of_the_rounds_with_a_chance_of_nine_in_ten(
    rounds: int, low: int, high: int
) -> None:
    assert median_interval([float(value) for value in range(rounds, 0, -1)]) == (low, high)


def benchmarks(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = fork_module("benchmarks", *words, **pipes, **variables)
    out, err = process.communicate(timeout=230)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.mark.prove
@pytest.mark.timeout(240)
def test_every_benchmark_runs_and_its_numbers_are_positive() -> None:
    shown = benchmarks("--smoke", OMP_NUM_THREADS="1")
    assert shown.returncode == 0, shown.stderr[-3000:]
    for title in (title for name, title in TITLES.items() if name not in LONG):
        assert f"### {title}" in shown.stdout
    rows = [
        line.strip("| ").split(" | ")
        for line in shown.stdout.splitlines()
        if re.match(r"\| (?!what|--)", line) and not line.startswith("|---")
    ]
    pool = 3 if (SHARED / "data").is_dir() else 1
    # The hand-over of a smoke has one size of group.
    assert len(rows) == 1 + 3 + 5 + 1 + pool + 1 + 3 + 2 + 2 + 1
    for what, _, ours, _, other, ratio in rows:
        assert all(float(number.split(" ")[0].replace(",", "")) > 0 for number in (ours, other, ratio)), what
    assert re.search(r"Commit \w+.*cores of .*Python 3", shown.stdout)


def test_the_journals_share_of_a_step_leaves_out_what_was_waited_for_others() -> None:
    steps = [
        {"seconds": 2.0, "seconds_wait": 0.75, "seconds_evaluate": 0.25, "seconds_journal": 0.01},
        {"seconds": 0.5, "seconds_wait": 0.0, "seconds_journal": 0.02},
    ]
    assert shares_of(steps) == [1.0, 4.0]


def test_a_step_of_groups_of_8_x_512_tokens_takes_at_most_10_bytes_a_token_on_the_disk(
    tmp_path: Path,
) -> None:
    groups = [scored(made_up_rollout(str(ordinal), completions=8, tokens=512)) for ordinal in range(8)]
    journal = Journal(tmp_path, 1, run="")
    before = sum(file.stat().st_size for file in tmp_path.iterdir())
    journal.append(0, groups, [[0.5, -0.5] * 4] * 8)
    journal.close()
    on_disk = sum(file.stat().st_size for file in tmp_path.iterdir()) - before
    # An id and a log-probability are 8; the rest is all else, and the record.
    assert 8 < on_disk / (8 * 8 * 512) <= 10


@pytest.mark.parametrize(
    "words",
    ["no_such", "codec --smoke --write", "codec --rounds 0", "--rounds 3", "codec journal --rounds 3"],
)
def test_wrong_words_are_refused(words: str) -> None:
    assert benchmarks(*words.split()).returncode == 2


def test_rounds_are_those_that_were_asked_for_where_there_are_any() -> None:
    one, three = (benchmarks("codec", "--smoke", "--rounds", rounds) for rounds in "13")
    assert (one.returncode, three.returncode) == (0, 0), one.stderr + three.stderr
    ratio_with_spread = re.compile(r"\d \(\S+ to \S+\) \|$", re.MULTILINE)
    assert ratio_with_spread.search(three.stdout)
    assert not ratio_with_spread.search(one.stdout)
    refused = benchmarks("sandbox", "--smoke", "--rounds", "3")
    assert refused.returncode == 1
    assert "--rounds: sandbox has no number of rounds to choose" in refused.stderr


def made_up(**changes: Any) -> SeedRun:
    done: dict[str, Any] = {
        "exit_code": 0, "steps": 60, "lag_max": 2, "switched_in_flight": 0, "is_audit_clean": True,
        "sampled_tokens": 120_000,
    }  # fmt: skip
    rates = {0: 0.11, 30: 0.6, 60: 0.92}
    return SeedRun(
        **{"seed": 3, "seconds": 120.0, "first_step_s": 25.4, "pass_rates": rates, **done} | changes
    )


NOTHING = {"exit_code": 1, "steps": 0, "pass_rates": {}, "first_step_s": None, "lag_max": None}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "pass"),
        ({"pass_rates": {0: 0.5, 60: 0.85}, "seconds": 300.0, "first_step_s": 60.0}, "pass"),  # at every bar
        ({"pass_rates": {0: 0.51, 60: 0.92}}, "0.510 at version 0, at most 0.5"),
        ({"pass_rates": {0: 0.11, 60: 0.84}}, "0.840 at the end, at least 0.85"),
        ({"pass_rates": {0: 0.11, 50: 0.92}}, "none at the end, at least 0.85"),  # not the final weights'
        ({"seconds": 301.0}, "301 s, at most 300"),
        ({"first_step_s": 61.0}, "first step after 61 s, at most 60"),
        ({"is_audit_clean": False}, "audit not clean"),
        (NOTHING, "exit code 1; none at version 0, at most 0.5; none at the end, at least 0.85; no step"),
    ],
)
def test_verdict_names_each_bar_that_is_missed(changes: dict[str, Any], verdict: str) -> None:
    assert made_up(**changes).verdict(HF) == verdict


def test_vllm_has_fifteen_minutes_and_loads_weights_in_flight() -> None:
    slow = made_up(seconds=900.0, first_step_s=200.0, switched_in_flight=1)
    assert slow.verdict(BARS["vllm"]) == "pass"
    assert replace(slow, switched_in_flight=0).verdict(BARS["vllm"]) == "no weights in flight"
    assert slow.verdict(HF) == "900 s, at most 300; first step after 200 s, at most 60"


@pytest.mark.parametrize(
    ("passing", "failing", "enough"),
    [(9, 1, True), (8, 2, False), (1, 0, True), (0, 1, False), (3, 1, False), (0, 0, False)],
)
def test_nine_of_ten_are_enough(passing: int, failing: int, enough: bool) -> None:
    runs = [made_up()] * passing + [made_up(exit_code=1)] * failing
    assert enough_pass(runs, HF) is enough


def test_the_agents_demo_is_held_to_its_tokens_all_its_runs_and_their_median_time() -> None:
    bars = BARS["agents"]
    run = made_up(pass_rates={0: 0.3, 60: 0.9}, seconds=300.0, sampled_tokens=200_000)
    assert run.verdict(bars) == "pass"
    assert replace(run, sampled_tokens=200_001).verdict(bars) == "200,001 tokens, at most 200,000"
    slow = replace(run, seconds=301.0)
    assert enough_pass([run, run, slow], bars)
    assert not enough_pass([run, slow, slow], bars)
    assert not enough_pass([run] * 9 + [made_up(exit_code=1)], bars)
    assert seed_table([run], bars)[4].endswith(
        "at most 200,000 sampled tokens, exit code 0 and a clean audit. Median 300 s, at most 300."
    )


def test_seed_table_has_a_row_a_run_the_sum_and_the_curves() -> None:
    table = seed_table([made_up(), made_up(seed=4, pass_rates={}, is_audit_clean=False)], HF)
    assert table[2] == "| 3 | 0.110 | 0.920 | 25 | 120 | 120,000 | 2 | 0 | clean | pass |"
    assert table[3].startswith(
        "| 4 | none | none | 25 | 120 | 120,000 | 2 | 0 | NOT CLEAN | none at version 0, at most"
    )
    assert table[5].startswith("**1 of 2 pass**")
    assert table[7:] == [
        "- seed 3, held-out pass rate by version: 0: 0.11, 30: 0.60, 60: 0.92",
        "- seed 4, held-out pass rate by version: none",
    ]


def test_run_is_read_from_its_folder(tmp_path: Path) -> None:
    rates = {0: 0.1, 2: 0.9}
    with (tmp_path / "metrics.jsonl").open("w") as metrics:
        for step, (version, rate) in enumerate(rates.items(), start=1):
            evaluations = [{"version": version, "pass_rate": rate, "samples": 256}]
            line = {"step": step, "at": 1000.0 + step, "reward_mean": 0.5, "lag_max": 2 - step}
            metrics.write(json.dumps({**line, "evaluations": evaluations}) + "\n")
    status = {"status": "finished", "version": 2, "steps": 2, "at": 1002.0}
    (tmp_path / "status.json").write_text(json.dumps(status))
    journal = Journal(tmp_path / "journal", 1, run="")
    journal.append(0, [a_scored_group(a_rollout())], [[0.5, -0.5]])  # tokens of versions 3 and 4
    journal.end({"5": GroupOutcome(DROPPED, "zero_variance", tokens=7)})
    journal.close()
    run = read_seed_run(tmp_path, seed=7, began_at=981.0, seconds=30.0, exit_code=0, is_audit_clean=True)
    expected = {
        "seed": 7, "seconds": 30.0, "first_step_s": 20.0, "steps": 2, "lag_max": 1, "switched_in_flight": 1,
        "sampled_tokens": 4 + 7,
    }  # fmt: skip
    assert run == made_up(**expected, pass_rates=rates)
    assert (run.before, run.after) == (0.1, 0.9)


def test_run_that_left_nothing_fails(tmp_path: Path) -> None:
    gone = tmp_path / "none"
    run = read_seed_run(gone, seed=7, began_at=0.0, seconds=3.0, exit_code=1, is_audit_clean=False)
    assert run.verdict(HF).startswith("exit code 1; none at version 0")


def test_seeds_are_ranges_and_lists_and_nothing_else() -> None:
    for text, seeds in (("0-3", [0, 1, 2, 3]), ("7", [7]), ("0-1,5", [0, 1, 5])):
        assert parse_seeds(text) == seeds
    for text in ("", "a", "3-1", "1,1", "-1", "0-", "0-2,1"):
        with pytest.raises(ArgumentTypeError, match=f"'{text}'"):
            parse_seeds(text)


@pytest.mark.parametrize("engine", ENGINES)
def test_proof_runs_what_make_demo_runs(engine: str) -> None:
    line = re.search(rf"^ENGINE_{engine} :=(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert line is not None
    assert tuple(line[1].split()) == ENGINES[engine]


def test_block_goes_to_the_end_of_the_file(tmp_path: Path) -> None:
    results = tmp_path / "RESULTS.md"
    results.write_text("# Results\n")
    append(["## One", "", "a"], to=results)
    append(["## Two"], to=results)
    assert results.read_text() == "# Results\n\n## One\n\na\n\n## Two\n"


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("abc", "abc", ""),
        ("abc", "abd", "NOT of one commit"),
        ("abc", "abc with changes", "NOT of one commit"),
        ("abc with changes", "abc with changes", "NOT of a commit"),
        ("unknown", "unknown", "NOT of a commit"),
    ],
)
def test_numbers_of_no_commit_say_so_loudly(
    before: str, now: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.results.commit", lambda: now)
    lines = "\n".join(remarks(before))
    assert said in lines
    assert bool(lines) == bool(said)


def test_commit_is_that_of_the_checkout() -> None:
    assert re.fullmatch(r"[0-9a-f]{10}( with changes)?|unknown", commit())
