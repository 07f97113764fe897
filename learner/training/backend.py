"""The seam between the learner's loop and the training backend, which holds the model and its optimizer.

In: packed batches, one per optimizer step. Out: metrics, weights for the generators, checkpoints. Rank 0 calls the
methods. The other ranks are in `follow`, and each method runs on all ranks at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from config.learner import LearnerConfig
from learner.training.batch import Batch
from learner.weight_sync.transport import WeightSource

MISMATCH_KL = "mismatch_kl"  # metric: mean k3, nats, over tokens of lag 0
MISMATCH_MAX = "mismatch_max"  # metric: the largest difference of a log-probability on these tokens, nats
OF = "@"  # separates a metric's name from its generator's
# Upper ends of the bins of the importance ratio. The metric `ratio_bin@N` is the number of tokens in bin N.
RATIO_EDGES = (0.1, 0.25, 0.5, 0.8, 0.9, 0.95, 0.99, 1.01, 1.05, 1.1, 1.25, 2.0, 4.0, 10.0)
RATIO_BIN = "ratio_bin"
SKIPPED = "skipped"  # metric of a step: 1 where the gradient was not finite and the weights are unchanged


@dataclass(frozen=True, slots=True)
class Differences:
    """The difference between the sampler's log-probabilities and the learner's, for each completion of a batch."""

    largest: NDArray[np.float64]  # [S], over its tokens, nats; infinite where one side is not finite
    k3: NDArray[np.float64]  # [S], divergence summed over its tokens, nats
    tokens: NDArray[np.int64]  # [S]


class HoldsState(Protocol):
    """The part of a backend that a checkpoint needs: saving and loading state, and exporting weights."""

    def save_checkpoint(self, folder: Path, state: dict[str, Any]) -> None:
        """Write everything that training continues from; every rank must see the folder.

        Args:
            folder: made if missing; the caller makes it durable, seals and renames it.
            state: the caller's own, JSON; `load_checkpoint` returns it.
        """
        ...

    def load_checkpoint(self, folder: Path) -> dict[str, Any]:
        """Continue from a checkpoint.

        Raises:
            RunFailed: the folder holds no complete checkpoint, or one that does not fit this backend.
        """
        ...

    def save_model(self, folder: Path) -> None:
        """Write a folder that transformers and vLLM load."""
        ...


class TrainingBackend(WeightSource, HoldsState, Protocol):
    """A model with its optimizer on all ranks, controlled by rank 0."""

    @property
    def vocabulary(self) -> int:
        """The number of tokens in the model's embedding."""
        ...

    @property
    def pads(self) -> bool:
        """Whether the model may run on padded sequences: a micro-batch should then hold sequences of similar length."""
        ...

    def step(self, batch: Batch, learner: LearnerConfig | None = None) -> dict[str, float]:
        """Take one optimizer step on a batch.

        The gradient is that of the mean over the trained tokens of the whole batch, whatever the number of ranks and
        micro-batches. A batch in which nothing trains makes a step with a gradient of zero. A gradient that is not
        finite leaves weights and optimizer unchanged, on all ranks, and the metrics have `skipped`: the same batch on
        the same weights is skipped again when a journal is replayed.

        Args:
            batch: the step's batch.
            learner: settings whose objective and optimizer to use, for a step of an earlier incarnation of the learner;
                None: the run's.
        Returns:
            Finite numbers: the metrics of `StepStatistics`, `grad_norm` before clipping, `lr`, `skipped`, and
            `seconds` on this rank.
        """
        ...

    def divergences(self, batch: Batch) -> list[float]:
        """Return each completion's divergence to the reference model, summed over its tokens, nats.

        The weights do not change. Called only where `learner.objective.kl.place` is `reward`.

        Args:
            batch: the completions; its order of completions is the order of the result.
        """
        ...

    def differences(self, batch: Batch) -> Differences:
        """Compare the sampler's log-probabilities with the learner's, in a pass without a gradient.

        The weights do not change. Called for the first groups of a run, before its first step.

        Args:
            batch: the completions, all of them in the mask.
        """
        ...

    def keep_alive(self) -> None:
        """Keep the other ranks' wait from timing out; called every half minute while rank 0 waits."""
        ...

    def close(self) -> None:
        """Free the model on all ranks, and end the other ranks' `follow`."""
        ...

    def follow(self) -> None:
        """Execute rank 0's calls until it closes. The other ranks call only this."""
        ...
