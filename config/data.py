"""These sections say where prompts come from: datasets by name or file, problems made on the spot, or environments.

`data.train` and `data.held_out` are one source, or a list of them. In a list, a source to train on may say its share
of the prompts, and a held-out set has a name and may say how it is sampled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from config.section import Section

# Tags of one source and of a list: parts of an error's place that no key has, see `config.explanations`.
ONE: Final = "(one source)"
SEVERAL: Final = "(a list of sources)"
HELD_OUT_SEEDS: Final = 1_000_000_000  # from which on a seed is held out


class DatasetSource(Section):
    """A `datasets` name, a saved folder, or JSONL and parquet: a file, a folder of them, or a pattern."""

    type: Literal["dataset"] = "dataset"
    path: str
    """Hub name, file, folder, or a pattern such as `data/*.parquet` (`**` stands for any folders). The files of a
    folder or a pattern may have unlike columns; they are read in the order of their names."""
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
    """Task of rows from `answer_column`, or the type of its rows, such as `gsm8k`; and of rows of NeMo Gym
    (`responses_create_params`), which travel whole."""
    limit: int | None = Field(None, ge=1)
    """Only the first so many rows."""


class ProceduralSource(Section):
    """The demos' problems: made on the spot, training and held-out ones disjoint."""

    type: Literal["procedural"] = "procedural"
    problem: Literal["digits", "boxes"] = "digits"
    """Family of problems: the digits of a number, or boxes to look into with a tool."""
    split: Literal["train", "eval"] = "train"
    """Which of the two disjoint halves."""
    size: int = Field(4096, ge=1)
    """Distinct problems."""


class EnvironmentSource(Section):
    """Seeds, for a task whose environment makes the whole problem: a game needs no data."""

    type: Literal["environment"] = "environment"
    task: str
    """Name in `scorers.tasks` of a task whose `environment` begins an episode without a prompt."""
    split: Literal["train", "eval"] = "train"
    """Which of the two disjoint ranges of seeds: from 0, or from 1,000,000,000 on."""
    size: int = Field(4096, ge=1, le=HELD_OUT_SEEDS)
    """Seeds, each of which is a problem: `reset` has it as its `seed`."""
    system_prompt: str | None = None
    """A system turn before what the environment says first."""

    @property
    def first_seed(self) -> int:
        """The seed of the first row."""
        return HELD_OUT_SEEDS if self.split == "eval" else 0


SourceConfig = Annotated[DatasetSource | ProceduralSource | EnvironmentSource, Field(discriminator="type")]


class _Share(Section):
    """What a source of `data.train` says of its place among the others."""

    weight: float | None = Field(None, gt=0)
    """Its share of the prompts, in proportion to the other sources' weights. Unset: its rows, times its `epochs`."""
    epochs: int | None = Field(None, ge=1)
    """Passes over it, after which the others go on without it; unset: it lasts as long as the run. Where every source
    has some, the run's prompts end with the last of them."""


class TrainDataset(DatasetSource, _Share):
    """A dataset among several."""


class TrainProcedural(ProceduralSource, _Share):
    """The demo's problems among other sources."""


class TrainEnvironment(EnvironmentSource, _Share):
    """An environment's seeds among other sources."""


TrainSource = Annotated[TrainDataset | TrainProcedural | TrainEnvironment, Field(discriminator="type")]


