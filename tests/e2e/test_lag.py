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
from typing import Any

import pytest

from broker.keys import GROUP
from broker.protocol.run_state import DRAIN
from learner.journal.ledger import read_ledger, read_step
from tests.e2e.conftest import Roles
from tests.support.paths import ROOT

pytestmark = pytest.mark.e2e

SLOW = ROOT / "tests" / "support" / "slow_generator.py"


STEPS = 12
LEASE_S = 120.0  # longer than anybody stands still: nobody takes over what the stopped one holds
STOPPED_S = 60.0  # in the longer form, which `make prove-lag` runs
DEADLINE_S = (
    30.0  # of a group: half of that, so that it is the deadline that ends the wait, and not the SIGCONT
)
LEAST_WAIT_S = 15.0  # a longest wait below that would say that nobody had to wait for the stopped one
SLOW_S = 2.0  # that the slow generator takes for a group
LOOK_S = 2.0  # between two reconciliations with that deadline, with the read before: they notice it
SCORE_S = 3.0  # for the group that comes in the dead one's stead to be issued, scored and read
MOST_WAIT_S = DEADLINE_S + LOOK_S + SLOW_S + SCORE_S


def start(
    roles: Roles,
    folder: Path,
    max_lag: int,
    *generators: float,
    steps: int,
    deadline_s: float = 90.0,
    lease_s: float = 6.0,
) -> list[subprocess.Popen[bytes]]:
    """Start the learner, then generators that take so many seconds for a group, then scorers."""
    rows = folder / "rows.jsonl"
    rows.write_text(
        "".join(json.dumps({"question": f"What is {n} - {n - 1}?", "answer": "1"}) + "\n" for n in range(200))
    )
    source = {
        "type": "dataset",
        "path": str(rows),
        "prompt_template": "{question}",
        "answer_column": "answer",
    }
    learner = roles.learner(
        f"data.train={json.dumps(source)}", "data.held_out=", "evaluation.every=0", f"learner.steps={steps}",
        "learner.groups_per_step=4", f"learner.max_lag={max_lag}", "sampling.group_size=2",
        "generators.groups_in_flight=1", "learner.checkpoint.every=0",
        f"learner.group_deadline_s={deadline_s:g}", f"broker.lease_s={lease_s:g}",
    )  # fmt: skip
    how: Any = {"command": (sys.executable, str(SLOW)), "environment": {"PYTHONPATH": str(ROOT)}}
    started = [roles.start("generators", roles.name, str(seconds), **how) for seconds in generators]
    roles.scorers()
    return [learner, *started]


@pytest.mark.prove
def test_a_generator_twenty_times_slower_never_pushes_a_token_beyond_max_lag(
    roles: Roles, tmp_path: Path
) -> None:
    learner, *_ = start(roles, tmp_path, 1, 0.1, SLOW_S, steps=STEPS)
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
    roles: Roles, tmp_path: Path, max_lag: int
) -> None:
    learner, _, _, stopped = start(
        roles, tmp_path, max_lag, 0.1, SLOW_S, 0.1, steps=5000, deadline_s=DEADLINE_S, lease_s=LEASE_S
    )
    roles.until(lambda: roles.version() >= 4, "the fourth step")
    roles.until(lambda: _stops_with_a_group(roles, stopped), "a group in the stopped one's hands")
    time.sleep(STOPPED_S)
    assert _held(roles, stopped) == 0, "what it held was given up meanwhile"
    stopped.send_signal(signal.SIGCONT)
    version = roles.version()
    roles.until(lambda: roles.version() >= version + 4, "four more steps")
    roles.redis.hset(roles.keys("run"), "wanted", DRAIN)
    assert roles.wait(learner) == 0, roles.all_logs()
    records = roles.metrics()
    lag = max(record["lag_max"] for record in records)
    wait = max(record["seconds_wait"] for record in records[1:])
    audit = roles.audit()
    report = {"max_lag": max_lag, "steps": len(records), "lag": lag, "deadline_s": DEADLINE_S}
    report |= {"wait_s": wait, "least_wait_s": LEAST_WAIT_S, "most_wait_s": MOST_WAIT_S}
    report |= {"dead": audit.dead, "lost": audit.lost, "twice": audit.twice}
    Path(os.environ["LAG_REPORT"]).write_text(json.dumps(report))
    assert min(max_lag, 1) <= lag <= max_lag, "bounded, and the bound was put to use"
    assert LEAST_WAIT_S < wait <= MOST_WAIT_S
    assert audit.dead == 1, "the group of the stopped one, and no other"
    assert len(_samplers(roles)) == 3
    assert audit.is_clean


def _stops_with_a_group(roles: Roles, generator: subprocess.Popen[bytes]) -> bool:
    """Stop a generator. False: it had just handed over what it held, and goes on."""
    generator.send_signal(signal.SIGSTOP)
    time.sleep(0.2)  # for a hand-over that was under way
    if _held(roles, generator):
        return True
    generator.send_signal(signal.SIGCONT)
    return False


def _held(roles: Roles, generator: subprocess.Popen[bytes]) -> int:
    """Prompts that a `slow_generator` holds a lease of."""
    name = f"slow-{generator.pid}"
    return len(roles.redis.xpending_range(roles.keys("prompts"), GROUP, "-", "+", 10, name))


def _samplers(roles: Roles) -> set[str]:
    folder = roles.folder / "journal"
    steps = (read_step(folder, step)[0] for step in read_ledger(folder).steps)
    return {group.rollout.generator for groups in steps for group in groups}
