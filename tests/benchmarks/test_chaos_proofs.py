"""The verdicts of the long proofs, on made-up results."""

from __future__ import annotations

import json
import time
from argparse import ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks import results
from benchmarks.proofs import chaos, chaos_batch
from benchmarks.proofs.chaos import INTERRUPTED, Wanted, as_table, fulfil, read
from benchmarks.proofs.chaos_batch import GAME, OWN_AGENTS, JsonTable, parse_kills, redelivered
from benchmarks.proofs.chaos_demo import TURNS, Beside, beside, failures, ratio
from benchmarks.rigs.seed_runs import SeedRun
from benchmarks.rigs.sleeper import SlowBox
from broker.processes import spawn
from learner.journal.ledger import read_ledger
from learner.journal.writer import Journal
from tests.support.groups import a_prompt, a_rollout, a_scored_group

pytestmark = pytest.mark.process

WANTED = [Wanted("learner", 2), Wanted("redis", 1, 300.0)]
KILL = {"run": "learner-0", "seed": 0, "commit": "c", "role": "learner", "away_s": 0.0, "back_s": 4.0} | {
    "lost": 0,
    "twice": 0,
    "lost_ids": [],
    "twice_ids": [],
    "is_clean": True,
}
AWAY = {**KILL, "run": "redis-1", "seed": 1, "role": "redis", "away_s": 300.0, "back_s": 301.0}
SUMS = {"issued": 40, "trained": 36, "dropped": 3, "dead": 1, "in_flight": 0}
END = {**KILL, "role": "", "exit_code": 0, "is_complete": True, "steps": 5, "redelivered": 2, **SUMS}
AWAY_END = {**END, "run": "redis-1", "seed": 1}
ENDS = [END, AWAY_END]
STOPPED = {**END, "run": "learner-2", "exit_code": 143, "is_complete": False}
BY_HAND = {"run": "learner-2", "seed": 2, "commit": "c", "why": INTERRUPTED}
AGAIN = {**KILL, "run": "learner-2"}
LOST = {**KILL, "lost": 1, "lost_ids": ["7"], "is_clean": False}


