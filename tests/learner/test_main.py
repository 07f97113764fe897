"""`python -m learner` as its own processes, where there is nothing to train."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.connection import Link
from broker.keys import Keys
from broker.ownership import Ownership
from config.loading import to_yaml
from learner.journal import Journal
from learner.status import Status, read_status
from tests.conftest import ROOT
from tests.learner.chain import make_prompt, make_run, make_scored


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_finished_run_whose_folder_has_lost_its_status_is_done_for_every_rank_at_once(
        ranks: int, link: Link, keys: Keys, tmp_path: Path) -> None:
    run = make_run(tmp_path, learner={"steps": 1, "ranks": ranks, "device": "cpu"})
    ownership = Ownership(link, keys)
    journal = Journal(run.folder / "journal", ownership.claim(0), run=run.name, facts={"start": None})
    journal.append(0, [make_scored(make_prompt("0"), [1.0, 0.0])], [[0.5, -0.5]], weights="w")
    journal.close()
    link.client.hset(keys("run"), "version", 1)
    Status(run, link, keys, ownership).end("finished", "", 1)
    (run.folder / "status.json").unlink()
    config = tmp_path / "run.yaml"
    config.write_text(to_yaml(run))
    words = [sys.executable, "-m", "learner", "--config", str(config)]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, "REDIS_URL": link.url}, check=False, capture_output=True,
                          text=True, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count("run test is finished; its model is in") == ranks
    assert "ranks stayed" not in said
    found = read_status(run.folder)
    assert (found["status"], int(found["version"])) == ("finished", 1)
