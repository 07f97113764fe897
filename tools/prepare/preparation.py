"""What a preparation is: where its records come from, which of them are kept, and how one becomes a row of verl.

In: nothing. Out: `Preparation` and its parts, frozen. The modules of `tools.prepare.domains` declare the ones that come
with this program, `tools.prepare.catalogue` finds them, and `tools.prepare.stages` carries one out. A file of one's own
declares another with the same records (`millrace prepare --template`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal

from broker.errors import Permanent

Domain = Literal[
    "math", "code", "logic", "simulation", "table", "science", "other", "rubric", "agents", "all"
]
Record = Mapping[str, Any]  # one row as its publisher has it
# Keys of Reasoning360's `extra_info` that say again what a row is made of: its prompt; its record's number, as text.
Repeated = Literal["original_prompt", "id"]
Types = tuple[type, ...]

TEXT: Final[Types] = (str,)
MAYBE_TEXT: Final[Types] = (str, NoneType)
LIST: Final[Types] = (list,)
OBJECT: Final[Types] = (dict,)
NUMBER: Final[Types] = (int, float)

QWEN: Final = "Qwen/Qwen2.5-7B"  # whose tokens Reasoning360 counts
ALL: Final = (0.0, 1.0)  # a share
SPARE_TOKENS: Final = 100  # that Reasoning360 leaves below its limit


class BadRecord(Permanent):
    """A record of a source that is not what its publisher says."""


class LeftOut(Exception):
    """A record can't become a row, for a reason that its set is known for; the message is the name of the filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a record says of its row; the rest of the row follows from the preparation."""

    prompt: str | Sequence[Mapping[str, str]]  # the user's turn, or a chat
    ground_truth: Any
    extra: Mapping[str, Any] = field(default_factory=dict)  # keys of extra_info, beside split and index
    columns: Mapping[str, Any] = field(default_factory=dict)  # beside those of verl


Draw = Callable[[Record, random.Random], Draft]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Records without this property are left out, and counted under its name."""

    name: str
    keeps: Callable[[Record], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """A data set by its name on the hub; `--source` reads a file or folder of the same shape instead."""

    path: str
    config: str | None = None
    revision: str | None = None  # commit that is read where the command names none; None: the newest
    file: str | None = None  # the one file of it that is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files that are no data set of the hub; `--source` names the folder, or the file."""

    address: str  # where people get them
    files: Callable[[Path, str], list[Path]]  # of a folder and a split: all that is read of it
    records: Callable[[Path, str], Iterator[tuple[str, Record]]]  # each with its place, for messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Records that are made on the spot."""

    by: str  # for people
    make: Callable[[int, random.Random], Record]  # the record of a number, counted from 0
    version: int = 1  # raise it with any change that makes other records
    cycle: int = 1  # records that follow each other and belong to the same split


Source = Hub | Files | Made


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One of the files that a preparation makes."""

    source: str = "train"  # the split's name at the source
    size: int | None = None  # rows that are drawn where the command names none; None: all
    share: tuple[float, float] = ALL  # of the records: those whose draw from [0, 1) lies in it
    head: int | None = None  # only the first so many records
    data_source: str | None = None  # None: the preparation's
    filters: tuple[Filter, ...] = ()  # behind those of the preparation
    row: Draw | None = None  # None: the preparation's


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """How one data set is prepared. `name`, `seed` and the source's bytes decide every byte of the result."""

    name: str
    domain: Domain
    about: str  # one line for people
    source: Source
    columns: Mapping[str, Types]  # of a record; NoneType: it may be null, or absent
    row: Draw
    data_source: str  # decides who scores
    ability: str
    splits: Mapping[str, Split] = field(default_factory=lambda: {"train": Split()})
    filters: tuple[Filter, ...] = ()
    leaves_out: tuple[str, ...] = ()  # names of the filters that `row` applies, by LeftOut
    max_prompt_tokens: int | None = None  # None: rows of any length
    max_answer_tokens: int | None = None  # of the ground truth
    repeats: tuple[Repeated, ...] = ()  # keys of extra_info, beside those of the draft
    is_played: bool = False  # by agents: what a row holds is for their environment, and no scorer reads it
    tests_references: bool = False  # whether each row's own program must pass its tests
    licence: str = ""  # as the publisher names it; "": not known here
    file: str = ""  # the beginning of the file's name; "": the data source

    @property
    def file_name(self) -> str:
        """The beginning of the file's name, as Reasoning360 names it."""
        return (self.file or self.data_source).replace("/", "_")


def tokens_below(limit: int) -> int:
    """Return what Reasoning360's limit leaves for a prompt."""
    return limit - SPARE_TOKENS


def draw_of(seed: int, *place: object) -> random.Random:
    """Return the generator of one place: the same for the same words, whatever was drawn elsewhere."""
    return random.Random("/".join(map(str, (seed, *place))))  # noqa: S311 - a choice of rows, not a secret
