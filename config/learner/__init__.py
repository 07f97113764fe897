"""Section of the learner. Each other module here has the sections for the folder of `learner/` with the same name.

Four sections can be extended, each a union of types: `objective`, `backend`, `weights` and the elements of `loggers`.
The type `custom` uses a class of your own and needs no change here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from config.learner.groups import FiltersConfig
from config.learner.journal import JournalConfig
from config.learner.objective import AdvantageConfig, GrpoConfig, ObjectiveConfig
from config.learner.reporting import (
    DumpsConfig,
    HackingConfig,
    LoggerConfig,
    MetricsFileConfig,
    MismatchConfig,
    TensorBoardConfig,
)
from config.learner.training import (
    BackendConfig,
    CheckpointConfig,
    DeepSpeedConfig,
    LoraConfig,
    OptimizerConfig,
    ZeroConfig,
)
from config.learner.weight_sync import FilesystemTransportConfig, WeightsConfig
from config.section import GpuNumber, Section


class LearnerConfig(Section):
    """The learner: it issues prompts, trains, and owns the journal."""

    steps: int = Field(100, ge=1)
    """Optimizer steps of the run. Unset with `epochs` set: as many as the epochs make."""
    epochs: int | None = Field(None, ge=1)
    """Passes over the training data. The run ends after these passes or after `steps`, whichever comes first. Dropped
    groups make fewer steps."""
    groups_per_step: int = Field(64, ge=1)
    """Scored groups that one step trains on, over all ranks."""
    mini_batches: int = Field(1, ge=1)
    """Split the groups of a step into this many optimizer steps. Weights are published after the last."""
    max_lag: int = Field(4, ge=0)
    """Versions that the oldest token of a group may be behind the learner. 0: synchronous training."""
    late_groups: Literal["wait", "train", "drop"] = "wait"
    """What to do about a group that would train later than `max_lag` allows. `wait`: wait for older groups first, so
    that no token is ever older. `train`: train on it nevertheless. `drop`: drop and count it, which favours short
    answers."""
    groups_in_flight: int | None = Field(None, ge=1)
    """Groups in flight: those without an outcome, and trained ones whose weights are not announced yet. At most
    (max_lag + 1) x groups_per_step. Unset: so many, and for a step that lacks groups with variance up to four steps'
    worth, unless `epochs` is set."""
    group_deadline_s: float = Field(300.0, gt=0)
    """Seconds after which a group that was issued and not scored is given up. A pause, an outage of Redis, full memory
    and the time while the run was stopped do not count."""
    ranks: int = Field(1, ge=1)
    """Training processes. Ignored where a launcher has set RANK."""
    sequence_ranks: int = Field(1, ge=1)
    """Ranks that share one packed row (DeepSpeed-Ulysses), for rows too long for one rank's memory. It must divide
    `ranks` and the model's heads. 1: each rank has its own rows."""
    gpus: tuple[GpuNumber, ...] = ()
    """GPUs that `millrace up` gives the learner. Empty: all."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to train on. `auto`: CUDA where there is one."""
    attention: Literal["auto", "flash", "varlen", "sdpa"] = "auto"
    """Attention kernels. `flash`: flash-attn's, for packed rows. `varlen`: torch's own, for packed rows. `sdpa`: padded
    rows, or a mask of the row's length squared. `auto`: on a GPU `flash` where it is installed, else `varlen`; on a CPU
    and in float32 `sdpa`. The log says which, and why."""
    tokens_per_micro_batch: int = Field(16384, ge=1)
    """Tokens in one packed micro-batch. A longer sequence gets a micro-batch of its own."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, about a third more time."""
    offload_activations: bool = False
    """Keep activations in CPU memory until the backward pass. With `gradient_checkpointing` these are the layers'
    inputs."""
    torch_compile: bool = False
    """Compile the layers with torch.compile: about a minute at the start, then faster steps on a GPU. Not possible with
    `zero.stage: 3` or `sequence_ranks` above 1."""
    threads: int | None = Field(None, ge=1)
    """Threads of torch in each rank. Unset: torch's own choice."""
    shard_bytes: int = Field(5_000_000_000, ge=1)
    """Largest safetensors file in bytes, wherever weights are written: when they are published, in `models` and by
    `millrace export`. Larger weights are split into several files with an index. A run keeps the size that it started
    with."""
    backend: BackendConfig = DeepSpeedConfig()
    """Training engine that holds the model and its optimizer."""
    objective: ObjectiveConfig = GrpoConfig()
    """Loss."""
    advantage: AdvantageConfig = AdvantageConfig()
    """Advantages."""
    filters: FiltersConfig = FiltersConfig()
    """Choice of the groups that train."""
    mismatch: MismatchConfig = MismatchConfig()
    """Limits on the divergence between learner and generators."""
    hacking: HackingConfig = HackingConfig()
    """Watch for reward hacking."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimizer."""
    lora: LoraConfig | None = None
    """Train adapters instead of the model's weights. Unset: train all weights."""
    zero: ZeroConfig = ZeroConfig()
    """DeepSpeed ZeRO."""
    weights: WeightsConfig = FilesystemTransportConfig()
    """Transport of new weights to the generators."""
    loggers: tuple[LoggerConfig, ...] = (MetricsFileConfig(), TensorBoardConfig())
    """Loggers of each step's metrics. `millrace top`, the curves and the report need `metrics_file`."""
    max_skipped_steps: int = Field(5, ge=1)
    """End the run, with the reason, after this many steps in a row with a gradient that is not finite. Such a step
    leaves the weights unchanged."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """Checkpoints."""
    dumps: DumpsConfig = DumpsConfig()
    """Completions in files, in the formats of verl and II-VERL."""
    samples_every: int = Field(10, ge=0)
    """Steps between two printed sample completions. 0: none."""
    journal: JournalConfig = JournalConfig()
    """Journal: how long to keep the data that was trained on."""
    resume: Literal["auto", "never"] | Path = "auto"
    """`auto`: resume the run of this name where it stopped, or start it. `never`: refuse a name that exists. A
    checkpoint's folder: start a new run from its weights."""

    @model_validator(mode="after")
    def _ranks_fit(self) -> Self:
        if self.ranks > 1 and self.ranks % self.sequence_ranks:  # a launcher may set another number of ranks
            raise ValueError(f"sequence_ranks={self.sequence_ranks} does not divide ranks={self.ranks}")
        if self.gpus and self.ranks > len(set(self.gpus)):
            raise ValueError(
                f"ranks={self.ranks} is more than gpus={list(self.gpus)} has: each rank trains on a GPU of its own"
            )
        return self

    @model_validator(mode="after")
    def _layers_can_be_compiled(self) -> Self:
        if self.torch_compile and (self.zero.stage == 3 or self.sequence_ranks > 1):
            what = "zero.stage=3" if self.zero.stage == 3 else f"sequence_ranks={self.sequence_ranks}"
            raise ValueError(
                f"torch_compile does not go with {what}: ranks talk to each other inside a layer"
            )
        return self

    @property
    def steps_follow_epochs(self) -> bool:
        """Whether the number of steps follows from the number of epochs and the size of the data."""
        return self.epochs is not None and "steps" not in self.model_fields_set
