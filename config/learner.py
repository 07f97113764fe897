"""These sections say how the policy is trained: objective, backend, the weights' way to the generators, what is kept.

Four of the sections are seams, each a union of types: `objective`, `backend`, `weights` and the elements of `loggers`.
A new type is one section here, one file under `learner/`, and one case in the seam's `build.py`. The type `custom`
takes a class of your own and needs no change here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from config.custom import CustomSection
from config.section import Section, default_type


class GrpoConfig(Section):
    """GRPO with clip-higher and a token mean over the global batch; no KL term and no reference model."""

    type: Literal["grpo"] = "grpo"
    clip_low: float = Field(0.2, gt=0, lt=1)
    """No gain below a ratio of 1 - clip_low."""
    clip_high: float = Field(0.28, gt=0)
    """No gain beyond a ratio of 1 + clip_high (DAPO's clip-higher)."""
    dual_clip: float | None = Field(3.0, gt=1)
    """Bound on the loss of a token with a negative advantage, as a multiple of it; unset: no bound."""


class CustomObjectiveConfig(CustomSection):
    """A `learner.objective.objective.Objective` of your own; the class takes the options."""


ObjectiveConfig = Annotated[
    GrpoConfig | CustomObjectiveConfig, Field(discriminator="type"), default_type("grpo")
]


class AdvantageConfig(Section):
    """From rewards to advantages, within one group."""

    scale: Literal["none", "std"] = "none"
    """`none`: reward less the group's mean (Dr. GRPO). `std`: divided by the group's standard deviation (GRPO)."""


class FiltersConfig(Section):
    """Which groups train."""

    zero_variance: Literal["replace", "keep"] = "replace"
    """`replace`: a group whose rewards are all equal is dropped and another prompt takes its slot.
    `keep`: it trains (on nothing)."""
    max_empty_groups: int = Field(2000, ge=1)
    """So many variance-free groups in a row end the run, with the reason."""
    truncated: Literal["mask", "keep"] = "mask"
    """`mask`: a completion cut at `max_tokens` counts in the baseline and not in the loss.
    `keep`: it trains like others."""


class OptimizerConfig(Section):
    """AdamW with a constant learning rate after a linear warm-up."""

    lr: float = Field(1e-6, gt=0)
    """Learning rate."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's decay rates."""
    eps: float = Field(1e-8, gt=0)
    """AdamW's epsilon."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's decoupled weight decay."""
    warmup_steps: int = Field(10, ge=0)
    """Steps over which the rate rises from 0."""
    grad_clip: float = Field(1.0, gt=0)
    """Largest norm of the gradient."""


class ZeroConfig(Section):
    """DeepSpeed's partitioning."""

    stage: Literal[0, 1, 2, 3] = 1
    """0: nothing is partitioned; 1: optimizer state; 2: gradients too; 3: weights too."""
    offload_optimizer: bool = False
    """Keep the optimizer's state in the host's memory."""
    offload_weights: bool = False
    """Keep the weights there as well; stage 3 only."""


class DeepSpeedConfig(Section):
    """DeepSpeed's engine, partitioned as `learner.zero` says."""

    type: Literal["deepspeed"] = "deepspeed"


class CustomBackendConfig(CustomSection):
    """A `learner.training.backend.TrainingBackend` of your own; the class takes `run`, `rank`, `world_size`."""


BackendConfig = Annotated[
    DeepSpeedConfig | CustomBackendConfig, Field(discriminator="type"), default_type("deepspeed")
]


class FilesystemTransportConfig(Section):
    """New weights as safetensors in a folder that learner and generators share."""

    type: Literal["filesystem"] = "filesystem"
    directory: Path | None = None
    """Versions lie in DIRECTORY/NAME of the run; unset: in `weights` of the run's folder."""
    redis_max_bytes: int = Field(1_000_000_000, ge=0)
    """Largest file of weights that a generator on a machine without that folder is given through Redis, which has to
    hold it beside the groups. 0: none."""


class RelayTransportConfig(Section):
    """New weights through Redis alone: no generator looks for a folder, also none on the learner's machine."""

    type: Literal["relay"] = "relay"
    redis_max_bytes: int = Field(1_000_000_000, ge=0)
    """Largest file of weights that goes through Redis, which has to hold the file beside the groups."""


NO_RECEIVER = (
    "learner.weights.receiver is missing: the transport {} is of type custom, and generators need the class of its "
    "other end: receiver: {{import_path: package.module:Class}}"
)


class CustomReceiverConfig(CustomSection):
    """A `generators.weight_sync.receiver.WeightReceiver` of your own, for the generators; the class takes `run`."""


class CustomTransportConfig(CustomSection):
    """A `learner.weight_sync.transport.WeightTransport` of your own; the class takes `run`."""

    receiver: CustomReceiverConfig | None = None
    """The generators' side of this transport. A run without it is refused at its start."""
    redis_max_bytes: int = Field(0, ge=0)
    """Largest file of weights that your classes let through Redis, if they use Redis. 0: none."""


WeightsConfig = Annotated[
    FilesystemTransportConfig | RelayTransportConfig | CustomTransportConfig,
    Field(discriminator="type"),
    default_type("filesystem"),
]


class MetricsFileConfig(Section):
    """`metrics.jsonl` and `samples.jsonl` in the run's folder, which `millrace top` and the curves read."""

    type: Literal["metrics_file"] = "metrics_file"


class CustomLoggerConfig(CustomSection):
    """A `learner.reporting.logger.Logger` of your own; the class takes `run`."""


LoggerConfig = Annotated[
    MetricsFileConfig | CustomLoggerConfig, Field(discriminator="type"), default_type("metrics_file")
]


class CheckpointConfig(Section):
    """DeepSpeed's whole state on disk."""

    every: int = Field(50, ge=0)
    """Steps between two checkpoints; 0: only the last one."""
    keep: int = Field(2, ge=1)
    """The newest so many stay."""


class JournalConfig(Section):
    """Which payloads stay on disk. A payload is what a step trained on; the records of every group stay for ever."""

    keep: Literal["all", "since_checkpoint"] = "all"
    """`since_checkpoint`: payloads that the oldest kept checkpoint covers are removed, as far as `keep_days` and
    `keep_mb` allow. `all`: only what those two say is removed."""
    keep_days: float | None = Field(None, gt=0)
    """Days that a payload stays. One that no kept checkpoint covers stays all the same: recovery needs it."""
    keep_mb: int | None = Field(None, ge=1)
    """MiB of payloads that stay, the newest; those that recovery needs stay all the same."""
    segment_mb: int = Field(64, ge=1)
    """MiB of one payload file: what is removed is whole files."""


class LearnerConfig(Section):
    """The one process (of `ranks`) that trains, feeds prompts and owns the journal."""

    steps: int = Field(100, ge=1)
    """Optimizer steps of the run."""
    groups_per_step: int = Field(64, ge=1)
    """Scored groups consumed by one optimizer step, over all ranks."""
    max_lag: int = Field(4, ge=0)
    """Versions that the oldest token of a group may lie behind the learner. 0 is synchronous."""
    late_groups: Literal["wait", "train", "drop"] = "wait"
    """What becomes of a group that would be trained later than `max_lag` allows. `wait`: the learner waits for older
    groups first, and no token is ever older. `train`: it trains on it all the same. `drop`: it is dropped and counted,
    which favours short answers."""
    groups_in_flight: int | None = Field(None, ge=1)
    """Groups without an outcome; unset, and at most: (max_lag + 1) x groups_per_step."""
    group_deadline_s: float = Field(300.0, gt=0)
    """Seconds from a group's issue to its death, unless it is scored by then. A pause, an outage of Redis and full
    memory do not count."""
    ranks: int = Field(1, ge=1)
    """Processes that train. Ignored where a launcher has set RANK."""
    gpus: tuple[int, ...] = ()
    """GPUs for `millrace up` to give the learner. Empty: all are visible."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train; auto: CUDA where there is one."""
    attention: Literal["auto", "flash", "sdpa"] = "auto"
    """`flash`: flash-attn's varlen kernels; auto: those where installed, SDPA else."""
    tokens_per_micro_batch: int = Field(16384, ge=1)
    """Tokens of one packed micro-batch. A longer sequence has a micro-batch to itself."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, a third more time."""
    threads: int | None = Field(None, ge=1)
    """Threads for torch in each rank; unset: torch's own choice."""
    backend: BackendConfig = DeepSpeedConfig()
    """What holds the model and its optimizer."""
    objective: ObjectiveConfig = GrpoConfig()
    """The loss."""
    advantage: AdvantageConfig = AdvantageConfig()
    """What the loss weighs tokens by."""
    filters: FiltersConfig = FiltersConfig()
    """Which groups train."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """The optimizer."""
    zero: ZeroConfig = ZeroConfig()
    """DeepSpeed's partitioning."""
    weights: WeightsConfig = FilesystemTransportConfig()
    """How new weights reach the generators."""
    loggers: tuple[LoggerConfig, ...] = (MetricsFileConfig(),)
    """Where the metrics of each step go. Without `metrics_file` the tools and the curves see no steps."""
    max_skipped_steps: int = Field(5, ge=1)
    """So many steps in a row whose gradient is not finite end the run, with the reason. Such a step leaves the weights
    as they are."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """What is kept to start from."""
    samples_every: int = Field(10, ge=0)
    """Steps between two printed sample answers; 0: none."""
    journal: JournalConfig = JournalConfig()
    """How long what was trained on is kept."""
    resume: Literal["auto", "never"] | Path = "auto"
    """`auto`: go on where this run stopped, if it has begun. `never`: refuse a name that is taken.
    A checkpoint's folder: a new run begins with its weights."""
