"""The seam between the passes of a step and an engine, which holds the model and its optimizer on all ranks.

In: micro-batches, losses, settings. Out: log-probabilities, gradients applied, weights, the engine's part of a
checkpoint. Every rank calls each method at the same time: most are collectives.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from config.learner import LearnerConfig
from learner.training.gathered_weights import HostBuffers
from learner.training.micro_batch import MicroBatch


class Engine(Protocol):
    """A model with its optimizer.

    Attributes:
        rank: of this process among `world_size`.
        ranks_of_a_row: ranks that share each row, and so a shard.
        model: the transformers model, for the names of its weights on disk.
    """

    rank: int
    world_size: int
    ranks_of_a_row: int
    device: torch.device
    model: Any

    @property
    def vocabulary(self) -> int:
        """The number of tokens in the model's embedding."""
        ...

    @property
    def pads(self) -> bool:
        """Whether the model may run on padded rows."""
        ...

    @property
    def loss_scale(self) -> float:
        """The factor of the loss in float16, so that small gradients do not underflow; 1 in other types."""
        ...

    def restore_loss_scale(self, scale: float) -> None:
        """Set the factor back, after a gradient that was finite at no scale."""
        ...

    def configure(self, settings: LearnerConfig, rate: float) -> None:
        """Set what the next step uses: the optimizer's parameters with the learning rate, and the loss's needs."""
        ...

    def evaluate(self, part: MicroBatch) -> tuple[Tensor, Tensor]:
        """Return the log-probability and the entropy of each token, [T] nats, without a gradient."""
        ...

    def forward(self, part: MicroBatch, *, is_last: bool) -> tuple[Tensor, Tensor]:
        """Return the same with a gradient.

        Args:
            is_last: whether the gradient is complete after this micro-batch.
        """
        ...

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of a loss that is already divided by the tokens of all ranks."""
        ...

    def apply(self) -> tuple[float, bool]:
        """Clip and step, unless the gradient is not finite.

        Returns:
            The norm before clipping, and whether the weights changed.
        """
        ...

    def gather(
        self, wanted: Callable[[str], bool] = lambda _: True, *, copies: HostBuffers | None = None
    ) -> dict[str, Tensor]:
        """Gather every weight and saved buffer by name, on rank 0's CPU, tied ones once; nothing on the other ranks.

        Args:
            wanted: the names to gather.
            copies: buffers to copy the weights to, unaffected by later steps; None: the result may share the model's
                memory.
        """
        ...

    def save(self, folder: Path) -> None:
        """Write this rank's part of a checkpoint: weights and optimizer."""
        ...

    def load(self, folder: Path) -> None:
        """Continue from a part that `save` wrote."""
        ...

    def close(self) -> None:
        """Free the model."""
        ...
