"""Give prompts in the run's order: rows of a data set, or generated problems.

In: `data.train` or `data.held_out`. Out: one `Prompt` for each ordinal of the run. Runs in the learner's feeder. The
order is a function of the ordinal and the run's seed, so returning to any position means setting a number. A row
without an answer is an error when the data are read; rows that their scorer refuses, and prompts over the limit, are
counted and left out. No prompt is truncated.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from broker.errors import RunFailed
from broker.group_ids import ordinal_of
from broker.messages import NO_IDS, NOTHING, Ids, JsonObject, Prompt, Split, Turn
from config.data import DatasetSource, SourceConfig
from config.run import Run
from learner.data.gold import GoldTest, gold_tests
from learner.data.ingest import Ingested, doubts, ingest, source_name
from learner.data.lengths import prompt_lengths, tokenize
from learner.data.order import SourceShare, order_of
from learner.data.refused import RefusedRows, SourceRefusals
from learner.data.row import Row, RowError
from learner.data.store import RowList, RowStore
from tasks.chat_template import template_name
from tasks.model_chat import load_templated_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """The row of a draw."""

    epoch: int  # passes over the data, or over that row's source, before this one
    row: int  # index in the source, counting rows left out; of several sources, in their concatenation


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRows:
    """The rows of one source, and which of them become prompts."""

    rows: RowStore | RowList
    kept: NDArray[np.int64]  # indices in `rows`
    first: int = 0  # index of the source's row 0 among those of all sources
    weight: float | None = None
    epochs: int | None = None

    @classmethod
    def of_rows(cls, rows: Sequence[Row]) -> PromptRows:
        """Return a part made of rows in memory, all of which become prompts."""
        return cls(rows=RowList(rows), kept=np.arange(len(rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the groups of some prompts are sampled."""

    n: int
    temperature: float
    max_tokens: int
    top_p: float = 1.0  # must stay 1 for training, see `config.generators`


class PromptSource:
    """The prompts of one source, or of several that take turns.

    Args:
        parts: the rows of each source.
        fingerprint: of the data and of the selection.
    """

    def __init__(
        self,
        run: Run,
        parts: Sequence[PromptRows],
        fingerprint: str,
        tokenizer: PreTrainedTokenizerBase,
        *,
        shuffle: bool,
    ) -> None:
        self.run = run
        self.fingerprint = fingerprint
        self._parts = parts
        self._tokenizer = tokenizer
        shares = [SourceShare(size=len(part.kept), weight=part.weight, epochs=part.epochs) for part in parts]
        self._order = order_of(shares, seed=run.seed, shuffle=shuffle)

    def __len__(self) -> int:
        return sum(len(part.kept) for part in self._parts)

    def draws(self, epochs: int | None) -> float:
        """Return the number of draws of that many epochs, None: as many as there are; may be infinite."""
        return min(self._order.draws, math.inf if epochs is None else epochs * len(self))

    def place(self, number: int) -> tuple[DrawnRow, Row]:
        """Return the place and row of a draw in the run's order."""
        draw = self._order.draw(number)
        part = self._parts[draw.source]
        place = int(part.kept[draw.row])
        return DrawnRow(draw.epoch, part.first + int(part.rows.numbers[place])), part.rows[place]

    def training_prompt(self, group_id: str, *, first_row: int) -> Prompt:
        """Return a training group's prompt: the draw of its ordinal. The floor is set at issue.

        Args:
            first_row: the draw of this run's ordinal 0.
        """
        place, content = self.place(first_row + ordinal_of(group_id))
        sampling = self.run.sampling
        return self._prompt(
            group_id,
            Split.TRAIN,
            place,
            content,
            Sampling(n=sampling.group_size, temperature=sampling.temperature, max_tokens=sampling.max_tokens),
        )

    def evaluation_prompt(self, group_id: str, index: int, sampling: Sampling) -> Prompt:
        """Return held-out prompt `index` with its group's id."""
        place, row = self.place(index)
        return self._prompt(group_id, Split.EVAL, place, row, sampling)

    def _prompt(self, group_id: str, split: Split, place: DrawnRow, row: Row, sampling: Sampling) -> Prompt:
        seed = int.from_bytes(
            hashlib.blake2b(f"{self.run.seed} {group_id}".encode(), digest_size=4).digest(), "little"
        )
        return Prompt(
            group_id=group_id,
            split=split,
            task=row.task,
            n=sampling.n,
            floor=0,
            issued_at=time.time(),
            epoch=place.epoch,
            row=place.row,
            fingerprint=self.fingerprint,
            seed=seed,
            temperature=sampling.temperature,
            max_tokens=sampling.max_tokens,
            messages=self._messages(row),
            token_ids=self._ids(row),
            verification_info=JsonObject(row.verification_info),
            data_source=row.data_source,
            columns=JsonObject(row.columns) if row.columns else NOTHING,
            top_p=sampling.top_p,
        )

    def _messages(self, row: Row) -> tuple[Turn, ...]:
        """Return the chat for people; complete where agents render it."""
        if self.run.plays(row.task):
            return tuple(map(dict, row.messages))
        return tuple({"role": turn["role"], "content": turn["content"]} for turn in row.messages)

    def _ids(self, row: Row) -> Ids:
        """Return the ids of a prompt; none where agents make them at the episode's start."""
        if self.run.plays(row.task):
            return NO_IDS
        return np.asarray(tokenize(self._tokenizer, row), dtype=np.int32)


