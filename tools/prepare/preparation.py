"""Define a preparation: the source of its records, the kept ones, and their conversion to rows of verl.

In: nothing. Out: `Preparation` and its parts, frozen. The modules of `tools.prepare.domains` declare the built-in ones,
`tools.prepare.catalogue` finds them, and `tools.prepare.stages` carries one out. A user's file declares another one
with the same classes (`millrace prepare --template`).
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
Record = Mapping[str, Any]  # one row in its publisher's form
# Keys of Reasoning360's `extra_info` that repeat parts of a row: its prompt; its record's number, as text.
Repeated = Literal["original_prompt", "id"]
Types = tuple[type, ...]

TEXT: Final[Types] = (str,)
MAYBE_TEXT: Final[Types] = (str, NoneType)
LIST: Final[Types] = (list,)
OBJECT: Final[Types] = (dict,)
NUMBER: Final[Types] = (int, float)

QWEN: Final = "Qwen/Qwen2.5-7B"  # Reasoning360 counts its tokens
ALL: Final = (0.0, 1.0)  # a share
SPARE_TOKENS: Final = 100  # Reasoning360's margin below its limit


class BadRecord(Permanent):
    """A record of a source differs from its publisher's description."""


class LeftOut(Exception):
    """A record can't become a row, for a known reason of its set; the message is the name of the filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The row-specific content of a record; the preparation has the rest."""

    prompt: str | Sequence[Mapping[str, str]]  # the user's message, or a chat
    ground_truth: Any
    extra: Mapping[str, Any] = field(default_factory=dict)  # keys of extra_info, besides split and index
    columns: Mapping[str, Any] = field(default_factory=dict)  # in addition to verl's


Draw = Callable[[Record, random.Random], Draft]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Leave out records without this property, and count them under its name."""

    name: str
    keeps: Callable[[Record], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """A data set by its name on the hub; `--source` reads a local file or folder of the same form instead."""

    path: str
    config: str | None = None
    revision: str | None = None  # default commit; None: the newest
    file: str | None = None  # the single file to read


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files outside the hub; `--source` names the folder, or the file."""

    address: str  # where to download them
    files: Callable[[Path, str], list[Path]]  # of a folder and a split: the files to read
    records: Callable[[Path, str], Iterator[tuple[str, Record]]]  # each with its place, for messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Generated records."""

    by: str  # for people
    make: Callable[[int, random.Random], Record]  # the record of a number, counted from 0
    version: int = 1  # increase it with any change that makes other records
    cycle: int = 1  # consecutive records that belong to the same split


Source = Hub | Files | Made


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One of the output files of a preparation."""

    source: str = "train"  # the split's name at the source
    size: int | None = None  # default number of rows to draw; None: all
    share: tuple[float, float] = ALL  # of the records: those whose draw from [0, 1) is in this range
    head: int | None = None  # only that many first records
    data_source: str | None = None  # None: the preparation's
    filters: tuple[Filter, ...] = ()  # after those of the preparation
    row: Draw | None = None  # None: the preparation's


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """How to prepare one data set. `name`, `seed` and the source's bytes determine every byte of the result."""

    name: str
    domain: Domain
    about: str  # one line for people
    source: Source
    columns: Mapping[str, Types]  # of a record; NoneType: may be null, or absent
    row: Draw
    data_source: str  # determines the scorer
    ability: str
    splits: Mapping[str, Split] = field(default_factory=lambda: {"train": Split()})
    filters: tuple[Filter, ...] = ()
    leaves_out: tuple[str, ...] = ()  # names of the filters that `row` applies, through LeftOut
    max_prompt_tokens: int | None = None  # None: no limit
    max_answer_tokens: int | None = None  # of the ground truth
    repeats: tuple[Repeated, ...] = ()  # keys of extra_info, in addition to the draft's
    is_played: bool = False  # by agents: its rows are for their environment, and no scorer reads them
    tests_references: bool = False  # whether each row's own program must pass its tests
    licence: str = ""  # in the publisher's words; "": unknown here
    file: str = ""  # prefix of the file's name; "": the data source

    @property
    def file_name(self) -> str:
        """The prefix of the file's name, in Reasoning360's form."""
        return (self.file or self.data_source).replace("/", "_")


def tokens_below(limit: int) -> int:
    """Return Reasoning360's limit minus its margin."""
    return limit - SPARE_TOKENS


def draw_of(seed: int, *place: object) -> random.Random:
    """Return the random generator of one place: determined by its words alone."""
    return random.Random("/".join(map(str, (seed, *place))))  # noqa: S311 - a choice of rows, not a secret
