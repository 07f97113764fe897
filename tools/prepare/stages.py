"""Carry out a preparation: read, filter, make rows, test references, measure, draw.

In: a preparation and the command's request. Out: rows in a spool, the numbers of the drawn ones, how many records each
stage left out, and the quarantined rows. Records are processed one by one; only the drawing needs all. Each random
choice has its own generator, seeded by seed, set and record: so another filter or a smaller size changes no other row.
A reference is tested by the project's own scorers, in their processes and sandbox; nothing of a data set is executed
here. An invalid source raises `BadRecord`, and no file is left.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.errors import BadMessage
from tasks.kinds import TASK_OF_TYPE
from tasks.route import route
from tasks.turns import text_of
from tasks.values import plain
from tools.prepare.preparation import ALL, BadRecord, Draft, LeftOut, Made, Preparation, Record, draw_of
from tools.prepare.source import belongs, check_record, open_source
from tools.prepare.spool import Spool

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

READ: Final = "read"
SHARE: Final = "in the split's share"
SCORED: Final = "its scorer can read it"
TESTED: Final = "its reference can be tested"
REFERENCE: Final = "its reference is right"
DRAWN: Final = "drawn"
ANSWER: Final = "an answer of at most {} tokens"
PROMPT: Final = "at most {} tokens"
TRIES: Final = (
    20  # rounds of generated records of which none is kept; references that can't be tested from the start
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest:
    """The command's request."""

    split: str = "train"
    size: int | None = None  # rows; None: the split's own size
    seed: int = 42  # Reasoning360's
    path: Path | None = None  # of the local source; None: the hub
    revision: str | None = None
    limit: int | None = None  # only that many first records
    tokenizer: PreTrainedTokenizerBase | None = None  # None: no limits on length
    max_prompt_tokens: int | None = None  # by the tokenizer; None: no limit
    is_gold_tested: bool = False  # whether to test references of a set that does not require it


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """The origin of a row."""

    number: int  # of its record
    where: str  # for messages


@dataclass(slots=True)
class LeftOutTally:
    """The number of records that each stage left out, in the order of the stages."""

    read: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    def leave_out(self, name: str, count: int = 1) -> None:
        """Count records that a stage left out."""
        self.left_out[name] += count

    def lines(self) -> list[dict[str, Any]]:
        """Return a line for each stage: its name, the number left out, and the number left."""
        rows = self.read
        found = [{"stage": READ, "left_out": 0, "rows": rows}]
        for name, count in self.left_out.items():
            rows -= count
            found.append({"stage": name, "left_out": count, "rows": rows})
        return found

    def __str__(self) -> str:
        """Return the number of rows after each stage, for messages."""
        return ", ".join(f"{line['stage']}: {line['rows']}" for line in self.lines())


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRows:
    """The result of a preparation."""

    chosen: list[int]  # numbers of the spool's rows
    tally: LeftOutTally
    origin: Mapping[str, Any]
    quarantined: list[dict[str, Any]]  # in the order of their records


Placed = tuple[RowOrigin, dict[str, Any]]


def prepare(preparation: Preparation, request: PrepareRequest, spool: Spool) -> PreparedRows:
    """Fill `spool` with a preparation's rows, and choose the drawn ones.

    Raises:
        BadRecord: a source or a record differs from its publisher's description, or no row is left.
    """
    split = preparation.splits[request.split]
    opened = open_source(preparation, split, path=request.path, revision=request.revision, seed=request.seed)
    work = _Work(preparation, request)
    size = split.size if request.size is None else request.size
    if isinstance(preparation.source, Made) and size is not None:
        work.make(opened.records, spool, size)
    else:
        for _, row in work.kept(work.drafted(opened.records)):
            spool.add(row)
    chosen = list(range(len(spool)))
    if size is not None and len(chosen) > size:
        chosen = sorted(draw_of(request.seed, preparation.name, request.split, "size").sample(chosen, size))
        work.tally.leave_out(DRAWN, len(spool) - size)
    if not chosen:
        raise BadRecord(f"no row of {preparation.name} is left: {work.tally}")
    found = [work.quarantine[number] for number in sorted(work.quarantine)]
    return PreparedRows(chosen=chosen, tally=work.tally, origin=opened.origin, quarantined=found)


