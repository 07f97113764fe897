"""A toy of each of the learner's seams, and of the generators' receiver, in one file outside the packages: what a researcher writes to add one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from broker.messages import Announcement
from broker.weight_files import FILE
from config.learner import LearnerConfig
from config.run import Run
from generators.weight_sync.receiver import Received
from learner.objective.build import build_objective
from learner.objective.objective import Loss, TokenBatch
from learner.training.backend import Differences
from learner.training.batch import Batch
from learner.weight_sync.transport import Placed, SavedWeights, WeightHandle
from tests.support.differences import no_differences


class ToyObjective:
    """The plain policy gradient on what was better than its group, without any ratio."""

    def __init__(self, scale: float = 1.0) -> None:
        self._scale = scale

    def loss(self, tokens: TokenBatch) -> Loss:
        better_T = torch.where(tokens.loss_mask_T, tokens.advantages_T, 0.0).clamp(min=0.0)
        gain_T = better_T * tokens.logprobs_T
        return Loss(
            value=-self._scale * gain_T.sum() / tokens.num_tokens,
            sums={"toy_gain": gain_T.detach().sum()},
            maxima={"toy_largest": better_T.max()},
        )


class ToyWeights:
    """Gathered weights that are bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def save_weights(self, folder: Path) -> SavedWeights:
        (folder / FILE).write_bytes(self._content)
        return SavedWeights.of(folder)


class ToyBackend:
    """A model of one logit a token, on one rank, trained by hand."""

    vocabulary = 100
    pads = False

    def __init__(self, run: Run, rank: int, world_size: int, rate: float = 0.1) -> None:
        assert (rank, world_size) == (0, 1)
        self._run = run
        self._rate = rate
        self._logits_V = torch.zeros(self.vocabulary, requires_grad=True)

    def step(self, batch: Batch, learner: LearnerConfig | None = None) -> dict[str, float]:
        logprobs_V = self._logits_V.log_softmax(-1)
        tokens = TokenBatch(
            logprobs_T=logprobs_V[torch.tensor(batch.token_ids).long()],
            entropy_T=torch.zeros(len(batch.token_ids)),
            sampled_logprobs_T=torch.tensor(batch.sampled_logprobs),
            advantages_T=torch.tensor(batch.advantages),
            loss_mask_T=torch.tensor(batch.loss_mask),
            lags_T=torch.tensor(batch.lags),
            position_ids_T=torch.tensor(batch.position_ids),
            num_tokens=max(1, batch.num_tokens),
        )
        loss = build_objective((learner or self._run.learner).objective).loss(tokens)
        (gradient_V,) = torch.autograd.grad(loss.value, self._logits_V)
        with torch.no_grad():
            self._logits_V -= self._rate * gradient_V
        named = {name: float(value) for name, value in {**loss.sums, **loss.maxima}.items()}
        return {"loss": loss.value.item(), "tokens": float(batch.num_tokens), "seconds": 0.0, **named}

    def divergences(self, batch: Batch) -> list[float]:
        return [0.0] * len(batch.prompts)  # it is its own reference

    def differences(self, batch: Batch) -> Differences:
        return no_differences(batch)

    def gather_weights(self) -> ToyWeights:
        return ToyWeights(self._logits_V.detach().numpy().astype(np.float32).tobytes())

    def save_checkpoint(self, folder: Path, state: dict[str, Any]) -> None:
        folder.mkdir(parents=True)
        self.gather_weights().save_weights(folder)
        (folder / "state.json").write_text(json.dumps({"fits": {}, "state": state}))

    def load_checkpoint(self, folder: Path) -> dict[str, Any]:
        found = np.frombuffer((folder / FILE).read_bytes(), np.float32)
        self._logits_V = torch.tensor(found, requires_grad=True)
        state: dict[str, Any] = json.loads((folder / "state.json").read_text())["state"]
        return state

    def save_model(self, folder: Path) -> None:
        folder.mkdir(parents=True)

    def keep_alive(self) -> None:
        """There are no other ranks."""

    def close(self) -> None:
        """There is nothing to let go of."""

    def follow(self) -> None:
        """There are no other ranks."""


class ToyTransport:
    """Versions as files in a drop folder; its announcements name them."""

    def __init__(self, run: Run, drop: str) -> None:
        self._drop = Path(drop)
        self.said: list[int] = []

    def start(self) -> None:
        self._drop.mkdir(parents=True)

    def put(self, weights: WeightHandle, version: int) -> Placed:
        folder = self._drop / f"version-{version}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        saved = weights.save_weights(folder)
        return Placed(path=str(folder), checksum=saved.checksum, size_bytes=saved.size_bytes)

    def announced(self, announcement: Announcement) -> None:
        self.said.append(announcement.version)

    def close(self) -> None:
        (self._drop / "closed").touch()


class ToyReceiver:
    """The other end of the drop folder: it looks for a version under the folder's name on this machine."""

    is_slow = False

    def __init__(self, run: Run, drop: str) -> None:
        self._drop = Path(drop)
        self.received: list[int] = []

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        newest = announced[0]
        return Received(version=newest.version, files=(self._drop / Path(newest.path).name / FILE,))

    def loaded(self, received: Received) -> None:
        self.received.append(received.version)

    def close(self) -> None:
        (self._drop / "receiver closed").touch()


class ToyLogger:
    """A file of its own; with `broken`, a logger that always fails."""

    def __init__(self, run: Run, file: str, *, broken: bool = False) -> None:
        self._file = Path(file)
        self._broken = broken

    def log(self, record: Mapping[str, Any]) -> None:
        if self._broken:
            raise ConnectionError("the tracker is away")
        with self._file.open("a") as stream:
            stream.write(json.dumps(dict(record)) + "\n")

    def sample(self, record: Mapping[str, Any]) -> None:
        """Samples are not kept."""

    def close(self) -> None:
        """The file is closed after each line."""
