"""A policy whose weights are a hash of all that it was ever given: any difference in any step shows for ever."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from config.learner import LearnerConfig
from learner.training.batch import Batch
from tests.support.chain import TextWeights


class HashPolicy:
    """Enough of `learner.training.engines.deepspeed.DeepSpeedBackend` to be checkpointed and replayed."""

    pads = False

    def __init__(self, seed: str = "model") -> None:
        self.weights = hashlib.sha256(seed.encode()).hexdigest()
        self.steps: list[tuple[int, LearnerConfig | None]] = []  # (version, settings) of each
        self.rows: list[int] = []  # of each step's batch

    def step(self, batch: Batch, learner: LearnerConfig | None = None) -> dict[str, float]:
        settings = None if learner is None else learner.model_dump_json(include={"objective", "optimizer"})
        text = f"{self.weights} {settings} {hashlib.sha256(batch.to_bytes()).hexdigest()}"
        self.weights = hashlib.sha256(text.encode()).hexdigest()
        self.steps.append((batch.policy_version, learner))
        self.rows.append(batch.num_micro_batches)
        return {}

    def gather_weights(self) -> TextWeights:
        return TextWeights(self.weights)

    def save_checkpoint(self, folder: Path, state: dict[str, Any]) -> None:
        folder.mkdir(parents=True)
        (folder / "state.json").write_text(json.dumps({"weights": self.weights, "state": state}))

    def save_model(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "weights").write_text(self.weights)

    def load_checkpoint(self, folder: Path) -> dict[str, Any]:
        content = json.loads((folder / "state.json").read_text())
        self.weights = content["weights"]
        state: dict[str, Any] = content["state"]
        return state
