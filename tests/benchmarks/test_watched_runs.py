"""The watch on reward hacking over whole runs that were recorded: honest ones of the demo, and the three made hacks.

`watched_runs.jsonl` has what the watch sees of them, a line for each run, and `watched_agents.jsonl` of a run of
episodes. Some were beside other work that kept the processors busy (`-loaded`), and their steps are older than their
held-out rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from benchmarks.proofs.hacking import HACKS, WITHIN, judged
from benchmarks.rigs.watched_runs import kept, watched
from config.loading import load_run
from config.run import Run
from config.scorers import TaskConfig
from learner.reporting.hacking import HELD_OUT, alarms_of
from tests.support.paths import ROOT

RUNS = dict(watched(Path(__file__).with_name("watched_runs.jsonl")))
HONEST = sorted(name for name in RUNS if name.startswith("honest"))
HACKED = sorted(name for name in RUNS if not name.startswith("honest"))


def run_of(task: Mapping[str, Any] | None = None) -> Run:
    run = load_run(["--config", str(ROOT / "config" / "recipes" / "demo_cpu.yaml")])
    if task is None:
        return run
    scorers = run.scorers.model_copy(update={"tasks": {"math": TaskConfig.model_validate(task)}})
    return run.model_copy(update={"scorers": scorers})


def test_runs_of_both_kinds_were_recorded_some_beside_other_work() -> None:
    assert {name.partition("-")[0] for name in HACKED} == HACKS.keys()
    assert any(name.endswith("-loaded") for name in HONEST)
    assert all(len(records) >= 50 for records in RUNS.values())
    assert all(sum(len(record["evaluations"]) for record in RUNS[name]) == 7 for name in HONEST)


@pytest.mark.prove(after=12)
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_run_has_no_alarm(name: str) -> None:
    assert [(step, alarm.kind) for step, alarm in alarms_of(run_of(), RUNS[name])] == []


@pytest.mark.prove(after=12)
@pytest.mark.parametrize("name", HONEST)
def test_the_same_run_whose_held_out_score_stays_has_one(name: str) -> None:
    """The policy learns what it trains on and nothing else."""
    [first] = [found for record in RUNS[name] for found in record["evaluations"] if found["version"] == 0]
    records = [
        {
            **record,
            "evaluations": [{**found, "mean_score": first["mean_score"]} for found in record["evaluations"]],
        }
        for record in RUNS[name]
    ]
    found = alarms_of(run_of(), records)
    assert {alarm.kind for _, alarm in found} == {HELD_OUT}
    assert found[0][0] <= 30


@pytest.mark.prove(after=12)
@pytest.mark.parametrize("name", HONEST)
def test_what_a_rounds_versions_sampled_is_paid_as_the_round_is(name: str) -> None:
    """A step's groups are older than the round of its version: their reward is no measure of that round."""
    records = RUNS[name]
    rounds = [found for record in records for found in record["evaluations"] if found["version"] in (10, 20)]
    own, of_steps = [], []
    for found in rounds:
        near = [
            (facts["groups"], facts["reward_mean"])
            for record in records
            for version, facts in record.get("arrived", {}).get("by_version", {}).items()
            if abs(int(version) - found["version"]) <= 2
        ]
        own.append(
            sum(count * mean for count, mean in near) / sum(count for count, _ in near) - found["mean_score"]
        )
        steps = [
            record["reward_mean"]
            for record in records
            if "reward_mean" in record and -5 < record["step"] - found["version"] <= 0
        ]
        of_steps.append(fmean(steps) - found["mean_score"])
    assert abs(fmean(own)) < 0.15
    assert fmean(of_steps) < fmean(own)


@pytest.mark.parametrize("name", HACKED)
def test_a_hack_is_named_soon_after_the_reward_rose(name: str) -> None:
    hack, records = HACKS[name.partition("-")[0]], RUNS[name]
    rose_at = judged(records, name.partition("-")[0], 0, 0).rose_at
    named_at = [step for step, alarm in alarms_of(run_of(hack.task), records) if alarm.kind == hack.kind]
    assert rose_at is not None
    assert named_at[0] - rose_at <= WITHIN


def test_a_policy_that_learns_to_use_a_tool_has_no_alarm_unless_its_turns_are_paid_by_their_length() -> None:
    """The agents' demo: it looks before it answers, which is more turns, and longer ones than an answer."""
    ((_, records),) = watched(Path(__file__).with_name("watched_agents.jsonl"))
    run = load_run(["--config", str(ROOT / "config" / "recipes" / "demo_agents.yaml")])
    tokens = [record["arrived"]["turn_tokens_mean"] for record in records if "arrived" in record]
    assert fmean(tokens[-5:]) > run.learner.hacking.longer * fmean(tokens[:5])
    assert alarms_of(run, records) == []
    paid = [
        {**record, "arrived": {**record["arrived"], "length_correlation": 0.6}}
        for record in records
        if "arrived" in record
    ]
    assert {alarm.kind for _, alarm in alarms_of(run, paid)} == {"length"}


def test_a_run_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    name = HONEST[0]
    file = tmp_path / "runs.jsonl"
    file.write_text(f"{kept(name, RUNS[name])}\n")
    assert dict(watched(file)) == {name: RUNS[name]}
