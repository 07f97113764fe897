"""`millrace chaos CONFIG --minutes N`, as it is typed: a whole run meets every kind of disturbance, and is drained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from broker.processes import spawn, stop
from tests.e2e.conftest import DEMO
from tests.support.chaos_report import OWN
from tests.support.paths import ROOT
from tools.audit.sums import Audit
from tools.chaos.targets import ROLES

pytestmark = pytest.mark.e2e

SECONDS = 42.0  # of disturbances, one in two: each of the sixteen comes once before any comes twice
LIMIT_S = 200.0  # a run that is not drained by then hangs
# The others need a heartbeat or a step: not under any load.
SURE = {f"{what} {role}" for role in ("generator", "pool") for what in ("kill", "kill_tree")}
SURE |= {"stop generator", "stop learner", "kill redis", "restart redis", "cut redis"}
LEASE_S = 1.5  # whoever is stopped stands still for 1.2 to 2 of these
WORDS = (
    "name=stormy", "evaluation.every=0", "data.held_out=", "sampling.group_size=2", "sampling.max_tokens=16",
    "generators.engine={type: fake, answers: ['\\boxed{1}', '\\boxed{2}'], seconds_per_group: 0.2}",
    "generators.groups_in_flight=4", "learner.groups_per_step=4", "learner.max_lag=2",
    "learner.samples_every=0", "learner.checkpoint.every=5", f"broker.lease_s={LEASE_S:g}",
    "broker.max_attempts=8",
)  # fmt: skip


@pytest.mark.prove
def test_a_run_under_every_kind_of_disturbance_is_drained_after_the_minutes_and_its_audit_is_clean(
    tmp_path: Path,
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "".join(json.dumps({"question": f"What is {n} - {n - 1}?", "answer": "1"}) + "\n" for n in range(500))
    )
    source = {
        "type": "dataset",
        "path": str(rows),
        "prompt_template": "{question}",
        "answer_column": "answer",
    }
    words = ["chaos", str(DEMO), "--minutes", str(SECONDS / 60), "--every", "2", "--seed", "1", "--json"]
    words += [f"runs_dir={tmp_path / 'runs'}", f"data.train={json.dumps(source)}", *WORDS]
    variables = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    with (tmp_path / "out").open("wb") as out, (tmp_path / "log").open("wb") as log:
        command = spawn(
            [sys.executable, "-m", "tools.main", *words],
            cwd=ROOT,
            stdout=out,
            stderr=log,
            env={**variables, "OMP_NUM_THREADS": "1"},
        )
        try:
            code = command.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            stop(command, 5)
    said = (tmp_path / "log").read_text(errors="replace")
    assert code == 0, said[-12000:]
    found = json.loads((tmp_path / "out").read_text())
    assert found.keys() == OWN | {field.name for field in fields(Audit)}
    assert found["disturbances"].keys() >= SURE
    assert found["kills"].keys() == set(ROLES)
    assert (found["lost"], found["twice"], found["problems"]) == (0, 0, []), found
    assert found["steps"] > 0
    # The last step of a drained run takes what is there.
    assert 0 <= 4 * found["steps"] - found["trained"] < 4
    assert (found["in_flight"], found["issued"]) == (0, found["trained"] + found["dropped"] + found["dead"])
    assert (found["exit_code"], found["reason"], found["run"], found["seed"]) == (0, "", "stormy", 1)
    assert found["seconds"] > SECONDS, "the minutes ended it"
    assert "chaos over" in said
