"""A learner is killed again and again: at the end each step and round has one dump, and it is what the journal says."""

from __future__ import annotations

import json
import random
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from config.loading import from_yaml
from learner.journal.ledger import read_ledger, read_step
from learner.journal.records import step_number
from learner.journal.untrained import EVALUATED
from learner.reporting.dumps.rows import verl_rows
from learner.reporting.dumps.writer import decoder_of
from tests.e2e.conftest import Roles
from tools.journal.rows import JournalReader

pytestmark = pytest.mark.e2e

STEPS, KILLS = 24, 4
SETTINGS = (
    f"learner.steps={STEPS}", "learner.groups_per_step=4", "sampling.group_size=2",
    "learner.filters.zero_variance=keep", "learner.checkpoint.every=5", "evaluation.every=4",
    "evaluation.prompts=4", "evaluation.samples=2", "generators.engine={type: fake, seconds_per_group: 0.05}",
    "scorers.workers=1", "broker.lease_s=2",
)  # fmt: skip


def numbered(folder: Path) -> dict[int, str]:
    """Return the text of each dump by its number; every name in the folder is that of a dump."""
    return {int(path.stem): path.read_text(encoding="utf-8") for path in folder.iterdir()}


def has_version(roles: Roles, version: int) -> bool:
    return roles.version() >= version


@pytest.mark.prove
def test_no_kill_costs_a_dump_or_writes_one_twice(roles: Roles, tmp_path: Path) -> None:
    where = {"rollouts": tmp_path / "a", "held_out": tmp_path / "b", "parquet": tmp_path / "c"}
    words = [f"learner.dumps.{key}={folder}" for key, folder in where.items()]
    others = [roles.generator(), roles.scorers()]
    chance = random.Random(7)
    for kill in range(KILLS):
        learner = roles.learner(*SETTINGS, *words)
        aim = STEPS * (kill + 1) // (KILLS + 2)
        roles.until(partial(has_version, roles, aim), f"version {aim}")
        time.sleep(chance.random() * 0.5)
        learner.send_signal(signal.SIGKILL)
        roles.wait(learner)
    seen = {path: path.stat().st_ino for path in (tmp_path / "a").glob("[0-9]*")}
    learner = roles.learner(*SETTINGS, *words)
    assert [roles.wait(process) for process in (learner, *others)] == [0, 0, 0], roles.all_logs()
    assert {path: path.stat().st_ino for path in seen} == seen  # none was written again
    assert "dump_not_written" not in roles.all_logs()

    run = from_yaml((roles.folder / "config.yaml").read_bytes())
    decode, ledger = decoder_of(run), read_ledger(roles.folder / "journal")
    dumped = numbered(tmp_path / "a")
    assert sorted(dumped) == list(range(1, STEPS + 1))
    for record in ledger.steps:
        groups, _ = read_step(roles.folder / "journal", record)
        rows = verl_rows(step_number(record), groups, decode)
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        assert dumped[step_number(record)] == "".join(lines)
    assert len(list((tmp_path / "c" / "train").iterdir())) == STEPS
    untrained = JournalReader(roles.folder, ledger).untrained()
    came_back = {found.step for found in untrained if found.outcome == EVALUATED}
    assert numbered(tmp_path / "b").keys() == came_back == ledger.evaluations.keys()
