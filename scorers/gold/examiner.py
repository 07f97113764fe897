"""Rows are examined here: does the scorer take the row, does its own reference score 1, and no answer without work?

In: rows, each with its task, its `verification_info` and the solution that it may have beside it. Out: a verdict for
each, in their order. A row is first shown to its scorer's `check_row`, in this process; its reference is scored in
processes of their own, as many as there are CPUs. There a row with tests is also tried with stubs, which return
nothing, an empty list, their argument or a constant: a row that one of them passes is refused. A failure of the
machinery, or what this machine lacks, is no verdict on the row: it is said, and the row counts as untested.
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
from config.scorers import ScorersConfig, TaskConfig
from scorers.api import RowWorkerClient, ScoringFailed
from scorers.build import Scorers
from scorers.child.frames import EPISODE_KEY, ROWS_FAULTS, STUB_KEY, TEXT_KEY, Result
from scorers.gold.rendering import gold_response
from scorers.retries import was_given_up
from scorers.rows.row_workers import RowWorkers
from scorers.scorer import LACKING, Trying

AHEAD: Final = 8  # rows for each process that are begun before the first one's result is waited for


class RowVerdict(StrEnum):
    """What an examined row is."""

    RIGHT = "right"  # its reference scores 1
    WRONG = "wrong"  # its reference scores less
    REFUSED = "refused"  # its scorer could never score it, or a stub passes it
    UNTESTED = "untested"  # no right answer of it can be written here


@dataclass(frozen=True, slots=True)
class Examined:
    """A row's verdict."""

    verdict: RowVerdict
    reason: str  # for people; "" of one that is right


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A row to examine."""

    task: str
    verification_info: Mapping[str, Any]
    solution: str = ""
    played: Mapping[str, Any] | None = None  # what `agents.references` says of it; None: nobody plays it


def examine(config: ScorersConfig, rows: Iterable[Candidate]) -> Iterator[Examined]:
    """Yield the verdict of each row, in the order of `rows`. Raises ScoringFailed where no process can be started."""
    count = len(os.sched_getaffinity(0))
    workers = RowWorkers(config, count)
    under_way: deque[Examined | _Asked] = deque()
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a process was asked of a row: the score of its reference, and which stub passes it."""

    reference: tuple[str, Future[Result]] | None  # the response, and its result; None: none can be written
    trial: Future[Result] | None  # None: the row has no tests
    untested: str  # why there is no reference


def _begun(config: ScorersConfig, scorers: Scorers, workers: RowWorkers, row: Candidate) -> Examined | _Asked:
    """Return a verdict that is known at once, or what was asked to find it."""
    task = config.tasks[row.task]
    try:
        for scorer in (scorers.of(task), *scorers.extra_scorers(task).values()):
            scorer.check_row(row.verification_info)
        response = _reference(task, row)
    except BadMessage as error:
        return Examined(RowVerdict.REFUSED, str(error))
    except PipelineError as error:  # a scorer that this machine can't build
        return Examined(RowVerdict.UNTESTED, str(error))
    played = row.played or {}
    if "wrong" in played:
        return Examined(RowVerdict.WRONG, f"its reference breaks the environment: {played['wrong']}")
    line = {TEXT_KEY: response, "task": row.task, "verification_info": row.verification_info}
    if "episode" in played:
        line[EPISODE_KEY] = played["episode"]
    data = json.dumps(line).encode()
    reference = trial = None
    if response is not None:
        reference = (response, workers.submit(partial(RowWorkerClient.result, line=data)))
    if isinstance(scorers.of(task), Trying):
        trial = workers.submit(partial(RowWorkerClient.trial, line=data))
    untested = played.get("untested") or _why_untested(task, row)
    if reference is None and trial is None:
        return Examined(RowVerdict.UNTESTED, untested)
    return _Asked(reference, trial, untested)


def _reference(task: TaskConfig, row: Candidate) -> str | None:
    """Return the response that must score 1, of an episode the last; None where none is known."""
    if row.played is not None and "episode" in row.played:
        return str(row.played["episode"]["text"])
    return None if task.needs_episode else gold_response(row.verification_info, row.solution, task.scorer)


def _why_untested(task: TaskConfig, row: Candidate) -> str:
    if task.needs_episode:
        return f"task {row.task!r} is scored by its environment, in which no answer is tried here"
    return f"no right answer to a row of type {row.verification_info.get('type')} is known here"


def _ended(found: Examined | _Asked) -> Examined:
    if isinstance(found, Examined):
        return found
    try:
        verdict = Examined(RowVerdict.UNTESTED, found.untested)
        if found.reference is not None:
            response, scored = found.reference
            verdict = _of_reference(response, scored.result())
        tried = found.trial.result() if found.trial is not None else {STUB_KEY: ""}
    except ScoringFailed as error:
        return Examined(RowVerdict.UNTESTED, str(error))
    if verdict.verdict not in (RowVerdict.RIGHT, RowVerdict.UNTESTED):
        return verdict
    if STUB_KEY not in tried:
        is_rows = tried.get("fault") in ROWS_FAULTS
        reason = tried["reason"] if is_rows else f"it could not be tried with stubs: {tried['reason']}"
        return Examined(RowVerdict.REFUSED if is_rows else RowVerdict.UNTESTED, reason)
    if stub := tried[STUB_KEY]:
        return Examined(
            RowVerdict.REFUSED, f"every test passes for {stub}: add a case that tells it from a right answer"
        )
    return verdict


def _of_reference(response: str, result: Result) -> Examined:
    """Return the verdict by the reference's score alone."""
    if result["value"] is None and result.get("fault") in ROWS_FAULTS:
        return Examined(RowVerdict.REFUSED, str(result["reason"]))
    if result["value"] is None and (
        result.get("fault") or result["status"] != "unscorable" or _is_machines(result["components"])
    ):
        return Examined(RowVerdict.UNTESTED, str(result["reason"]))
    if result["value"] is not None and result["value"] >= 1.0:
        return Examined(RowVerdict.RIGHT, "")
    scores = "has no score" if result["value"] is None else f"scores {result['value']:g}"
    return Examined(RowVerdict.WRONG, f"its reference {scores}: {result['reason']} (for {response[:200]!r})")


def _is_machines(components: Mapping[str, float]) -> bool:
    """Return whether a reference has no score for what the machinery did, or this machine lacks."""
    return was_given_up(components) or any(name.rpartition(".")[2] == LACKING for name in components)
