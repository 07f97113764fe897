"""These sections say where prompts come from: datasets by name or file, or problems made on the spot."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from config.section import Section


class DatasetSource(Section):
    """A `datasets` name, a JSONL or parquet file, or a saved folder."""

    type: Literal["dataset"] = "dataset"
    path: str
    """Hub name, file or folder."""
    split: str = "train"
    """Split of it; that of a single file may have any name."""
    config_name: str | None = None
    """The data set's configuration, where it has several."""
    revision: str | None = None
    """Commit or tag on the hub."""
    prompt_column: str = "messages"
    """Column with a chat (`[{role, content}, ...]`), or with text, which becomes the user's turn.
    Not read where `prompt_template` is set. Where it is not there, rows of verl have theirs in `prompt`."""
    prompt_template: str | None = None
    """Text of the user's turn with `{column}` fields of the row; unset: `prompt_column` is used."""
    system_prompt: str | None = None
    """A system turn before it."""
    verification_column: str = "verification_info"
    """Column with `{"type": ..., "answer": {"value": ...}}`, as an object or as JSON text. Used unless `answer_column`
    is set; rows of verl (`data_source`, `reward_model`, `extra_info`) do without it."""
    task_column: str | None = "task"
    """Column with the name of the row's task, where the data have one; where it is null, the row's type decides."""
    answer_column: str | None = None
    """Column with the reference answer."""
    answer_pattern: str | None = None
    """Regular expression whose first group is the answer in that column, for example `#### (.+)`."""
    task: str = "math"
    """Task of rows from `answer_column`, or the type of its rows, such as `gsm8k`."""
    limit: int | None = Field(None, ge=1)
    """Only the first so many rows."""


class ProceduralSource(Section):
    """The demo's problems: made on the spot, training and held-out ones disjoint."""

    type: Literal["procedural"] = "procedural"
    problem: Literal["digits"] = "digits"
    """Family of problems."""
    split: Literal["train", "eval"] = "train"
    """Which of the two disjoint halves."""
    size: int = Field(4096, ge=1)
    """Distinct problems."""


SourceConfig = Annotated[DatasetSource | ProceduralSource, Field(discriminator="type")]


class DataConfig(Section):
    """Training and held-out prompts."""

    train: SourceConfig
    """What the learner trains on, shuffled by the run's seed, epoch after epoch."""
    held_out: SourceConfig | None = None
    """What `evaluation` samples; unset: no evaluation."""
    max_prompt_tokens: int = Field(1024, ge=1)
    """A longer prompt is counted and left out, never cut."""
    shuffle: bool = True
    """A new order each epoch, from the run's seed."""


class EvaluationConfig(Section):
    """Held-out pass rate, sampled by the same generators and scored by the same scorers. It holds no training slot."""

    every: int = Field(0, ge=0)
    """Optimizer steps between two rounds; 0: none.
    Version 0 and the final weights are always evaluated if it is not 0."""
    prompts: int = Field(64, ge=1)
    """Held-out prompts a round."""
    samples: int = Field(4, ge=1)
    """Completions of each."""
    temperature: float = Field(1.0, gt=0)
    """Softmax temperature of these."""
    deadline_s: float = Field(300.0, gt=0)
    """Seconds after which what has not come back is asked for again, once.
    A round still incomplete then is given up, saying so."""