class _Work:
    """The stages of one preparation, each of which takes rows and yields the kept ones."""

    def __init__(self, preparation: Preparation, request: PrepareRequest) -> None:
        self._preparation = preparation
        self._request = request
        self._split = preparation.splits[request.split]
        self._filters = (*preparation.filters, *self._split.filters)
        self._is_made = isinstance(preparation.source, Made)
        self._is_tested = preparation.tests_references or request.is_gold_tested
        self.tally = LeftOutTally(left_out=dict.fromkeys(self._stages(), 0))
        self.quarantine: dict[int, dict[str, Any]] = {}  # by record number

    def _stages(self) -> list[str]:
        """Return the names of everything that may leave rows out, in order."""
        has_share = self._split.share != ALL and not self._is_made
        return [
            *([SHARE] if has_share else []),
            *(one.name for one in self._filters),
            *self._preparation.leaves_out,
            SCORED,
            *([TESTED, REFERENCE] if self._is_tested else []),
            *(name.format(limit) for name, limit in self._limits()),
            DRAWN,
        ]

    def _limits(self) -> list[tuple[str, int]]:
        """Return the tokenizer's limits; none without one."""
        limits = ((ANSWER, self._preparation.max_answer_tokens), (PROMPT, self._request.max_prompt_tokens))
        return [
            (name, limit)
            for name, limit in limits
            if limit is not None and self._request.tokenizer is not None
        ]

    def make(self, records: Iterator[tuple[int, str, Record]], spool: Spool, size: int) -> None:
        """Make exactly as many rows as are missing, repeatedly if some were not kept: counts do not depend on the CPUs.

        Raises:
            BadRecord: repeatedly none is kept.
        """
        fruitless = 0
        while len(spool) < size and fruitless < TRIES:
            before = len(spool)
            for _, row in self.kept(self.drafted(itertools.islice(records, size - before))):
                spool.add(row)
            fruitless = 0 if len(spool) > before else fruitless + 1
        if len(spool) < size:
            raise BadRecord(
                f"of {self.tally.read} made records of {self._preparation.name} {len(spool)} were kept, and {size} "
                f"are wanted: {self.tally}"
            )

    def drafted(self, records: Iterator[tuple[int, str, Record]]) -> Iterator[Placed]:
        """Yield the row of each record that passes the filters and that a scorer can read. Raises BadRecord."""
        preparation, seed = self._preparation, self._request.seed
        ends = [end for end in (self._split.head, self._request.limit) if end is not None]
        for number, where, record in records:
            if ends and self.tally.read >= min(ends):
                return
            self.tally.read += 1
            if not self._is_made and not belongs(preparation, self._split, seed, number):
                self.tally.leave_out(SHARE)
                continue
            check_record(record, preparation.columns, where)
            row = None
            try:
                self._filter(record)
                make = self._split.row or preparation.row
                row = self._row(number, make(record, draw_of(seed, preparation.name, "row", number)))
                if not preparation.is_played:
                    route(row)
            except LeftOut as left:
                self.tally.leave_out(str(left))
            except BadRecord as error:
                raise BadRecord(f"{where}{error}") from error
            except BadMessage as error:
                self._quarantine(RowOrigin(number, where), SCORED, str(error), row)
            else:
                yield RowOrigin(number, where), row

    def _filter(self, record: Record) -> None:
        """Raise LeftOut with the name of the first filter that a record fails."""
        for one in self._filters:
            if not one.keeps(record):
                raise LeftOut(one.name)

    def _row(self, number: int, draft: Draft) -> dict[str, Any]:
        """Return a row of verl, of JSON types. Raises BadMessage for other types."""
        preparation = self._preparation
        repeated = {"original_prompt": draft.prompt, "id": str(number)}
        extra: dict[str, Any] = {name: repeated[name] for name in preparation.repeats}
        chat = [{"role": "user", "content": draft.prompt}] if isinstance(draft.prompt, str) else draft.prompt
        row = {
            "data_source": self._split.data_source or preparation.data_source,
            "prompt": [dict(turn) for turn in chat],
            "ability": preparation.ability,
            "apply_chat_template": True,
            "reward_model": {"style": "rule", "ground_truth": draft.ground_truth},
            "extra_info": {"split": self._request.split, "index": number, **draft.extra, **extra},
            **draft.columns,
        }
        found: dict[str, Any] = plain(row, "the row")
        return found

    def kept(self, rows: Iterator[Placed]) -> Iterator[Placed]:
        """Yield the rows with a right reference and within the length limits, where requested. Raises BadRecord."""
        if self._is_tested:
            rows = self._tested(rows)
        return rows if self._request.tokenizer is None else self._short(rows, self._request.tokenizer)

    def _tested(self, rows: Iterator[Placed]) -> Iterator[Placed]:
        """Yield the rows whose reference scores 1, and those for which no right answer can be written.

        A row on which the machinery failed is unknown: it is quarantined under a separate name.

        Raises:
            BadRecord: it failed on every row.
        """
        from scorers.api import all_tasks
        from scorers.gold.examiner import Candidate, RowVerdict, examine

        config = all_tasks()
        waiting: deque[tuple[RowOrigin, dict[str, Any], str]] = deque()

        def candidates() -> Iterator[Candidate]:
            for place, row in rows:
                task, info = route(row, config.tasks)
                is_program = TASK_OF_TYPE.get(info["type"]) == "code"
                solution = (row["extra_info"].get("reference") or "") if is_program else ""
                waiting.append((place, row, solution))
                yield Candidate(task=task, verification_info=info, solution=solution)

        number, failed, reason = 0, 0, ""
        for number, found in enumerate(examine(config, candidates()), start=1):
            place, row, solution = waiting.popleft()
            if found.verdict is RowVerdict.UNTESTED and solution:
                failed, reason = (
                    failed + 1,
                    f"{place.where}: its reference could not be tested: {found.reason}",
                )
                self._quarantine(place, TESTED, found.reason, row)
                if failed == number >= TRIES:
                    raise BadRecord(reason)
            elif found.verdict in (RowVerdict.RIGHT, RowVerdict.UNTESTED):
                yield place, row
            else:
                self._quarantine(place, REFERENCE, found.reason, row)
        if failed and failed == number:
            raise BadRecord(reason)

    def _short(self, rows: Iterator[Placed], tokenizer: PreTrainedTokenizerBase) -> Iterator[Placed]:
        """Yield the rows whose answer and templated chat are within the token limits."""
        limits = self._limits()
        for place, row in rows:
            chat = row["prompt"]
            text = (
                tokenizer.apply_chat_template(chat, tokenize=False)
                if tokenizer.chat_template
                else "\n".join(text_of(turn) for turn in chat)
            )
            texts = {ANSWER: str(row["reward_model"]["ground_truth"]), PROMPT: str(text)}
            for name, limit in limits:
                length = len(tokenizer.encode(texts[name], add_special_tokens=False, verbose=False))
                if length > limit:
                    self.tally.leave_out(name.format(limit))
                    break
                if name == ANSWER:
                    row["extra_info"]["token_length"] = length
            else:
                yield place, row

    def _quarantine(self, place: RowOrigin, stage: str, reason: str, row: Mapping[str, Any] | None) -> None:
        self.tally.leave_out(stage)
        self.quarantine[place.number] = {
            "record": place.number,
            "where": place.where,
            "stage": stage,
            "reason": reason,
            "row": row,
        }