def ended(**changes: Any) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Return rows of which one end is changed, and what is said of it."""
    end = {**END, **changes}
    said = ", ".join(f"{key} {end[key]}" for key in ("exit_code", "is_complete", *SUMS))
    return [KILL, KILL, AWAY, end, AWAY_END], [f"run {end['run']}: not a clean end: {said}"]


@pytest.mark.parametrize(
    ("rows", "failed"),
    [
        ([KILL, KILL, AWAY, *ENDS], []),
        ([KILL, AWAY, *ENDS], ["1 of 2 kills: learner"]),
        ([KILL, KILL, {**AWAY, "away_s": 0.0}, *ENDS], ["0 of 1 kills: redis, away for 300 s"]),
        ([KILL, KILL, {**AWAY, "back_s": 299.0}, *ENDS],
            ["run redis-1: back after 299.0 s, to be away for 300"]),
        ([KILL, LOST, AWAY, *ENDS], ["run learner-0: lost ['7'], twice []"]),
        ([KILL, KILL, AWAY, AWAY_END], ["run learner-0: no end"]),
        ended(exit_code=1),
        ended(exit_code=1, is_complete=False),  # a role never came back: nobody interrupted it
        ended(issued=41),
        ended(issued=42, in_flight=2),
        ended(issued=4, trained=0),
        ([KILL, AGAIN, AWAY, *ENDS, {**BY_HAND, "why": "exit code 1"}, STOPPED],
            ["run learner-2: exit code 1", *ended(**STOPPED)[1]]),
        ([KILL, AGAIN, AWAY, *ENDS, BY_HAND, STOPPED], []),
        ([KILL, AGAIN, AWAY, *ENDS, BY_HAND], []),
        ([KILL, AGAIN, AWAY, *ENDS, BY_HAND, {**STOPPED, "twice_ids": ["3"], "is_clean": False}],
            ["run learner-2: lost [], twice ['3']"]),
    ],
)  # fmt: skip
def test_every_kill_every_audit_and_every_end_count(rows: list[Mapping[str, Any]], failed: list[str]) -> None:
    assert list(chaos.failures(rows, WANTED)) == failed
    lines = as_table(rows, WANTED)
    text = "\n".join(lines)
    assert ("**Proven**" in text, "**NOT proven**" in text) == (not failed, bool(failed))
    assert [line for line in lines if line.startswith("- ")] == [f"- {failure}" for failure in failed]
    assert "**NOT proven**" in "\n".join(as_table(rows, WANTED, is_same=False))


@pytest.mark.parametrize(
    ("program", "why", "played_by"),
    [("raise SystemExit(1)", "exit code 1", OWN_AGENTS), ("", INTERRUPTED, GAME)],
)
def test_a_batch_that_fails_is_written_down_and_one_that_is_interrupted_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str, played_by: str
) -> None:
    table = tmp_path / "kills.jsonl"
    wanted = WANTED[0]._replace(played_by=played_by)

    def interrupt(*_: object) -> bool:
        raise KeyboardInterrupt

    real = spawn

    def batch(words: list[str], **pipes: Any) -> Any:
        assert words[-1] == {OWN_AGENTS: "--own-agents", GAME: "--agents"}[played_by]
        return real([words[0], "-c", program], **pipes)

    monkeypatch.setattr(chaos, "spawn", batch)
    if why == INTERRUPTED:
        monkeypatch.setattr(chaos, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fulfil(wanted, tmp_path, table, "c")
    else:
        assert fulfil(wanted, tmp_path, table, "c") == why
    (row,) = read(table, "c")
    assert (row["run"], row["why"]) == ("learner-0", why)
    assert list(chaos.failures([row], ())) == ([] if why == INTERRUPTED else ["run learner-0: exit code 1"])


def test_a_commit_that_has_failed_is_not_tried_until_it_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "commit", lambda: "c")
    JsonTable(tmp_path / "kills.jsonl", {"run": "learner-0", "commit": "c"}).add(why="exit code 1")
    assert chaos.main(["--out", str(tmp_path)]) == 1
    assert "run learner-0: exit code 1. To begin" in capsys.readouterr().out
    assert len(read(tmp_path / "kills.jsonl")) == 1


def test_the_table_has_a_row_for_each_role_and_names_what_was_lost() -> None:
    bad = {**KILL, "back_s": 8.0, "lost": 1, "lost_ids": ["17"], "is_clean": False}
    lines = as_table([KILL, bad, AWAY, *ENDS], WANTED)
    assert lines[2] == "| learner | 2 | 1 | 0 | 40 | 36 | 1 | 5 | 2 | 6.0 | 8.0 | learner-0: 0 |"
    assert lines[3].startswith("| redis, away for 300 s | 1 | 0 | 0 |")
    assert lines[-1] == "- run learner-0: lost ['17'], twice []"


def test_the_table_goes_on_with_the_lines_of_its_own_commit(tmp_path: Path) -> None:
    path = tmp_path / "kills.jsonl"
    assert read(path) == []
    for commit in ("old", "new", "new"):
        JsonTable(path, {"run": "learner-0", "commit": commit}).add(role="learner", back_s=1.0)
    assert (len(read(path)), len(read(path, "new")), len(read(path, "newer"))) == (3, 2, 0)
    assert json.loads(path.read_text().splitlines()[0])["back_s"] == 1.0


def test_groups_that_a_killed_scorer_had_are_counted(tmp_path: Path) -> None:
    for name, lines in (("scorers-0", 2), ("scorers-1", 1), ("learner", 1)):
        line = "up INFO scorers.pool.dispatcher: delivering_again group=7 job=j\n"
        (tmp_path / f"{name}.log").write_text(line * lines)
    assert redelivered(tmp_path) == 3


def test_the_scorer_under_chaos_takes_its_time_and_knows_the_answer() -> None:
    scorer = SlowBox(seconds=0.05)
    began = time.monotonic()
    rewards = [scorer.score(text, {"answer": {"value": "1"}}).value for text in ("\\boxed{1}", "\\boxed{2}")]
    assert rewards == [1.0, 0.0]
    assert time.monotonic() - began >= 0.1


def test_kills_are_parsed_or_refused() -> None:
    assert parse_kills("learner=2,redis=1") == {"learner": 2, "redis": 1}
    for wrong in ("learner", "learner=0", "nobody=1", ""):
        with pytest.raises(ArgumentTypeError):
            parse_kills(wrong)


@pytest.mark.parametrize(
    ("words", "longest"),
    [([], 3.0), (["--agents"], 3.0), (["--own-agents"], 12.0), (["--own-agents", "--every-s", "0"], 0.0)],
)
def test_a_pause_is_the_one_that_was_asked_for_or_its_players(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], longest: float
) -> None:
    paused: list[float] = []
    monkeypatch.setattr(
        chaos_batch, "play", lambda _name, _out, orders, *_, **__: paused.append(orders.every_s)
    )
    where = ["--name", "storm", "--out", str(tmp_path), "--table", str(tmp_path / "table")]
    chaos_batch.main(["--kills", "learner=1", *where, *words])
    assert paused == [longest]


TWICE = dict.fromkeys(TURNS, 2)


def demo(*, trained_s: float, kills: Mapping[str, int] = TWICE, **changes: Any) -> Beside:
    fields: dict[str, Any] = {
        "seed": 0,
        "exit_code": 0,
        "seconds": trained_s + 20.0,
        "first_step_s": 10.0,
    } | {
        "steps": 60,
        "lag_max": 4,
        "pass_rates": {0: 0.25, 60: 0.98},
        "switched_in_flight": 0,
        "is_audit_clean": True,
        **changes,
    }
    return Beside(run=SeedRun(**fields), tokens=1000, trained_s=trained_s, kills=dict(kills), chaos={})


UNDER = "seed 0, under chaos: "
NOT_KILLED = [f"{role}: 0 kills, at least 2" for role in TURNS if role != "learner"]


@pytest.mark.parametrize(
    ("storm", "missed"),
    [
        (demo(trained_s=160.0), []),
        (demo(trained_s=200.0), ["0.50 of the undisturbed tokens/s, at least 0.6"]),
        (demo(trained_s=160.0, pass_rates={0: 0.25, 60: 0.8}), [UNDER + "0.800 at the end, at least 0.85"]),
        (demo(trained_s=160.0, kills={**TWICE, "redis": 1}), ["redis: 1 kills, at least 2"]),
        (demo(trained_s=440.0 / 3, kills={"learner": 2}), ["seed 0: 2 kills, at least 3", *NOT_KILLED]),
        (demo(trained_s=160.0, is_audit_clean=False), [UNDER + "audit not clean"]),
    ],
)
def test_the_demo_under_chaos_has_its_bars(storm: Beside, missed: list[str]) -> None:
    pairs = [(demo(trained_s=100.0), storm)]
    assert ratio(pairs) == 100.0 / storm.trained_s
    assert failures(pairs) == missed


def test_tokens_and_seconds_begin_with_the_first_step(tmp_path: Path) -> None:
    ledger = tmp_path / "journal"
    journal = Journal(ledger, 1, run="")
    for step in range(3):
        group = a_scored_group(a_rollout(a_prompt(str(step))))
        journal.append(step, [group], [[0.5, -0.5]])
    journal.close()
    first, *later = read_ledger(ledger).steps
    killed_at = [("redis", first["at"] - 1.0), ("learner", first["at"]), ("redis", later[-1]["at"] + 1.0)]
    found = beside(demo(trained_s=1.0).run, tmp_path, {"killed_at": killed_at})
    assert found.kills == {"learner": 1}, "one was before the first step, one after the last"
    assert found.tokens == 8, "four each of the second and the third"
    assert found.trained_s == later[-1]["at"] - first["at"] > 0
    assert found.tokens_per_s == 8 / found.trained_s
    assert beside(found.run, tmp_path / "none", {}).tokens_per_s == 0.0
