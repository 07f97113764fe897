"""Sections of the sources of prompts: datasets by name or file, generated problems, or environments.

`data.train` and `data.held_out` are one source or a list of sources. In a list, a training source may set its share of
the prompts, and a held-out set has a name and may set how it is sampled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from config.section import Section

# Pydantic's tags for one source and for a list. They appear in an error's location but are no keys, see
# `config.explanations`.
ONE: Final = "(one source)"
SEVERAL: Final = "(a list of sources)"
HELD_OUT_SEEDS: Final = 1_000_000_000  # seeds from this one on are held out


class DatasetSource(Section):
    """A data set: a hub name, a saved folder, or JSONL and parquet files."""

    type: Literal["dataset"] = "dataset"
    path: str
    """Hub name, file, folder, or a pattern such as `data/*.parquet` (`**` matches any folders). Files of a folder or a
    pattern may have different columns, and are read in the order of their names."""
    split: str = "train"
    """Split to read. A single file's split may have any name."""
    config_name: str | None = None
    """Configuration of a data set that has several."""
    revision: str | None = None
    """Commit or tag on the hub."""
    prompt_column: str = "messages"
    """Column with a chat (`[{role, content}, ...]`), or with text, which becomes the user's turn. Ignored where
    `prompt_template` is set. Where rows in verl's format do not have it, their `prompt` is read."""
    prompt_template: str | None = None
    """Template of the user's turn with `{column}` fields of the row. Unset: use `prompt_column`."""
    system_prompt: str | None = None
    """System message to put before it."""
    verification_column: str = "verification_info"
    """Column with `{"type": ..., "answer": {"value": ...}}`, as an object or as JSON text. Ignored where
    `answer_column` is set. Rows in verl's format (`data_source`, `reward_model`, `extra_info`) do without it."""
    task_column: str | None = "task"
    """Column with the name of the row's task. Where it is absent or null, the row's type decides."""
    answer_column: str | None = None
    """Column with the reference answer, instead of `verification_column`."""
    answer_pattern: str | None = None
    """Regular expression whose first group is the answer in that column, such as `#### (.+)`."""
    task: str = "math"
    """Task, or type such as `gsm8k`, of rows with `answer_column`, and of rows in NeMo Gym's format
    (`responses_create_params`), which are carried whole."""
    limit: int | None = Field(None, ge=1)
    """Read the first rows, at most this many. Unset: read all."""


class ProceduralSource(Section):
    """The demos' problems, generated on the spot. Training and held-out problems are disjoint."""

    type: Literal["procedural"] = "procedural"
    problem: Literal["digits", "boxes"] = "digits"
    """Kind of problems: the digits of a number, or boxes to look into with a tool."""
    split: Literal["train", "eval"] = "train"
    """Which of the two disjoint halves to use."""
    size: int = Field(4096, ge=1)
    """Number of distinct problems."""


class EnvironmentSource(Section):
    """Seeds for a task whose environment makes the whole problem, such as a game."""

    type: Literal["environment"] = "environment"
    task: str
    """Task in `scorers.tasks` whose `environment` begins an episode without a prompt."""
    split: Literal["train", "eval"] = "train"
    """Which of two disjoint ranges of seeds to use: from 0, or from 1,000,000,000 on."""
    size: int = Field(4096, ge=1, le=HELD_OUT_SEEDS)
    """Number of seeds. Each is a problem: `reset` gets it as `seed`."""
    system_prompt: str | None = None
    """System message to put before the environment's first message."""

    @property
    def first_seed(self) -> int:
        """Seed of the first row."""
        return HELD_OUT_SEEDS if self.split == "eval" else 0


SourceConfig = Annotated[DatasetSource | ProceduralSource | EnvironmentSource, Field(discriminator="type")]


class _Share(Section):
    """Share of one source of `data.train` among the others."""

    weight: float | None = Field(None, gt=0)
    """Share of the prompts, in proportion to the other sources' weights. Unset: its number of rows times its
    `epochs`."""
    epochs: int | None = Field(None, ge=1)
    """Passes over this source, after which the others continue without it. Unset: as long as the run. Where all sources
    have `epochs`, the run's prompts end with the last of them."""


class TrainDataset(DatasetSource, _Share):
    """A dataset among several."""


class TrainProcedural(ProceduralSource, _Share):
    """The demo's problems among other sources."""


class TrainEnvironment(EnvironmentSource, _Share):
    """An environment's seeds among other sources."""


TrainSource = Annotated[TrainDataset | TrainProcedural | TrainEnvironment, Field(discriminator="type")]


class HeldOutSection(Section):
    """Evaluation of one held-out set. Keys that are unset default to those of `evaluation`, `sampling` and `data`."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=60)
    """Name of the set in metrics and reports."""
    every: int | None = Field(None, ge=0)
    """Optimizer steps between two evaluations of this set. 0: none."""
    prompts: int | None = Field(None, ge=1)
    """Prompts per evaluation."""
    samples: int | None = Field(None, ge=1)
    """Completions per prompt."""
    temperature: float | None = Field(None, ge=0)
    """Softmax temperature. 0: greedy decoding, with one completion per prompt."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Nucleus sampling: sample from the likeliest tokens that together have this probability. 1: from all."""
    max_tokens: int | None = Field(None, ge=1)
    """Largest number of tokens in a completion."""
    max_prompt_tokens: int | None = Field(None, ge=1)
    """Leave out, and count, longer prompts of this set. Unset: `data.max_prompt_tokens`."""


class HeldOutDataset(DatasetSource, HeldOutSection):
    """A held-out dataset with a name."""


class HeldOutProcedural(ProceduralSource, HeldOutSection):
    """The demo's problems as a held-out set with a name."""


