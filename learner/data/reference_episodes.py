"""Play the reference episode of each row whose environment has one, for the gold test.

In: the rows of some sources, and the run's environments. Out: for each row, in order, the result of
`agents.references`; None for a row that agents do not play, or whose tools need no episode to be tested. A process of
the agents plays the rows; its output is in an unnamed file until it is read.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import IO, Any, Final

from broker.errors import RunFailed
from config.run import Run
from learner.data import scorers_process
from learner.data.row import Row
from learner.data.store import RowList, RowStore

log = logging.getLogger(__name__)

COMMAND: Final = ("-m", "agents.references")
SAY_EVERY_S: Final = 30.0
SLACK_S: Final = 60.0  # beyond an episode's deadlines, for its process to report the result

Found = dict[str, Any]


@contextmanager
def reference_episodes(run: Run, sources: Sequence[RowStore | RowList]) -> Iterator[Iterator[Found | None]]:
    """Play the references of all rows.

    Raises:
        RunFailed: the playing process ended early, or hangs.
    """
    if not any(map(run.makes_prompt, run.scorers.tasks)):
        yield repeat(None)
        return
    with tempfile.TemporaryFile() as rows, tempfile.TemporaryFile() as answers:
        count = _write(run, sources, rows)
        if count:
            _play(run, rows, answers, count)
        answers.seek(0)
        every = chain.from_iterable(source.rows() for source in sources)
        yield (json.loads(answers.readline()) if run.makes_prompt(row.task) else None for row in every)


def _write(run: Run, sources: Sequence[RowStore | RowList], rows: IO[bytes]) -> int:
    """Write the input of the process. Returns its number of rows."""
    sections = {
        "scorers": run.scorers.model_dump(mode="json", include={"tasks", "sandbox", "sandbox_urls"}),
        "agents": run.agents.model_dump(mode="json"),
    }
    rows.write(json.dumps(sections).encode() + b"\n")
    count = 0
    for row in chain.from_iterable(source.rows() for source in sources):
        if run.makes_prompt(row.task):
            rows.write(json.dumps(_as_tree(row)).encode() + b"\n")
            count += 1
    rows.flush()
    rows.seek(0)
    return count


def _as_tree(row: Row) -> dict[str, Any]:
    return {
        "task": row.task,
        "verification_info": row.verification_info,
        "columns": row.columns,
        "messages": [dict(turn) for turn in row.messages],
    }


def _play(run: Run, rows: IO[bytes], answers: IO[bytes], count: int) -> None:
    """Run the process on all rows. Raises RunFailed."""
    patience_s = SLACK_S + max(
        one.start_deadline_s + one.reset_deadline_s + one.max_turns * one.step_deadline_s
        for task in run.scorers.tasks.values()
        if (one := task.environment) is not None
    )
    process = scorers_process.start(COMMAND, answers, rows)
    seen, since = -1, time.monotonic()
    try:
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(SAY_EVERY_S)
            if (size := os.fstat(answers.fileno()).st_size) != seen:
                seen, since = size, time.monotonic()
            elif time.monotonic() - since > patience_s:
                raise RunFailed(
                    f"the references of the environments' rows: nothing new for {patience_s:.0f} s, although every "
                    "episode has its deadlines; what it said stands above"
                )
            log.info("reference_episodes rows=%d of=%d", _lines(answers), count)
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(SAY_EVERY_S)
    if (done := _lines(answers)) < count:
        raise RunFailed(
            f"the references of the environments' rows ended after {done} of {count} rows, with exit code "
            f"{process.returncode}; what it said stands above"
        )


def _lines(answers: IO[bytes]) -> int:
    """Count the lines of the file."""
    answers.seek(0)
    return sum(1 for _ in answers)
