"""Whole evaluations with an engine whose answers are known: what comes out is what went in, killed or not."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import Any

import pytest

from broker.processes import spawn
from config.loading import load_run
from learner.collect.results import NotCollected, open_results
from tests.support.paths import ROOT
from tests.support.verl_runs import MILLRACE, millrace, variables
from tests.support.waiting import wait_until

pytestmark = pytest.mark.e2e

ANSWERS = [r"\boxed{1}"] * 4 + [r"\boxed{2}"] * 2 + ["none"] * 2  # of 8 samples 4 are 1, and 2 are 2
# Of references 1, 2 and 3, by source: 4, 2 and 0 of 8 samples are right. The last row is the first one again.
REFERENCES = [(1, "one_mathverify"), (2, "one_mathverify"), (3, "other_mathverify"), (1, "one_mathverify")]


def lay_out(folder: Path, references: Sequence[tuple[int, str]], **engine: Any) -> None:
    """Write the rows, and a configuration in the folder that evaluates on them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "data_source": source,
            "prompt": [{"role": "user", "content": f"Which digit is {reference}? Of {source}."}],
            "reward_model": {"style": "rule", "ground_truth": str(reference)},
        }
        for reference, source in references
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    held_out = {"type": "dataset", "name": "digits", "path": "rows.jsonl", "samples": 8, "top_p": 0.7}
    tree = {
        "name": "known",
        "model": {"path": "config/recipes/demo_model", "dtype": "float32"},
        "data": {"train": {"type": "procedural"}, "held_out": [held_out], "cache_dir": "cache"},
        "sampling": {"max_tokens": 24},
        "generators": {"engine": {"type": "fake", "answers": ANSWERS} | engine, "groups_in_flight": 2},
        "scorers": {"workers": 1},
        "broker": {"lease_s": 3},
    }
    (folder / "run.yaml").write_text(json.dumps(tree))


def evaluated(folder: Path, *words: str) -> str:
    done = millrace("evaluate", *words, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.prove
def test_sets_of_seeds_and_of_an_agents_rows_are_played_beside_a_set_of_answers(tmp_path: Path) -> None:
    lay_out(tmp_path, REFERENCES[:2], by="seed")
    tree = json.loads((tmp_path / "run.yaml").read_text())
    ladder = {"type": "custom", "import_path": "tests.support.arena_environments:Ladder", "max_turns": 3}
    agent = {"type": "agent", "import_path": "tests.support.arena_agents:ask_twice"}
    row = {"messages": [{"role": "user", "content": "?"}]}
    info = {"type": "twice", "answer": {"value": "1"}}
    (tmp_path / "asked.jsonl").write_text(json.dumps(row | {"verification_info": info}) + "\n")
    tree["scorers"]["tasks"] = {
        "math": {},
        "twice": {"environment": agent, "scorer": {"type": "environment"}},
        "ladder": {"environment": ladder, "scorer": {"type": "environment"}},
    }
    seeds = {"type": "environment", "task": "ladder", "split": "eval", "size": 3, "samples": 2}
    tree["data"]["held_out"].append({**seeds, "name": "ladders"})
    asked = {"type": "dataset", "path": "asked.jsonl", "samples": 2, "name": "asked"}
    tree["data"]["held_out"].append(asked)
    tree["data"]["max_prompt_tokens"] = 256
    tree["sampling"]["max_tokens"] = 400
    (tmp_path / "run.yaml").write_text(json.dumps(tree))
    evaluated(tmp_path, "run.yaml", "-o", "found.json", "sampling.temperature=1.0")
    found = {
        (one["set"], one["source"]): one
        for one in json.loads((tmp_path / "found.json").read_bytes())["summary"]
    }
    problems = {
        name: (one["problems"], one["unscorable"]) for (name, source), one in found.items() if not source
    }
    assert problems == {"digits": (2, 0), "ladders": (3, 0), "asked": (1, 0)}
    assert found["ladders", None]["average"]["value"] == 0.0, "nobody says `right`"
    assert "has all 6 rows already" in evaluated(tmp_path, "run.yaml", "-o", "again.json")


@pytest.mark.prove
def test_a_known_share_of_right_answers_is_what_an_evaluation_finds(tmp_path: Path) -> None:
    lay_out(tmp_path, REFERENCES)
    out = evaluated(tmp_path, "run.yaml", "-o", "found.json")
    tree = json.loads((tmp_path / "found.json").read_bytes())
    found = {(one["set"], one["source"]): one for one in tree["summary"]}
    # The repeated row is one problem with 16 samples, 8 of them right.
    counts = {"one_mathverify": [(16, 8), (8, 2)], "other_mathverify": [(8, 0)]}
    every = [problem for problems in counts.values() for problem in problems]
    for source in (None, *counts):
        problems = every if source is None else counts[source]
        one = found["digits", source]
        assert one["average"]["value"] == pytest.approx(sum(c / n for n, c in problems) / len(problems))
        assert (one["problems"], one["unscorable"]) == (len(problems), 0)
        for k, estimate in one["pass_at"].items():
            whole = [(n, c) for n, c in problems if n >= int(k)]
            closed = [1 - comb(n - c, int(k)) / comb(n, int(k)) for n, c in whole]
            assert estimate["value"] == pytest.approx(sum(closed) / len(closed))
            assert estimate["problems"] == len(whole)
            assert estimate["low"] <= estimate["value"] <= estimate["high"]
    assert found["digits", None]["average"]["value"] == 0.25
    assert list(found["digits", None]["pass_at"]) == ["1", "2", "4", "8", "16"]
    assert (tree["sets"][0]["n"], tree["sets"][0]["top_p"]) == (8, 0.7)
    assert [row["scores"].count(1.0) for row in tree["rows"]] == [4, 2, 0, 4]
    assert "25.0 [" in out


def collected_rows(folder: Path) -> int:
    """Count the rows of the one evaluation in the folder that have an outcome."""
    (run,) = (folder / "runs").glob("known-evaluation-*")
    try:
        results = open_results(run)
    except NotCollected:  # it has begun, and has written nothing
        return 0
    return results.size - results.missing


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_an_evaluation_that_is_killed_and_goes_on_leaves_the_same_bytes(tmp_path: Path) -> None:
    references = [(number % 3 + 1, f"source{number % 2}_mathverify") for number in range(30)]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for folder in (killed, whole):
        lay_out(folder, references, seconds_per_group=0.3)
    with (killed / "first.log").open("wb") as log:
        words = [*MILLRACE, "evaluate", "run.yaml"]
        process = spawn(words, cwd=killed, env=variables(killed), stdout=log, stderr=log)
    wait_until(
        lambda: next((killed / "runs").glob("known-*"), None) is not None and collected_rows(killed) >= 6,
        within_s=60,
    )
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=20)
    assert 6 <= collected_rows(killed) < 30
    for folder in (killed, whole):
        evaluated(folder, "run.yaml")
        assert "has all 30 rows already" in evaluated(folder, "run.yaml"), "nothing is sampled twice"
    runs = (next((folder / "runs").glob("known-*")) for folder in (killed, whole))
    first, second = (run / "evaluation.json" for run in runs)
    assert first.read_bytes() == second.read_bytes()
    assert load_run(["--config", str(first.parent / "config.yaml")]).name == first.parent.name