class HeldOutEnvironment(EnvironmentSource, HeldOutSection):
    """An environment's seeds as a held-out set with a name."""


HeldOutSet = Annotated[HeldOutDataset | HeldOutProcedural | HeldOutEnvironment, Field(discriminator="type")]


def _one_or_several(value: Any) -> str:
    return SEVERAL if isinstance(value, list | tuple) else ONE


class DataConfig(Section):
    """Training and held-out prompts."""

    train: Annotated[
        Annotated[SourceConfig, Tag(ONE)] | Annotated[tuple[TrainSource, ...], Tag(SEVERAL)],
        Discriminator(_one_or_several),
    ]
    """Training data: a source, or a list of sources. They are shuffled by the run's seed, epoch after epoch. Without
    `weight` and `epochs` the rows of a list are one pool."""
    held_out: (
        Annotated[
            Annotated[SourceConfig, Tag(ONE)] | Annotated[tuple[HeldOutSet, ...], Tag(SEVERAL)],
            Discriminator(_one_or_several),
        ]
        | None
    ) = None
    """Held-out data: a source, or a list of named sets. Unset: no evaluation."""
    max_prompt_tokens: int = Field(1024, ge=1)
    """Leave out, and count, longer prompts. Prompts are never cut."""
    shuffle: bool = True
    """Shuffle the rows anew in each epoch, by the run's seed."""
    source_types: dict[str, str] = {}
    """Type of rows in verl's format by their `data_source`, such as `math: prime_math`. It takes precedence over the
    types that Millrace knows. `*` in a name matches any text; the first name that matches decides."""
    unknown_source: str | None = None
    """Type of rows in verl's format with an unknown `data_source`, such as `prime_math`, which verl itself uses. Unset:
    refuse such rows by name."""
    columns: tuple[str, ...] = ()
    """Columns to carry along into samples, journal, report and trace, such as `ability` or `extra_info.difficulty`. A
    row without such a column carries nothing in its place."""
    bad_rows: Literal["refuse", "quarantine"] = "refuse"
    """What to do with a row that can't be used: `refuse` to start, naming it, or `quarantine` it in a file."""
    gold_test: bool = False
    """Score each row's own reference when the data are read. Quarantine rows whose reference does not score 1, and rows
    that a trivial answer passes."""
    cache_dir: Path | None = None
    """Cache folder for rows and their lengths. Unset: `$XDG_CACHE_HOME/millrace/data`."""

    @field_validator("train", "held_out")
    @classmethod
    def _not_empty(cls, sources: Any) -> Any:
        """Refuse an empty list of sources."""
        if isinstance(sources, Sequence) and not sources:
            raise ValueError("a list of sources needs one")
        return sources

    @field_validator("held_out")
    @classmethod
    def _names_differ(cls, held_out: Any) -> Any:
        """Refuse two sets with the same name."""
        if isinstance(held_out, Sequence):
            twice = [name for name, count in Counter(each.name for each in held_out).items() if count > 1]
            if twice:
                raise ValueError(f"two sets are named {twice[0]!r}")
        return held_out

    @property
    def train_sources(self) -> tuple[SourceConfig, ...]:
        """Training sources, for a single source or a list."""
        return tuple(self.train) if isinstance(self.train, Sequence) else (self.train,)

    @property
    def held_out_sources(self) -> tuple[SourceConfig, ...]:
        """Held-out sets, for none, a single one or a list."""
        if self.held_out is None:
            return ()
        return tuple(self.held_out) if isinstance(self.held_out, Sequence) else (self.held_out,)

    @property
    def held_out_sets(self) -> tuple[HeldOutSet, ...]:
        """Held-out sources that have a name, and may set how they are sampled."""
        kinds = HeldOutDataset | HeldOutProcedural | HeldOutEnvironment
        return tuple(each for each in self.held_out_sources if isinstance(each, kinds))

    def key_of(self, source: SourceConfig) -> str:
        """Return the key of a source as a user writes it: `data.train`, or `data.held_out.0` in a list."""
        keys = (key for key, one in self.keyed_sources().items() if one is source)
        return f"data.{next(keys, 'train')}"

    def keyed_sources(self) -> dict[str, SourceConfig]:
        """Return every source by its key below `data`: `train`, or `train.0` in a list."""
        found: dict[str, SourceConfig] = {}
        for name, one, several in (
            ("train", self.train, self.train_sources),
            ("held_out", self.held_out, self.held_out_sources),
        ):
            is_list = isinstance(one, Sequence)
            found |= {f"{name}.{i}" if is_list else name: source for i, source in enumerate(several)}
        return found


class EvaluationConfig(Section):
    """Held-out evaluation, by the same generators and scorers. It takes no slot from training."""

    every: int = Field(0, ge=0)
    """Optimizer steps between two evaluations. 0: none. Otherwise version 0 and the final weights are always
    evaluated."""
    prompts: int = Field(64, ge=1)
    """Held-out prompts per evaluation."""
    samples: int = Field(4, ge=1)
    """Completions per prompt. One where the temperature is 0, since greedy completions are equal."""
    temperature: float = Field(1.0, ge=0)
    """Softmax temperature. 0: greedy decoding."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Nucleus sampling: sample from the likeliest tokens that together have this probability. 1: from all."""
    first_round: Literal["before", "behind"] = "before"
    """`before`: training waits until version 0 is evaluated, so that only version 0 samples it. `behind`: training
    waits for no evaluation but that of the final weights."""
    groups_in_flight: int | None = Field(None, ge=1)
    """Held-out groups in flight at once. Others follow in turn with training prompts. Unset: as many as training may
    have."""
    deadline_s: float = Field(300.0, gt=0)
    """Seconds after the last prompt of an evaluation was issued, after which missing groups are issued once more. An
    evaluation that is still incomplete after as long again is given up, with a message."""
