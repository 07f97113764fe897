"""`python -m scorers.gold.row_check`: the process that shows rows to their scorers before the learner trains on them.

In: on standard input one line with the section `scorers`, then a line `[task, verification_info]` for each row. Out: on
standard output a line `[number, reason]` for each row that its scorer refuses, in their order, and in the end one with
the number of all rows and why some could not be looked at. Started by `learner.data.refused`, for roles don't import
each other; it ends with its input. Nothing is scored, so no sandbox starts and no model is asked. A row costs some
microseconds, one whose tests are programs to be parsed some milliseconds: where rows turn out to be dear, forks of
this process share them, one for each CPU.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from typing import Final, NamedTuple

from broker.errors import BadMessage, PipelineError
from config.explanations import ConfigError
from config.scorer_kinds import CustomConfig
from config.scorers import ScorersConfig
from scorers.build import build_scorer
from scorers.custom import takes_every_row
from scorers.scorer import Scorer

BATCH: Final = 64  # rows that are looked at together
ALONE_S: Final = 2.0  # of looking at rows, after which they are dear
REASONS: Final = 20  # why rows could not be looked at, that are told apart
AHEAD: Final = 4  # batches for each fork that have begun before the first one's result is waited for


class DoubtfulRow(NamedTuple):
    """What came of a row that is not simply taken."""

    number: int
    reason: str
    is_refused: bool  # else nobody could look at it


Batch = Sequence[tuple[int, bytes]]  # rows, each with its number


class RowCheck:
    """The scorers of all tasks, each built when its first row comes."""

    def __init__(self, config: ScorersConfig) -> None:
        self._config = config
        self._of_task: dict[str, Sequence[Scorer] | str] = {}

    def look(self, lines: Batch) -> list[DoubtfulRow]:
        """Return which of these rows are refused, and which can't be looked at here."""
        return [found for number, line in lines if (found := self._look(number, line)) is not None]

    def _look(self, number: int, line: bytes) -> DoubtfulRow | None:
        task, info = json.loads(line)
        if task not in self._of_task:
            self._of_task[task] = self._built(task)
        scorers = self._of_task[task]
        if isinstance(scorers, str):
            return DoubtfulRow(number, scorers, is_refused=False)
        for scorer in scorers:
            try:
                scorer.check_row(info)
            except BadMessage as error:
                return DoubtfulRow(number, str(error), is_refused=True)
            except Exception as error:  # noqa: BLE001 - no verdict on the row; where it is scored it is said again
                return DoubtfulRow(number, f"{scorer.name}: {error!r}", is_refused=False)
        return None

    def _built(self, task: str) -> Sequence[Scorer] | str:
        """Return the scorers that look at a task's rows, or why this machine can't build them."""
        try:
            return [
                build_scorer(one, self._config)
                for one in self._config.tasks[task].all_scorers.values()
                if not (isinstance(one, CustomConfig) and takes_every_row(one))
            ]
        except (PipelineError, ConfigError) as error:
            return str(error)


def found_in(check: RowCheck, lines: Iterable[bytes]) -> Iterator[DoubtfulRow]:
    """Yield what is found of the rows, in their order; as many of them are in memory as are looked at together."""
    numbered = iter(enumerate(lines))
    spent_s = 0.0
    while batch := list(islice(numbered, BATCH)):
        started = time.process_time()
        yield from check.look(batch)
        spent_s += time.process_time() - started
        if spent_s > ALONE_S and len(os.sched_getaffinity(0)) > 1:
            yield from _shared(check, numbered, len(os.sched_getaffinity(0)))


def _shared(check: RowCheck, numbered: Iterator[tuple[int, bytes]], count: int) -> Iterator[DoubtfulRow]:
    """Yield the same of the rest, which so many forks of this process look at."""
    under_way: deque[Future[list[DoubtfulRow]]] = deque()
    with ProcessPoolExecutor(
        count, multiprocessing.get_context("fork"), initializer=_keep, initargs=(check,)
    ) as forks:
        while batch := list(islice(numbered, BATCH)):
            under_way.append(forks.submit(_look, batch))
            if len(under_way) > AHEAD * count:
                yield from under_way.popleft().result()
        for each in under_way:
            yield from each.result()


_CHECK: list[RowCheck] = []  # of a fork


def _keep(check: RowCheck) -> None:
    _CHECK.append(check)


def _look(batch: Batch) -> list[DoubtfulRow]:
    return _CHECK[0].look(batch)


def answers(stream: Iterable[bytes]) -> Iterator[str]:
    """Yield what the process says of its input: a line for each refused row, and the last one."""
    lines = iter(stream)
    config = ScorersConfig.model_validate_json(next(lines))
    count = 0

    def rows() -> Iterator[bytes]:
        nonlocal count
        for count, line in enumerate(lines, 1):  # noqa: B007 - how many there were in the end
            yield line

    unchecked: Counter[str] = Counter()
    for found in found_in(RowCheck(config), rows()):
        if found.is_refused:
            yield json.dumps([found.number, found.reason]) + "\n"
        elif found.reason in unchecked or len(unchecked) < REASONS:
            unchecked[found.reason] += 1
    yield json.dumps({"rows": count, "unchecked": unchecked}) + "\n"


def main() -> int:
    """Look at each row of standard input."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)  # what a user's scorer prints is no line of ours
        out.writelines(answers(sys.stdin.buffer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
