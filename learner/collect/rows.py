"""Give the prompts of a collected run: every row of one or several sets, once, in order.

In: the sources of `data.train` or `data.held_out`, with the sampling parameters. Out: one prompt for each ordinal of
the run. The ordinals go through the sets one after the other, so a group's id gives its set and row. Used by the
feeder; the first record of the ledger has the sets, for readers.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from broker.errors import RunFailed
from broker.group_ids import ordinal_of
from broker.messages import Prompt
from config.data import SourceConfig
from config.run import Run
from learner.collect.settings import Of
from learner.data.held_out import HeldOutSet, open_set
from learner.data.ingest import source_name
from learner.data.prompts import Sampling, look_for_refused, open_sources

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Rows:
    """The rows of all sets, with the interface `learner.groups.feeder.Prompts`.

    Args:
        sets: in sampling order; `prompts` of each is how many of its rows to take.
        first: the prompt of the first set at ordinal 0.
    Attributes:
        fingerprint: of the rows and the sampling parameters.
    """

    def __init__(self, sets: Sequence[HeldOutSet], *, first: int = 0) -> None:
        self.sets = list(sets)
        self._first = first
        self._ends = list(accumulate(each.prompts for each in self.sets))
        self.fingerprint = hashlib.blake2b(json.dumps(self.facts()).encode(), digest_size=8).hexdigest()

    def __len__(self) -> int:
        return self._ends[-1]

    def facts(self) -> list[dict[str, Any]]:
        """Return the facts of each set for the ledger's first record."""
        return [
            {
                "name": each.name,
                "rows": each.prompts,
                "fingerprint": each.source.fingerprint,
                **asdict(each.sampling),
            }
            for each in self.sets
        ]

    def draws(self, epochs: int | None) -> float:
        """Return the number of groups, whatever the configured epochs."""
        del epochs
        return len(self)

    def training_prompt(self, group_id: str, *, first_row: int) -> Prompt:
        """Return the prompt of a group, by its ordinal."""
        del first_row
        ordinal = ordinal_of(group_id)
        at = bisect_right(self._ends, ordinal)
        found = self.sets[at]
        return found.source.evaluation_prompt(
            group_id, self._first + ordinal - (self._ends[at] - found.prompts), found.sampling
        )


def open_rows(run: Run, of: Of, tokenizer: PreTrainedTokenizerBase) -> Rows:
    """Read the sets of `data.train` or `data.held_out`. Raises RowError, or RunFailed where there is none."""
    sources = run.data.train_sources if of == "train" else run.data.held_out_sources
    if not sources:
        raise RunFailed("data.held_out names no set, and its rows are to be sampled")
    names = told_apart([getattr(source, "name", source_name(source)) for source in sources])
    look_for_refused(run, sources)
    sets = [
        _open_train(run, source, tokenizer) if of == "train" else open_set(run, source, tokenizer, most=None)
        for source in sources
    ]
    named = [replace(each, name=name) for each, name in zip(sets, names, strict=True)]
    return Rows(named)


def open_row(run: Run, row: int, tokenizer: PreTrainedTokenizerBase) -> Rows:
    """Read one row of `data.train`, by its number in groups: through all sources in sequence.

    Raises:
        RowError: the data can't be used.
        RunFailed: there is no such row, or it was left out.
    """
    sources = [_alone(source) for source in run.data.train_sources]
    look_for_refused(run, sources)
    prompts = open_sources(run, sources, tokenizer, shuffle=False)
    numbers = range(len(prompts))
    place = bisect_left(numbers, row, key=lambda number: prompts.place(number)[0].row)
    if place == len(prompts) or prompts.place(place)[0].row != row:
        first, last = (prompts.place(number)[0].row for number in (0, len(prompts) - 1))
        raise RunFailed(
            f"data.train has no row {row} to sample: it has {len(prompts)}, numbered {first} to {last}; "
            "`millrace data check` lists those that are left out"
        )
    one = HeldOutSet(name=f"row {row}", source=prompts, every=0, prompts=1, sampling=_training_sampling(run))
    return Rows([one], first=place)


def told_apart(names: Sequence[str]) -> list[str]:
    """Return the names, with a number after each repeated one."""
    seen: Counter[str] = Counter()
    told = []
    for name in names:
        seen[name] += 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told


def _open_train(run: Run, source: SourceConfig, tokenizer: PreTrainedTokenizerBase) -> HeldOutSet:
    """Read a source of `data.train` without its weight: each row once, in order."""
    prompts = open_sources(run, (_alone(source),), tokenizer, shuffle=False)
    return HeldOutSet(
        name="", source=prompts, every=0, prompts=len(prompts), sampling=_training_sampling(run)
    )


def _alone(source: SourceConfig) -> SourceConfig:
    return source.model_copy(update={"weight": None, "epochs": None} if hasattr(source, "weight") else {})


def _training_sampling(run: Run) -> Sampling:
    sampling = run.sampling
    return Sampling(n=sampling.group_size, temperature=sampling.temperature, max_tokens=sampling.max_tokens)
