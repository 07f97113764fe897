"""Classify the rows of a run's sources: usable, too long, repeated, refused, or with a wrong reference.

In: a run's configuration, its sources on disk, and the policy's tokenizer. Out: counts for each data source, and a
record of each unusable row, with the reason. The learner's own code reads, tokenizes and tests, so the counts match
what a run would train on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from config.run import Run
from learner.data.gold import GoldTest, gold_tests
from learner.data.ingest import Ingested, doubts, ingest, source_name
from learner.data.prompts import lengths_of
from learner.data.refused import RefusedRows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

UNNAMED: Final = "(no data_source)"
TRAIN: Final = "train"


@dataclass(slots=True)
class SourceCounts:
    """The number of rows of one data source in each class."""

    rows: int = 0
    usable: int = 0  # for training or evaluation in a run
    unusable: int = 0  # no prompt, no answer, no such task
    refused: int = 0  # by their scorer, or an answer without work passes
    wrong: int = 0  # whose own reference does not score 1
    untested: int = 0  # no right answer can be written for them: usable
    no_prompt: int = 0  # for which the chat template fails
    too_long: int = 0
    changed: int = 0  # reading has changed a value: usable
    repeated: int = 0  # an earlier row of the same kind has the same prompt: usable
    in_train: int = 0  # held-out rows with a training prompt: usable


@dataclass(frozen=True, slots=True)
class SourceSurvey:
    """The classes of one source's rows."""

    key: str  # `data.train`, or `data.train.0` in a list
    name: str  # of the source, for people
    counts: dict[str, SourceCounts] = field(default_factory=dict)  # by data source
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)  # data sources that two systems read differently
    changed: list[str] = field(default_factory=list)  # changes that reading has made, by row
    untested: dict[str, int] = field(default_factory=dict)  # why no right answer was tested -> rows


def survey(run: Run, tokenizer: PreTrainedTokenizerBase, *, is_gold_tested: bool) -> Iterator[SourceSurvey]:
    """Yield each source's survey. Raises RowError for a source that can't be read at all."""
    run = run.model_copy(update={"data": run.data.model_copy(update={"bad_rows": "quarantine"})})
    seen: dict[
        str, list[NDArray[np.int64]]
    ] = {}  # hashes of prompts, of all training sources and of each held-out one
    sources = run.data.keyed_sources()
    every = [ingest(run, source) for source in sources.values()]
    examined = _examined(run, every, tokenizer, is_gold_tested=is_gold_tested)
    for (key, source), found, (gold, lengths) in zip(sources.items(), every, examined, strict=True):
        kind = TRAIN if key.partition(".")[0] == TRAIN else key
        limit = getattr(source, "max_prompt_tokens", None) or run.data.max_prompt_tokens
        one = SourceSurvey(f"data.{key}", source_name(source))
        one.doubts.extend(doubts(run, found.rows))
        one.untested.update({reason: len(places) for reason, places in gold.untested.items()})
        _count(one, found, gold, lengths, limit)
        _count_repeated(one, found, seen.get(kind, []), [] if kind == TRAIN else seen.get(TRAIN, []))
        seen.setdefault(kind, []).append(np.asarray(found.rows.prompts))
        yield one


def _examined(
    run: Run, every: Sequence[Ingested], tokenizer: PreTrainedTokenizerBase, *, is_gold_tested: bool
) -> list[tuple[GoldTest, tuple[NDArray[np.int32], Mapping[int, str]]]]:
    """Return the scorers' results for each source, and its rows' lengths; without the gold test, as at every start."""
    rows = [found.rows for found in every]
    if is_gold_tested:
        tested = gold_tests(run, rows)
        lengths = [lengths_of(run, one, tokenizer) for one in rows]
    else:
        with RefusedRows(run, rows) as check:
            lengths = [lengths_of(run, one, tokenizer) for one in rows]
            refused = check.result()
        left_out = [{place: ("refused", reason) for place, reason in one.reasons()} for one in refused]
        tested = [GoldTest(left_out=one, untested={}) for one in left_out]
    return list(zip(tested, lengths, strict=True))


def _count(
    one: SourceSurvey,
    found: Ingested,
    gold: GoldTest,
    measured: tuple[NDArray[np.int32], Mapping[int, str]],
    limit: int,
) -> None:
    lengths, failed = measured
    untested = {place for places in gold.untested.values() for place in places}
    for facts in found.rows.quarantined():
        counts = _of(one, facts["data_source"])
        counts.rows += 1
        counts.unusable += 1
        one.quarantined.append({"source": one.key, **facts})
    for facts in found.rows.changed():
        _of(one, facts["data_source"]).changed += 1
        one.changed.extend(facts["changed"])
    for place, row in enumerate(found.rows.rows()):
        counts = _of(one, row.data_source)
        counts.rows += 1
        by, reason = gold.left_out.get(place, ("", ""))
        if place in failed:
            by, reason = "template", f"the chat template fails: {failed[place]}"
        counts.untested += place in untested
        match by:
            case "refused":
                counts.refused += 1
            case "wrong":
                counts.wrong += 1
            case "template":
                counts.no_prompt += 1
            case _ if lengths[place] > limit:
                counts.too_long += 1
            case _:
                counts.usable += 1
        if by:
            number = int(found.rows.numbers[place])
            one.quarantined.append(
                {
                    "source": one.key,
                    "row": number,
                    "data_source": row.data_source,
                    "reason": f"{one.name} row {number}: {reason}",
                    "by": by,
                    "messages": [dict(turn) for turn in row.messages],
                    "verification_info": row.verification_info,
                }
            )


def _count_repeated(
    one: SourceSurvey, found: Ingested, before: list[NDArray[np.int64]], train: list[NDArray[np.int64]]
) -> None:
    """Count the rows with an earlier row's prompt, and the held-out ones with a training prompt."""
    prompts = np.asarray(found.rows.prompts)
    is_repeated = np.ones(len(prompts), dtype=bool)
    is_repeated[np.unique(prompts, return_index=True)[1]] = False
    if before:
        is_repeated |= np.isin(prompts, np.concatenate(before))
    is_trained = np.isin(prompts, np.concatenate(train)) if train else np.zeros(len(prompts), dtype=bool)
    for place in np.flatnonzero(is_repeated | is_trained):
        counts = _of(one, found.rows[int(place)].data_source)
        counts.repeated += bool(is_repeated[place])
        counts.in_train += bool(is_trained[place])


def _of(one: SourceSurvey, data_source: str) -> SourceCounts:
    return one.counts.setdefault(data_source or UNNAMED, SourceCounts())
