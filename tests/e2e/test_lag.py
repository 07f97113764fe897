"""Lag is bounded exactly, however unequal the generators are.

`make prove-lag` runs the longer form, and sets LAG_REPORT: a file that gets a JSON object of what came of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from broker.control import DRAIN
from tests.e2e.conftest import Roles

SLOW = Path(__file__).with_name("slow_generator.py")


STEPS = 12
STOPPED_S, DEADLINE_S = 60.0, 90.0      # of a generator in the longer form, which `make prove-lag` runs


def start(roles: Roles, folder: Path, max_lag: int, *generators: float, steps: int) -> list[subprocess.Popen[bytes]]:
    """The learner, then generators that take so many seconds for a group, then scorers."""
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"question": f"What is {n} - {n - 1}?", "answer": "1"}) + "\n"
                            for n in range(200)))
    learner = roles.learner(
        "data.train={type: dataset, path: " + str(rows) + ", prompt_template: '{question}', answer_column: answer}",
        "data.held_out=", "evaluation.every=0", f"learner.steps={steps}", "learner.groups_per_step=4",
        f"learner.max_lag={max_lag}", "sampling.group_size=2", "generators.groups_in_flight=1",
        "learner.checkpoint.every=0", f"learner.group_deadline_s={DEADLINE_S:g}")
    started = [roles.start("generators", roles.name, str(seconds), command=(sys.executable, str(SLOW)),
                           environment={"PYTHONPATH": str(Path(__file__).parents[2])}) for seconds in generators]
    roles.scorers()
    return [learner, *started]


def test_a_generator_twenty_times_slower_never_pushes_a_token_beyond_max_lag(roles: Roles, tmp_path: Path) -> None:
    learner, *_ = start(roles, tmp_path, 1, 0.1, 2.0, steps=STEPS)
    assert roles.wait(learner) == 0, roles.all_logs()
    records = roles.metrics()
    assert len(records) == STEPS
    assert max(record["lag_max"] for record in records) == 1, "the bound was put to use"
    samplers = _samplers(roles)
    assert len(samplers) == 2, f"both generators' groups were trained on: {samplers}"
    assert roles.audit().is_clean


@pytest.mark.skipif("LAG_REPORT" not in os.environ, reason="two minutes each: make prove-lag")
@pytest.mark.parametrize("max_lag", [0, 1, 4])
@pytest.mark.timeout(500)
def test_nor_does_one_that_stands_still_for_a_minute_and_nobody_waits_beyond_the_deadline(
        roles: Roles, tmp_path: Path, max_lag: int) -> None:
    learner, _, _, stopped = start(roles, tmp_path, max_lag, 0.1, 2.0, 0.1, steps=5000)
    roles.until(lambda: roles.version() >= 4, "the fourth step")
    stopped.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED_S)
    stopped.send_signal(signal.SIGCONT)
    version = roles.version()
    roles.until(lambda: roles.version() >= version + 4, "four more steps")
    roles.redis.hset(roles.keys("run"), "wanted", DRAIN)
    assert roles.wait(learner) == 0, roles.all_logs()
    records = roles.metrics()
    lag = max(record["lag_max"] for record in records)
    longest = max(record["seconds"] for record in records[1:])
    audit = roles.audit()
    Path(os.environ["LAG_REPORT"]).write_text(json.dumps({
        "max_lag": max_lag, "steps": len(records), "lag": lag, "step_s": longest, "deadline_s": DEADLINE_S,
        "wait_s": max(record["seconds_wait"] for record in records[1:]), "lost": audit.lost, "twice": audit.twice}))
    assert lag <= max_lag
    assert longest <= DEADLINE_S
    assert len(_samplers(roles)) == 3
    assert audit.is_clean


def _samplers(roles: Roles) -> set[str]:
    from learner.ledger import read_ledger, read_step
    folder = roles.folder / "journal"
    return {group.rollout.generator for step in read_ledger(folder).steps for group in read_step(folder, step)[0]}
