"""A whole run that is to last two epochs ends by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker.private_redis import addresses
from broker.weight_files import weight_files
from config.loading import from_yaml
from learner.journal.ledger import read_ledger
from learner.status import read_status
from learner.weight_sync.version_folder import folder_of
from tests.support.paths import ROOT

pytestmark = pytest.mark.e2e

ROWS = 40


def millrace(*words: str) -> str:
    command = [sys.executable, "-m", "tools.main", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_each_row_has_an_outcome_for_each_epoch_and_every_step_its_rate(tmp_path: Path) -> None:
    settings = [
        "name=epochs",
        f"runs_dir={tmp_path}",
        f"data.train.size={ROWS}",
        "learner.optimizer={schedule: linear, warmup_steps: 1}",
        "evaluation.every=0",
        "learner.shard_bytes=300000",
    ]
    command = ("up", str(recipe_without_steps(tmp_path)), "--plain", *settings)
    folder = tmp_path / "epochs"
    try:
        millrace(*command, "learner.epochs=2")
        assert (
            from_yaml((folder / "config.yaml").read_bytes(), "").learner.steps == 5
        )  # 2 x 40 rows in sixteens
        first = outcomes(folder)
        assert first == {str(number) for number in range(2 * ROWS)}
        assert len(weight_files(folder / "model")) > 1
        assert len(weight_files(folder_of(folder / "weights", 5))) > 1
        assert read_status(folder)["status"] == "finished"
        millrace("audit", "epochs", "--runs-dir", str(tmp_path))
        assert "differs 0, not compared 0, missing 0" in millrace(
            "replay", "epochs", "--runs-dir", str(tmp_path)
        )
        again = [sys.executable, "-m", "learner", "--config", *command[1:2], *settings, "learner.epochs=2"]
        done = subprocess.run(again, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "run epochs is finished" in done.stderr  # no model is loaded to find it out
    finally:
        addresses.discard(folder)


def recipe_without_steps(folder: Path) -> Path:
    lines = (ROOT / "config/recipes/demo_cpu.yaml").read_text().splitlines(keepends=True)
    recipe = folder / "recipe.yaml"
    recipe.write_text("".join(line for line in lines if not line.startswith("  steps:")))
    return recipe


def outcomes(folder: Path) -> set[str]:
    """The groups that were trained or dropped."""
    ledger = read_ledger(folder / "journal")
    return set(ledger.outcomes) | {group_id for record in ledger.steps for group_id in record["ids"]}
