"""Two kills of each role in one run with the fake engine and the real learner: nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.proofs.chaos import ROLES, WITH_AGENTS, WITH_OWN_AGENTS
from broker.processes import stop
from tests.conftest import ROOT

pytestmark = pytest.mark.process


@pytest.mark.prove
@pytest.mark.parametrize(
    ("roles", "played_by"),
    [(ROLES, []), (WITH_AGENTS, ["--agents"]), (WITH_OWN_AGENTS, ["--own-agents"])],
    ids=["answers", "episodes", "own agents"],
)
def test_two_kills_of_each_role_lose_nothing_and_double_nothing(
    roles: tuple[str, ...], played_by: list[str], tmp_path: Path
) -> None:
    table = tmp_path / "kills.jsonl"
    kills = ",".join(f"{role}=2" for role in roles)
    words = ["--kills", kills, "--name", "stormy", "--every-s", "0.5", *played_by]
    words += ["--out", str(tmp_path), "--table", str(table)]
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "benchmarks.proofs.chaos_batch", *words]
        variables = {**os.environ, "OMP_NUM_THREADS": "1"}
        batch = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=variables)
    try:
        code = batch.wait(240)
    finally:
        stop(batch, 5)
    said = (tmp_path / "log").read_text()
    assert code == 0, said[-8000:]
    *killed, end = [json.loads(line) for line in table.read_text().splitlines()]
    assert sorted(row["role"] for row in killed) == sorted(roles * 2)
    assert [(row["lost"], row["twice"]) for row in [*killed, end]] == [(0, 0)] * (2 * len(roles) + 1)
    assert end["trained"] == 8 * end["steps"] > 0
    assert (end["in_flight"], end["issued"]) == (0, end["trained"] + end["dropped"] + end["dead"])
    assert "going_on" in said, "a killed learner went on from its journal"
