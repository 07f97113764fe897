"""A step has one number wherever a person meets it: the version that it makes, counted from 1."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import Keys
from config.loading import to_yaml
from config.run import Run
from learner.incarnation import FINISHED
from learner.journal.ledger import read_ledger
from learner.reporting.metrics_file import read_metrics
from tests.support.chain import Chain, FilePolicy, make_run
from tests.support.journals import flip
from tests.support.loop import Hands, make_trainer
from tests.support.told import Capsys, Patch
from tools.main import main
from tools.replay.command import Replay

STEPS = [1, 2, 3]

Ask = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, link: RedisLink, keys: Keys, caplog: pytest.LogCaptureFixture) -> Run:
    """Return a run that has finished its three steps, each with a sample."""
    sections = {"evaluation": {"every": 0}, "generators": {"engine": {"type": "fake"}}}
    learner = {"steps": len(STEPS), "samples_every": 1, "max_lag": 0}
    chain = Chain(make_run(tmp_path, learner=learner, **sections), link, keys)
    (chain.run.folder / "config.yaml").write_text(to_yaml(chain.run))
    hands = Hands(chain)
    hands.start()
    try:
        with caplog.at_level(logging.INFO):
            trainer = make_trainer(chain)
            assert trainer.train() == FINISHED
    finally:
        hands.stop.set()
        hands.join(timeout=10)
    trainer.metrics.close()
    chain.journal.close()
    return chain.run


@pytest.fixture
def ask(run: Run, redis_url: str, monkeypatch: Patch, capsys: Capsys) -> Ask:
    """Return a function that says what `millrace` prints of this run."""
    monkeypatch.setenv("REDIS_URL", redis_url)

    def ask(*words: str, code: int = 0) -> str:
        assert main([*words, "--runs-dir", str(run.runs_dir)]) == code
        return capsys.readouterr().out

    return ask


def numbers(pattern: str, text: str) -> list[int]:
    return [int(found) for found in re.findall(pattern, text, re.MULTILINE)]


def test_log_metrics_and_the_journals_tools_count_the_same_steps(
    run: Run, ask: Ask, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: Capsys
) -> None:
    logged = [record.getMessage() for record in caplog.get_records("setup")]
    assert numbers(r"^step (\d+)/3 ", "\n".join(logged)) == STEPS
    assert [line["step"] for line in read_metrics(run.folder)] == STEPS
    assert numbers(r"^ *(\d+) +2 ", ask("journal", "ls", run.name)) == STEPS
    ledger = read_ledger(run.folder / "journal")
    Replay(run, FilePolicy(), ledger, tmp_path).run_steps(range(1, 4))  # type: ignore[arg-type]
    assert numbers(r"^step (\d+): ok", capsys.readouterr().out) == STEPS
    assert [record["step"] for record in ledger.steps] == [0, 1, 2], "what is on the disk stays as it was"


def test_a_group_has_one_step_wherever_it_is_looked_for(run: Run, ask: Ask, tmp_path: Path) -> None:
    lines = (run.folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    sampled = {line["group"]: line["step"] for line in map(json.loads, lines)}
    assert list(sampled.values()) == STEPS
    out = tmp_path / "rows.jsonl"
    for group, step in sampled.items():
        story = json.loads(ask("trace", run.name, group, "--json"))
        assert (story["step"], story["lag"]) == (step, [0, 0])
        assert story["says"] == f"trained at step {step}, which made version {step}"
        assert story["stages"][-1]["says"].startswith(f"step {step}, by incarnation 1")
        assert ask("journal", "show", run.name, "--group", group).startswith(f"step {step}: 2 groups")
        assert f"\ngroup {group}: " in ask("journal", "show", run.name, "--step", str(step))
        ask("journal", "export", run.name, "--out", str(out), "--steps", str(step))
        rows = [json.loads(row) for row in out.read_text(encoding="utf-8").splitlines()]
        assert {row["step"] for row in rows} == {step}
        assert group in {row["group"] for row in rows}


def test_damage_is_named_by_the_same_number(run: Run, ask: Ask) -> None:
    second = read_ledger(run.folder / "journal").steps[1]
    flip(run.folder / "journal" / second["file"], second["offset"] + 20)
    assert "step 2: its payload in " in ask("audit", run.name, code=1)
    story = json.loads(ask("trace", run.name, second["ids"][0], "--json", code=1))
    assert (story["step"], "the payload of step 2 is damaged" in story["notes"][0]) == (2, True)
