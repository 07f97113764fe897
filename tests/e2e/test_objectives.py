"""Whole runs with more than a plain loss: they train, their audit is clean, and their journal trains again bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker.private_redis import addresses
from learner.reporting.metrics_file import read_metrics
from tests.support.paths import ROOT

pytestmark = pytest.mark.e2e

STEPS = 5
KL = "learner.objective={kl: {coef: 0.01, target: 0.05, horizon: 2000}}"
LORA = (KL, "learner.optimizer.lr=1e-3")
DECOUPLED = (
    "{type: decoupled_ppo, aggregate: sequence, correction: {rollout_is: token, rollout_rs: [token_k1]}}"
)
RUNS = {
    "kl-in-the-loss": [KL],
    "kl-in-the-reward": ["learner.objective={kl: {coef: 0.01, place: reward, estimator: k1, target: 0.05}}"],
    "lora": ["learner.lora={rank: 8, alpha: 16}", *LORA],
    "lora-alone": ["learner.lora={rank: 8, alpha: 16, publish: adapter}", *LORA],
    "decoupled": [
        f"learner.objective={DECOUPLED}",
        "learner.mini_batches=2",
        "learner.weights.type=relay",  # whose deltas are those of several files
        "learner.shard_bytes=300000",
    ],
}


def millrace(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.main", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.prove
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.timeout(600)
def test_a_run_trains_is_audited_and_is_trained_again_bit_for_bit(name: str, tmp_path: Path) -> None:
    settings = [f"name={name}", f"runs_dir={tmp_path}", f"learner.steps={STEPS}"]
    settings += ["learner.checkpoint.every=2", "evaluation.every=0"]
    try:
        done = millrace("up", "config/recipes/demo_cpu.yaml", "--plain", *settings, *RUNS[name])
        assert done.returncode == 0, done.stdout + done.stderr
        assert millrace("audit", name, "--runs-dir", str(tmp_path)).returncode == 0
        metrics = read_metrics(tmp_path / name)
        assert [line["step"] for line in metrics] == list(range(1, STEPS + 1))
        if name == "decoupled":
            assert all("rejected_fraction" in line for line in metrics)
        else:
            assert metrics[0]["reference_kl"] == pytest.approx(0, abs=1e-6)
            assert metrics[-1]["reference_kl"] != pytest.approx(0, abs=1e-6)
            assert metrics[-1]["kl_coef"] != 0.01  # it follows the divergence
        adapter = tmp_path / name / "model/adapter/adapter_model.safetensors"
        assert adapter.is_file() == name.startswith("lora")
        assert metrics[0]["mismatch_kl"] < 1e-6
        again = millrace("replay", name, "--runs-dir", str(tmp_path))
        expected = f"steps {STEPS}: ok {STEPS}, differs 0, not compared 0, missing 0"
        assert expected in again.stdout, again.stdout
    finally:
        addresses.discard(tmp_path / name)
