"""Sections of the training backend: optimizer, adapters, partitioning and checkpoints.

A new backend is one section here, in `BackendConfig`, one engine in `learner/training/engines/`, and one case in
`learner/training/build.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from config.custom import CustomSection
from config.section import Section, default_type


class OptimizerConfig(Section):
    """AdamW with a linear warm-up and a schedule of the learning rate."""

    lr: float = Field(1e-6, gt=0)
    """Learning rate."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's decay rates."""
    eps: float = Field(1e-8, gt=0)
    """AdamW's epsilon."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's decoupled weight decay."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning rate after the warm-up: `constant`, or falling to `final_share` of it at `learner.steps`."""
    warmup_steps: int = Field(10, ge=0)
    """Steps over which the learning rate rises from 0."""
    warmup_share: float | None = Field(None, ge=0, lt=1)
    """Share of `learner.steps` to warm up over, instead of `warmup_steps`."""
    final_share: float = Field(0.0, ge=0, le=1)
    """Final learning rate as a share of `lr`, for `linear` and `cosine`."""
    grad_clip: float = Field(1.0, gt=0)
    """Clip the norm of the gradient to this."""


class LoraConfig(Section):
    """LoRA: train low-rank adapters instead of the model's weights."""

    rank: int = Field(32, ge=1)
    """Rank of each adapter."""
    alpha: int = Field(64, ge=1)
    """Scale adapters by alpha / rank."""
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Names of the layers that get adapters, such as `q_proj`. `all-linear`: every linear layer but the head."""
    publish: Literal["merged", "adapter"] = "merged"
    """`merged`: publish the merged weights. `adapter`: publish only the adapter, which each generator merges with the
    weights of `model.path` on its own machine."""
    adapter: Path | None = None
    """Folder of a PEFT adapter to start from. Unset: new adapters, which change nothing at first."""


class ZeroConfig(Section):
    """DeepSpeed ZeRO."""

    stage: Literal[0, 1, 2, 3] = 1
    """Partition over the ranks 0: nothing, 1: the optimizer state, 2: gradients too, 3: weights too."""
    offload_optimizer: bool = False
    """Keep the optimizer state in CPU memory."""
    offload_weights: bool = False
    """Keep the weights in CPU memory as well (stage 3 only)."""


class DeepSpeedConfig(Section):
    """DeepSpeed, configured by `learner.zero`."""

    type: Literal["deepspeed"] = "deepspeed"


class CustomBackendConfig(CustomSection):
    """Your own `learner.training.backend.TrainingBackend`. The class takes `run`, `rank` and `world_size`."""


BackendConfig = Annotated[
    DeepSpeedConfig | CustomBackendConfig, Field(discriminator="type"), default_type("deepspeed")
]


class CheckpointConfig(Section):
    """Checkpoints of the whole training state."""

    every: int = Field(50, ge=0)
    """Steps between two checkpoints. 0: only one, at the end."""
    keep: int = Field(2, ge=1)
    """Checkpoints to keep; older ones are deleted."""
    export: bool = False
    """Also write the weights of each checkpoint as a Hugging Face folder, `models/step-N` of the run. These are
    kept."""
