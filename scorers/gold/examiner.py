"""Rows are examined here: does the scorer take the row, and does the row's own reference score 1?

In: rows, each with its task, its `verification_info` and the solution that it may have beside it. Out: a verdict for
each, in their order. A row is first shown to its scorer's `check_row`, in this process; its reference is scored in
processes of their own, as many as there are CPUs. A failure of the machinery is no verdict on the row: it is said, and
the row counts as untested.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from broker.errors import BadMessage, PipelineError
from config.scorers import ScorersConfig
from scorers.api import RowWorkerClient, ScoringFailed
from scorers.child.row_worker import ROWS_FAULTS, TEXT_KEY, Result
from scorers.gold.rendering import gold_response
from scorers.registry import Scorers
from scorers.rows.row_workers import RowWorkers

AHEAD: Final = 8  # rows for each process that are begun before the first one's result is waited for


class Verdict(StrEnum):
    """What an examined row is."""

    RIGHT = "right"  # its reference scores 1
    WRONG = "wrong"  # its reference scores less
    REFUSED = "refused"  # its scorer could never score it
    UNTESTED = "untested"  # no right answer of it can be written here


@dataclass(frozen=True, slots=True)
class Examined:
    """A row's verdict."""

    verdict: Verdict
    reason: str  # for people; "" of one that is right


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A row to examine."""

    task: str
    verification_info: Mapping[str, Any]
    solution: str = ""


def examine(config: ScorersConfig, rows: Iterable[Candidate]) -> Iterator[Examined]:
    """Yield the verdict of each row, in the order of `rows`. Raises ScoringFailed where no process can be started."""
    count = len(os.sched_getaffinity(0))
    workers = RowWorkers(config, count)
    under_way: deque[Examined | tuple[str, Future[Result]]] = deque()
    is_interrupted = True
    with closing(Scorers(config)) as scorers:
        try:
            for row in rows:
                under_way.append(_begun(config, scorers, workers, row))
                if len(under_way) > AHEAD * count:
                    yield _ended(under_way.popleft())
            while under_way:
                yield _ended(under_way.popleft())
            is_interrupted = False
        finally:
            workers.close(is_interrupted=is_interrupted)


def _begun(
    config: ScorersConfig, scorers: Scorers, workers: RowWorkers, row: Candidate
) -> Examined | tuple[str, Future[Result]]:
    """Return a verdict that is known at once, or the response whose score decides."""
    task = config.tasks[row.task]
    try:
        for scorer in (scorers.of(task), *scorers.extra_scorers(task).values()):
            scorer.check_row(row.verification_info)
        response = gold_response(row.verification_info, row.solution, task.scorer)
    except BadMessage as error:
        return Examined(Verdict.REFUSED, str(error))
    except PipelineError as error:  # a scorer that this machine can't build
        return Examined(Verdict.UNTESTED, str(error))
    if response is None:
        return Examined(
            Verdict.UNTESTED,
            f"no right answer to a row of type {row.verification_info.get('type')} is known here",
        )
    line = {TEXT_KEY: response, "task": row.task, "verification_info": row.verification_info}
    return response, workers.submit(partial(RowWorkerClient.result, line=json.dumps(line).encode()))


def _ended(found: Examined | tuple[str, Future[Result]]) -> Examined:
    if isinstance(found, Examined):
        return found
    response, call = found
    try:
        result = call.result()
    except ScoringFailed as error:
        return Examined(Verdict.UNTESTED, str(error))
    if result["value"] is None and result.get("fault") in ROWS_FAULTS:
        return Examined(Verdict.REFUSED, str(result["reason"]))
    if result["value"] is None and (result.get("fault") or result["status"] != "unscorable"):
        return Examined(Verdict.UNTESTED, str(result["reason"]))
    if result["value"] is not None and result["value"] >= 1.0:
        return Examined(Verdict.RIGHT, "")
    scores = "has no score" if result["value"] is None else f"scores {result['value']:g}"
    return Examined(Verdict.WRONG, f"its reference {scores}: {result['reason']} (for {response[:200]!r})")