class HeldOutSection(Section):
    """What a held-out set says of its rounds; what it leaves unset, `evaluation` and `sampling` say for all sets."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=60)
    """Name of the set in metrics and reports."""
    every: int | None = Field(None, ge=0)
    """Optimizer steps between two rounds of this set; 0: none."""
    prompts: int | None = Field(None, ge=1)
    """Prompts a round."""
    samples: int | None = Field(None, ge=1)
    """Completions of each."""
    temperature: float | None = Field(None, ge=0)
    """Softmax temperature. 0 is greedy: the likeliest token each time, and one completion of each prompt."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Nucleus to sample from: the likeliest tokens that together have this probability. 1: all of them."""
    max_tokens: int | None = Field(None, ge=1)
    """Tokens that a completion may have."""
    max_prompt_tokens: int | None = Field(None, ge=1)
    """A longer prompt of this set is counted and left out."""


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
    """What the learner trains on, shuffled by the run's seed, epoch after epoch: a source, or a list of sources.
    Without `weight` and `epochs`, the rows of a list are one pool."""
    held_out: (
        Annotated[
            Annotated[SourceConfig, Tag(ONE)] | Annotated[tuple[HeldOutSet, ...], Tag(SEVERAL)],
            Discriminator(_one_or_several),
        ]
        | None
    ) = None
    """What `evaluation` samples: a source, or a list of named sets; unset: no evaluation."""
    max_prompt_tokens: int = Field(1024, ge=1)
    """A longer prompt is counted and left out, never cut."""
    shuffle: bool = True
    """A new order each epoch, from the run's seed."""
    source_types: dict[str, str] = {}
    """Type of the rows of verl by their `data_source`, before any that is known here: `math: prime_math`. `*` in a name
    stands for any text; the first name that fits decides."""
    unknown_source: str | None = None
    """Type of the rows of verl whose `data_source` nobody knows, such as `prime_math`, which verl takes for all of
    them. Unset: such a row is refused by name."""
    columns: tuple[str, ...] = ()
    """Columns that travel with a row's group into samples, journal, report and trace, such as `ability` or
    `extra_info.difficulty`. A row without one goes without it."""
    bad_rows: Literal["refuse", "quarantine"] = "refuse"
    """What a row that can't be used does: end the start, naming it, or lie in a file of quarantined rows."""
    gold_test: bool = False
    """Score each row's own reference when the data are read, and quarantine a row whose reference does not score 1, or
    that an answer without any work in it passes."""
    cache_dir: Path | None = None
    """Folder in which read rows and their lengths are kept; unset: `$XDG_CACHE_HOME/millrace/data`."""

    @field_validator("train", "held_out")
    @classmethod
    def _not_empty(cls, sources: Any) -> Any:
        """Refuse a list without a source."""
        if isinstance(sources, Sequence) and not sources:
            raise ValueError("a list of sources needs one")
        return sources

    @field_validator("held_out")
    @classmethod
    def _names_differ(cls, held_out: Any) -> Any:
        """Refuse two sets of one name."""
        if isinstance(held_out, Sequence):
            twice = [name for name, count in Counter(each.name for each in held_out).items() if count > 1]
            if twice:
                raise ValueError(f"two sets are named {twice[0]!r}")
        return held_out

    @property
    def train_sources(self) -> tuple[SourceConfig, ...]:
        """The sources to train on, whether there is one or a list."""
        return tuple(self.train) if isinstance(self.train, Sequence) else (self.train,)

    @property
    def held_out_sources(self) -> tuple[SourceConfig, ...]:
        """The held-out sets, whether there is none, one or a list."""
        if self.held_out is None:
            return ()
        return tuple(self.held_out) if isinstance(self.held_out, Sequence) else (self.held_out,)

    @property
    def held_out_sets(self) -> tuple[HeldOutSet, ...]:
        """Those of the held-out sources that have a name, and may say how they are sampled."""
        kinds = HeldOutDataset | HeldOutProcedural | HeldOutEnvironment
        return tuple(each for each in self.held_out_sources if isinstance(each, kinds))

    def key_of(self, source: SourceConfig) -> str:
        """Return the key of a source, as one types it: `data.train`, or `data.held_out.0` in a list."""
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
    """Held-out pass rate, sampled by the same generators and scored by the same scorers. It holds no training slot."""

    every: int = Field(0, ge=0)
    """Optimizer steps between two rounds; 0: none.
    Version 0 and the final weights are always evaluated if it is not 0."""
    prompts: int = Field(64, ge=1)
    """Held-out prompts a round."""
    samples: int = Field(4, ge=1)
    """Completions of each; one where the temperature is 0, since greedy ones are alike."""
    temperature: float = Field(1.0, ge=0)
    """Softmax temperature of these. 0 is greedy: the likeliest token each time."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Nucleus to sample these from: the likeliest tokens that together have this probability. 1: all of them."""
    first_round: Literal["before", "behind"] = "before"
    """`before`: training waits for the round of version 0, which therefore only that version samples.
    `behind`: it waits for no round but that of the final weights."""
    groups_in_flight: int | None = Field(None, ge=1)
    """Held-out groups in flight at once: a round of more is issued piece by piece, in turn with training prompts.
    Unset: as many as training may have."""
    deadline_s: float = Field(300.0, gt=0)
    """Seconds after the last of a round was issued, after which what has not come back is asked for again, once.
    A round still incomplete then is given up, saying so."""