@pytest.mark.prove
@pytest.mark.timeout(400)
def test_the_versions_of_a_run_are_evaluated_while_it_trains_each_by_itself(tmp_path: Path) -> None:
    tree = {
        "name": "going",
        "learner": {"steps": 24, "checkpoint": {"every": 0}},
        "evaluation": {"every": 0, "prompts": 4, "samples": 2},
    }
    (tmp_path / "going.yaml").write_text(json.dumps(tree))
    demo = str(ROOT / "config/recipes/demo_cpu.yaml")
    up = [*MILLRACE, "up", demo, "--layer", "going.yaml"]
    with (tmp_path / "up.log").open("wb") as log:
        training = spawn(up, cwd=tmp_path, env=variables(tmp_path), stdout=log, stderr=log)
    wait_until((tmp_path / "runs/going/weights").exists, within_s=90)
    words = ("going", "--follow", "--every", "4", "--patience", "60", "--json")
    following = millrace("evaluate", *words, folder=tmp_path, timeout_s=300.0)
    assert following.returncode == 0, following.stderr
    assert training.wait(timeout=60) == 0, (tmp_path / "up.log").read_text()
    results = {file.stem: file for file in (tmp_path / "runs/going/evaluations").glob("v*.json")}
    assert "v000024" in results
    assert len(results) >= 2, "one while it trained, and one of its last weights"
    trees = [json.loads(line) for line in following.stdout.splitlines()]
    assert trees == [json.loads(results[name].read_bytes()) for name in sorted(results)]
    assert len({tree["model"]["weights"] for tree in trees}) == len(trees)
    assert all(len(row["scores"]) == 2 for tree in trees for row in tree["rows"])
    steps = [json.loads(line) for line in (tmp_path / "runs/going/metrics.jsonl").read_text().splitlines()]
    assert sum("reward_mean" in step for step in steps) == 24, "the run had nothing to do with it"