def load_tokenizer(run: Run) -> PreTrainedTokenizerBase:
    """Load the policy's tokenizer with its chat template, or `model.chat_template` instead.

    Raises:
        RunFailed: it can't be loaded, there is no template, or the template is no jinja.
    """
    return load_templated_tokenizer(run.model)


def check_reference(run: Run, tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that the reference model of the KL term has the policy's tokens.

    Raises:
        RunFailed: the reference's tokenizer can't be loaded, or maps ids to other tokens.
    """
    from transformers import AutoTokenizer

    kl, model = run.learner.objective.kl, run.model
    if not kl.coef or kl.reference is None:
        return
    token = model.hf_token.get_secret_value() if model.hf_token else None
    key = f"learner.objective.kl.reference={kl.reference}"
    try:
        other: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            kl.reference, token=token, trust_remote_code=model.trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise RunFailed(f"{key}: its tokenizer can't be loaded: {error}") from error
    own, others = tokenizer.get_vocab(), other.get_vocab()
    if differing := sorted(word for word in own.keys() | others.keys() if own.get(word) != others.get(word)):
        word = differing[0]
        raise RunFailed(
            f"{key}: {len(differing)} of its tokens are not the policy's (as {word!r}: {others.get(word)}, and in "
            f"{model.path} {own.get(word)}): the divergence would be between other texts"
        )


def open_sources(
    run: Run,
    sources: Sequence[SourceConfig],
    tokenizer: PreTrainedTokenizerBase,
    *,
    shuffle: bool,
    limit: int | None = None,
) -> PromptSource:
    """Read `sources`, leave out prompts that are too long, and log how many.

    Args:
        run: has the scorers, and the settings of `data` for all sources.
        sources: used one after the other, unless they have shares.
        tokenizer: the policy's.
        shuffle: whether each epoch has its own order.
        limit: most tokens of a prompt; None: `data.max_prompt_tokens`.
    Raises:
        RowError: a row without an answer, of an unknown task, or without a prompt; no row left.
    """
    limit = run.data.max_prompt_tokens if limit is None else limit
    parts: list[PromptRows] = []
    digests = []
    first = 0
    every = [ingest(run, source) for source in sources]
    for source, found, kept in zip(
        sources, every, _usable(run, sources, every, tokenizer, limit), strict=True
    ):
        parts.append(
            PromptRows(
                rows=found.rows,
                kept=kept.places,
                first=first,
                weight=getattr(source, "weight", None),
                epochs=getattr(source, "epochs", None),
            )
        )
        for text in doubts(run, found.rows):
            log.warning("source_read_in_two_ways source=%s %s", source_name(source), text)
        digests.append(_fingerprint(found, kept.places, limit, by_number=kept.by_number))
        first += found.count
    shares = [[part.weight, part.epochs] for part in parts]
    has_shares = any(value is not None for share in shares for value in share)
    digest = digests[0] if len(digests) == 1 and not has_shares else _digest([digests, shares])
    return PromptSource(run, parts, digest, tokenizer, shuffle=shuffle)


def look_for_refused(run: Run, sources: Sequence[SourceConfig]) -> None:
    """Let the scorers check the files of several sources at once, before `open_sources` reads each.

    The results are stored with the rows, so that the sources need not wait for a process each.
    """
    files = [source for source in sources if isinstance(source, DatasetSource)]
    if len(files) < 2:
        return
    rows = [ingest(run, source).rows for source in files]
    if run.data.gold_test:
        gold_tests(run, rows)
        return
    with RefusedRows(run, rows) as check:
        check.result()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usable:
    """The rows of a source that become prompts."""

    places: NDArray[np.int64]
    by_number: bool  # whether the rows themselves decide, and not only their lengths


def _usable(
    run: Run,
    sources: Sequence[SourceConfig],
    every: Sequence[Ingested],
    tokenizer: PreTrainedTokenizerBase,
    limit: int,
) -> list[Usable]:
    """Return the rows of each source that become prompts, and log how many of the others there are.

    The scorers check the rows while they are tokenized; the gold test, where there is one, includes this check.
    """
    if run.data.gold_test:
        kept = [
            within_limit(run, source, found, tokenizer, limit)
            for source, found in zip(sources, every, strict=True)
        ]
        tested = gold_tests(run, [found.rows for found in every])
        return [
            Usable(places=_without_wrong(source, found, places, one), by_number=True)
            for source, found, places, one in zip(sources, every, kept, tested, strict=True)
        ]
    with RefusedRows(run, [found.rows for found in every]) as check:
        kept = [
            within_limit(run, source, found, tokenizer, limit)
            for source, found in zip(sources, every, strict=True)
        ]
        refused = check.result()
    unchecked = {reason: count for one in refused for reason, count in one.unchecked.items()}
    for reason, count in unchecked.items():
        log.warning("rows_unchecked count=%d reason=%r: they are kept", count, reason)
    return [
        Usable(places=_without_refused(source, found, places, one), by_number=bool(len(one.places)))
        for source, found, places, one in zip(sources, every, kept, refused, strict=True)
    ]


def lengths_of(
    run: Run, rows: RowStore | RowList, tokenizer: PreTrainedTokenizerBase
) -> tuple[NDArray[np.int32], Mapping[int, str]]:
    """Return what `prompt_lengths` does, with 0 for a row that agents play: they check the prompt, with its tools."""
    if all(map(run.plays, run.scorers.tasks)):
        return np.zeros(len(rows), np.int32), {}
    lengths, failed = prompt_lengths(tokenizer, rows)
    if run.has_agents:
        played = np.fromiter((run.plays(row.task) for row in rows.rows()), bool, len(rows))
        lengths = np.where(played, 0, lengths)
        failed = {place: reason for place, reason in failed.items() if not played[place]}
    return lengths, failed


def within_limit(
    run: Run, source: SourceConfig, found: Ingested, tokenizer: PreTrainedTokenizerBase, limit: int
) -> NDArray[np.int64]:
    """Return the indices of rows whose prompts fit the policy, and log how many do not.

    Raises:
        RowError: the chat template fails for a row that may not be quarantined, or no row is left.
    """
    lengths, failed = lengths_of(run, found.rows, tokenizer)
    name = source_name(source)
    if failed and run.data.bad_rows == "refuse":
        lines = [
            f"{name} row {int(found.rows.numbers[place])}: {template_name(run.model)} fails: {reason}"
            for place, reason in failed.items()
        ]
        raise RowError(*lines, of_rows=True)
    kept = np.flatnonzero((lengths <= limit) & (lengths >= 0))
    longest = int(lengths.max(initial=0))
    if left_out := int((lengths > limit).sum()):
        log.warning(
            "prompts_left_out count=%d of=%d longest_tokens=%d data.max_prompt_tokens=%d",
            left_out,
            len(found.rows),
            longest,
            limit,
        )
    if not len(kept):
        raise RowError(
            f"{name}: no prompt of {len(found.rows)} is within data.max_prompt_tokens={limit}; "
            f"the longest has {longest}"
        )
    return kept


def _without_refused(
    source: SourceConfig, found: Ingested, kept: NDArray[np.int64], refused: SourceRefusals
) -> NDArray[np.int64]:
    """Return the indices of rows that their scorer accepts, and log how many it refuses.

    Raises:
        RowError: no row is left.
    """
    if not len(refused.places):
        return kept
    place, reason = next(refused.reasons())
    first = f"row {int(found.rows.numbers[place])}: {reason}"
    log.warning(
        "rows_refused source=%s count=%d of=%d first=%r: `millrace data check` lists them",
        source_name(source),
        len(refused.places),
        len(found.rows),
        first,
    )
    taken = np.setdiff1d(kept, refused.places)
    if not len(taken):
        raise RowError(
            f"{source_name(source)}: its scorer takes no row that is short enough; the first: {first}"
        )
    return taken


def _without_wrong(
    source: SourceConfig, found: Ingested, kept: NDArray[np.int64], tested: GoldTest
) -> NDArray[np.int64]:
    """Return the indices of rows that pass the gold test, and log how many do not.

    Raises:
        RowError: no row is left.
    """
    right = np.setdiff1d(kept, np.fromiter(tested.left_out, dtype=np.int64, count=len(tested.left_out)))
    log.log(
        logging.WARNING if tested.left_out else logging.INFO,
        "gold_test source=%s left_out=%d untested=%d of=%d: `millrace data check` lists them",
        source_name(source),
        len(tested.left_out),
        sum(map(len, tested.untested.values())),
        len(found.rows),
    )
    if not len(right):
        reason = next(iter(tested.left_out.values()))[1]
        raise RowError(f"{source_name(source)}: no row passes the gold test; the first: {reason}")
    return right


def _fingerprint(found: Ingested, kept: NDArray[np.int64], limit: int, *, by_number: bool) -> str:
    """Return the fingerprint of one source's prompts; where only length decides, by the count of kept rows."""
    if len(found.rows) == found.count and not by_number:
        return _digest([found.fingerprint, limit, len(kept)])
    numbers = hashlib.blake2b(found.rows.numbers[kept].tobytes(), digest_size=8).hexdigest()
    return _digest([found.fingerprint, limit, len(kept), numbers])


def _digest(facts: object) -> str:
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=8).hexdigest()
