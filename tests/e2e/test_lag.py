"""Lag is bounded exactly, however unequal the generators are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.e2e.conftest import Roles

SLOW = Path(__file__).with_name("slow_generator.py")


def test_a_generator_twenty_times_slower_never_pushes_a_token_beyond_max_lag(roles: Roles, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"question": f"What is {n} - {n - 1}?", "answer": "1"}) + "\n"
                            for n in range(200)))
    learner = roles.learner(
        "data.train={type: dataset, path: " + str(rows) + ", prompt_template: '{question}', answer_column: answer}",
        "data.held_out=", "evaluation.every=0", "learner.steps=12", "learner.groups_per_step=4", "learner.max_lag=1",
        "sampling.group_size=2", "generators.groups_in_flight=1", "learner.checkpoint.every=0")
    for seconds in ("0.1", "2.0"):
        roles.start("generators", roles.name, seconds, command=(sys.executable, str(SLOW)),
                    environment={"PYTHONPATH": str(Path(__file__).parents[2])})
    roles.scorers()
    assert roles.wait(learner) == 0, roles.all_logs()
    records = roles.metrics()
    assert len(records) == 12
    assert max(record["lag_max"] for record in records) == 1, "the bound was put to use"
    samplers = _samplers(roles)
    assert len(samplers) == 2, f"both generators' groups were trained on: {samplers}"
    assert roles.audit().is_clean


def _samplers(roles: Roles) -> set[str]:
    from learner.ledger import read_ledger, read_step
    folder = roles.folder / "journal"
    return {group.rollout.generator for step in read_ledger(folder).steps for group in read_step(folder, step)[0]}
