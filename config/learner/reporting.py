"""Sections of a run's reports: loggers, dumps, and the checks for mismatch and reward hacking.

A new logger is one section here, in `LoggerConfig`, one file in `learner/reporting/`, and one case in its `build.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from config.custom import CustomSection
from config.section import Section, default_type


class MismatchConfig(Section):
    """Limits on the divergence between learner and generators on tokens of lag 0, where only rounding may differ."""

    warn_above: float = Field(0.02, gt=0)
    """Warn in the log and in `millrace top` above this mean divergence per token (k3, nats) of one generator."""
    stop_above: float | None = Field(None, gt=0)
    """End the run, with the reason, above this mean divergence per token of one generator. Unset: never."""


class HackingConfig(Section):
    """Watch for reward hacking: a reward that rises while what it stands for does not (docs/running.md)."""

    action: Literal["warn", "pause", "none"] = "warn"
    """`warn`: report a finding in the log, in `millrace top`, in the report and with samples. `pause`: pause the run as
    well, until `millrace resume`. `none`: do not watch."""
    window: int = Field(5, ge=2)
    """Steps to average over."""
    reward_rose: float = Field(0.1, gt=0)
    """Look for a cause once the mean reward has risen by this much."""
    witness_share: float = Field(0.25, gt=0, lt=1)
    """Share of that rise that the mean held-out score, a shadow scorer, or the task's own scorer among several must
    show too."""
    longer: float = Field(1.15, gt=1)
    """Look at answers that have become this many times as long (per turn) as they were at the lowest reward."""
    length_paid: float = Field(0.4, gt=0, lt=1)
    """Report them where length and reward correlate at least this much within groups, at equal numbers of turns."""
    share_rose: float = Field(0.2, gt=0, lt=1)
    """Report a rise by this much of the share of cut, repeated or shared answers."""


class MetricsFileConfig(Section):
    """Write `metrics.jsonl` and `samples.jsonl` to the run's folder. `millrace top` and the curves read them."""

    type: Literal["metrics_file"] = "metrics_file"


class TensorBoardConfig(Section):
    """Write TensorBoard's event files to `tensorboard` in the run's folder (`tensorboard --logdir runs`)."""

    type: Literal["tensorboard"] = "tensorboard"


class WandbConfig(Section):
    """Log to Weights & Biases, with the key of WANDB_API_KEY or of `wandb login`."""

    type: Literal["wandb"] = "wandb"
    project: str = "millrace"
    """Project of the run. Created if it does not exist."""
    entity: str | None = None
    """User or team. Unset: the one that the key belongs to."""
    mode: Literal["online", "offline"] = "online"
    """`offline`: write to the run's folder, for a later `wandb sync`, without a key."""
    tags: tuple[str, ...] = ()
    """Tags of the run."""


class TrackioConfig(Section):
    """Log to trackio, on this machine or in a space on the Hugging Face hub."""

    type: Literal["trackio"] = "trackio"
    project: str = "millrace"
    """Project of the run. Created if it does not exist."""
    space_id: str | None = None
    """Space on the hub, OWNER/NAME. Unset: this machine."""


class CustomLoggerConfig(CustomSection):
    """Your own `learner.reporting.logger.Logger`. The class takes `run`."""


LoggerConfig = Annotated[
    MetricsFileConfig | TensorBoardConfig | WandbConfig | TrackioConfig | CustomLoggerConfig,
    Field(discriminator="type"),
    default_type("metrics_file"),
]


class DumpsConfig(Section):
    """Write completions to files in the formats of verl and II-VERL. Existing files are never overwritten."""

    rollouts: Path | None = None
    """Write `STEP.jsonl` to this folder for each trained step, as verl's `trainer.rollout_data_dir`. Unset: no
    files."""
    held_out: Path | None = None
    """Write `VERSION.jsonl` to this folder for each held-out evaluation, as verl's `trainer.validation_data_dir`. It
    must differ from `rollouts`, since the files have the same names. Unset: no files."""
    parquet: Path | None = None
    """Write `train/STEP.parquet` and `val/VERSION.parquet` to this folder, as II-VERL's `reward_api.save_dir`. Unset:
    no files."""
    parquet_every: int = Field(1, ge=0)
    """Steps between two parquet files in `train`. 0: none. Every held-out evaluation has its file."""

    @field_validator("held_out")
    @classmethod
    def _is_another_folder(cls, folder: Path | None, info: ValidationInfo) -> Path | None:
        if folder is not None and folder == info.data.get("rollouts"):
            raise ValueError("is the folder of rollouts: both would write files of the same names")
        return folder
