"""What tests of `millrace import` share: made rows and configurations of verl's shape, and two steps of an imported run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.forked_roles import forked_roles
from tests.support.paths import ROOT
from tests.support.redis_servers import RedisServer

ROWS = 24
MILLRACE = (
    sys.executable,
    "-P",
    "-m",
    "tools.main",
)  # as the console script, whose own folder is first on the path
TWO_STEPS_S = 150.0
# What stands in the place of their model and their GPUs; everything else of the run is what was imported.
TINY = (
    f"model.path={ROOT / 'config/recipes/demo_model'}",
    "model.dtype=float32",
    "generators.engine={type: hf, batch_groups: 4, threads: 1}",
    "generators.gpus=[]",
    "generators.count=1",
    "generators.groups_in_flight=4",
    "learner.gpus=[]",
    "learner.ranks=1",
    "learner.threads=1",
    "learner.zero={stage: 1, offload_weights: false, offload_optimizer: false}",
    "learner.gradient_checkpointing=false",
    "learner.loggers=[{type: metrics_file}]",
    "learner.groups_per_step=4",
    "learner.mini_batches=1",
    "learner.steps=2",
    "sampling.group_size=2",
    "sampling.max_tokens=8",
    "evaluation.prompts=2",
    "scorers.workers=1",
)


def verl_rows(source: str = "openai/gsm8k", *, count: int = ROWS, **extra: Any) -> list[dict[str, Any]]:
    """Return rows as verl's own scripts write them."""
    return [
        {
            "data_source": source,
            "prompt": [{"role": "user", "content": f"{number} + 1?"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(number + 1)},
            "extra_info": {"index": number, "split": "train", "question": f"{number} + 1?", **extra},
        }
        for number in range(count)
    ]


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def variables(folder: Path, **environment: str) -> dict[str, str]:
    """Return the environment of a command in a folder, on a machine without a GPU and without a hub."""
    return {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "XDG_STATE_HOME": str(folder / "state"),
        **environment,
    }


def millrace(
    *words: str, folder: Path, timeout_s: float = 200.0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Type a command of `millrace` in a folder."""
    return subprocess.run(
        [*MILLRACE, *words],
        cwd=folder,
        env=variables(folder, **environment),
        text=True,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )


def two_steps(
    run: Path, *words: str, name: str, has_agents: bool = False, **environment: str
) -> list[dict[str, Any]]:
    """Train two steps of a run with the tiny model in place of its own, and return their metrics."""
    settings = [*TINY, f"name={name}", "runs_dir=runs", *words]
    redis = RedisServer(run.parent)
    try:
        with forked_roles(run.parent, variables(run.parent, REDIS_URL=redis.url, **environment)) as roles:
            roles.start("learner.__main__", "--config", run.name, *settings, name="learner")
            roles.start("generators.__main__", "--run", name, name="generators")
            if has_agents:
                roles.start("agents.__main__", "--run", name, name="agents")
            for part in ("dispatcher", "worker"):
                roles.start("scorers.__main__", "--run", name, "--part", part, name=part)
            roles.wait("learner", TWO_STEPS_S)
    finally:
        redis.kill()
    metrics = (run.parent / "runs" / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [step for step in map(json.loads, metrics) if "reward_mean" in step]
