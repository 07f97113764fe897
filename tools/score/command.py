"""`millrace score FILE`: score rows with a response, and write one JSON result per line, in order.

In: a file or standard input. Out: results on standard output or in a file, written as they come; progress and a summary
on standard error. A thread reads. One thread per worker waits for a scoring process (`scorers.rows.row_workers`). One
more waits for the process of all lines that a served model judges (`scorers.rows.judged_lines`). The main thread
writes. Memory holds a few lines per worker, and the results that wait for an earlier line. An error in a line is its
result; an error of the file ends the command.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import stat
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import IO, Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from config.scorers import ScorersConfig
from scorers.api import RowWorkerClient, all_tasks
from scorers.child.frames import Result, failure
from scorers.rows.judged_lines import JudgedLines, asks
from scorers.rows.row_workers import RowWorkers
from tasks.lines import Line
from tools.arguments import add_workers
from tools.row_file import RowFile, add_row_file, given_scorers, open_rows

WAITING_RESULTS: Final = 4096  # results waiting for an earlier line, before reading stops
LINES_A_WORKER: Final = 3  # lines that are read and not scored yet
DRAW_EVERY_S: Final = 0.1
SHOWN_CHARS: Final = 240  # of the first error, for people
REFUSED: Final = 3  # lines that are no rows; the others have their scores
INTERRUPTED: Final = 130
CUSTOM_HINT: Final = ", or a custom task's with --config CONFIG"


class Numbered(NamedTuple):
    """A line's place, and its future result."""

    number: int
    end: int
    result: Future[Result]


class Scoring:
    """Turn lines into results, in order, with several processes.

    Args:
        config: the scorers; None: all scorers.
        workers: most processes; each starts when there is a line for it.
    """

    def __init__(self, config: ScorersConfig | None, workers: int) -> None:
        self._hint = CUSTOM_HINT if config is None else ""
        config = config or all_tasks()
        self._judged = JudgedLines(config) if any(map(asks, config.tasks.values())) else None
        self._workers = RowWorkers(config, workers)
        self._free_lines = threading.Semaphore(LINES_A_WORKER * workers)  # for lines in memory
        self._results: queue.Queue[Numbered | Exception | None] = queue.Queue(WAITING_RESULTS)

    def start(self, lines: Iterator[Line]) -> None:
        """Start reading."""
        threading.Thread(target=self._read, args=(lines,), name="read", daemon=True).start()

    def next(self) -> tuple[Numbered, Result] | None:
        """Return the result of the next line; None after the last.

        Raises:
            ScoringFailed: no process can be started.
            ConfigError, OSError: the input can't be read.
        """
        item = self._results.get()
        if isinstance(item, Exception):
            raise item
        return None if item is None else (item, item.result.result())

    def finished(self) -> Iterator[tuple[Numbered, Result]]:
        """Yield the results of later lines that are already there, for a caller that does not wait for the others."""
        with suppress(queue.Empty):
            while isinstance(item := self._results.get_nowait(), Numbered):
                if item.result.done() and not item.result.cancelled() and item.result.exception() is None:
                    yield item, item.result.result()

    def close(self, *, is_interrupted: bool) -> None:
        """End the processes, at once where the rest is not wanted."""
        if self._judged is not None:
            self._judged.close(is_interrupted=is_interrupted)
        self._workers.close(is_interrupted=is_interrupted)

    def _read(self, lines: Iterator[Line]) -> None:
        try:
            for line in lines:
                self._results.put(Numbered(line.number, line.end, self._begun(line)))
            self._results.put(None)
        except Exception as error:  # noqa: BLE001 - `next` raises it: nobody else would end the wait for a line
            self._results.put(error)

    def _begun(self, line: Line) -> Future[Result]:
        """Start a line, waiting while too many lines are held. Returns the future result."""
        if line.data is not None and self._judged is not None and self._judged.takes(line.data):
            return self._judged.submit(line.data)
        self._free_lines.acquire()
        return self._workers.submit(partial(self._score, line))

    def _score(self, line: Line, process: RowWorkerClient) -> Result:
        try:
            if line.data is None:
                return failure(line.wrong, fault="row")
            result = process.result(line.data)
            if result.get("fault") == "type":
                result["reason"] += self._hint
            return result
        finally:
            self._free_lines.release()


class ScoreSummary:
    """Count results, and summarize them at the end."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.statuses: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()  # by scorer, microseconds
        self._total = 0.0
        self._first_error = ""

    def count(self, result: Result) -> None:
        """Count one more line."""
        self.statuses[result["status"]] += 1
        self._total += result["value"] or 0.0
        if result["scorer"]:
            self._seconds[result["scorer"]] += round(1e6 * result["seconds"])
        if result["status"] == "error":
            self._first_error = self._first_error or textwrap.shorten(result["reason"], SHOWN_CHARS)

    def __str__(self) -> str:
        lines, scored = sum(self.statuses.values()), self.statuses["scored"]
        mean = f", mean value {self._total / scored:.4f}" if scored else ""
        said = [
            (
                f"{lines} lines in {time.monotonic() - self._started:.1f} s: {scored} scored{mean}, "
                f"{self.statuses['unscorable']} unscorable, {self.statuses['error']} errors"
            )
        ]
        if self._seconds:
            said.append(
                "seconds of the scorers: "
                + ", ".join(f"{name} {micro / 1e6:.1f}" for name, micro in self._seconds.most_common())
            )
        if self._first_error:
            said.append(f"first error: {self._first_error}")
        return "\n".join(said)


EPILOG = (
    "A row of FILE is an object with the response in `llm_output`, beside `verification_info` or verl's "
    "`data_source`, `reward_model` and `extra_info`. Empty lines are passed over. "
    "Exit code: 0 every line was read, whatever its score; 1 nothing could be scored here; 2 bad usage; "
    "3 lines were refused, whose results say why, and the others are scored; 130 interrupted."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace score`."""
    add_row_file(parser, out="where the results go (standard output)")
    add_workers(parser)


def run(options: argparse.Namespace) -> int:
    """Score a file. Raises UsageError, ConfigError, ScoringFailed."""
    return score_file(options.file, options.out, given_scorers(options), options.workers)


def score_file(source: str, out: Path | None, config: ScorersConfig | None, workers: int) -> int:
    """Score every line of `source`, `-` for standard input. Returns the exit code.

    Raises:
        UsageError, ConfigError: the files can't be opened, or are one and the same.
        ScoringFailed: no scoring process can be started.
    """
    with ExitStack() as stack:
        rows = open_rows(source, out, stack)
        target: IO[bytes] = stack.enter_context(out.open("wb")) if out is not None else sys.stdout.buffer
        summary = ScoreSummary()
        scoring = Scoring(config, workers)
        code = INTERRUPTED
        try:
            code = _run(
                scoring, rows, target, summary, shows_bar=stat.S_ISREG(os.fstat(target.fileno()).st_mode)
            )
        except KeyboardInterrupt:
            for line, result in scoring.finished():
                _write(target, line, result, summary)
        finally:
            scoring.close(is_interrupted=code == INTERRUPTED)
    sys.stderr.write(f"{'interrupted; ' if code == INTERRUPTED else ''}{summary}\n")
    return REFUSED if code == 0 and summary.statuses["error"] else code


def _run(
    scoring: Scoring, rows: RowFile, target: IO[bytes], summary: ScoreSummary, *, shows_bar: bool
) -> int:
    """Write every result. A progress bar is shown, unless results may go to the same terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("scored"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    scoring.start(rows.lines())
    with Progress(
        *columns, console=console, disable=not (shows_bar and console.is_terminal), transient=True
    ) as bar:
        task = bar.add_task("", total=rows.size, said="")
        drawn = 0.0
        while (found := scoring.next()) is not None:
            line, result = found
            _write(target, line, result, summary)
            if time.monotonic() - drawn > DRAW_EVERY_S:
                drawn = time.monotonic()
                _draw(bar, task, line, summary)
    return 0


def _draw(bar: Progress, task: TaskID, line: Numbered, summary: ScoreSummary) -> None:
    troubles = summary.statuses["unscorable"] + summary.statuses["error"]
    bar.update(
        task, completed=line.end, said=f"{sum(summary.statuses.values())} lines, {troubles} without a score"
    )


def _write(target: IO[bytes], line: Numbered, result: Result, summary: ScoreSummary) -> None:
    result.pop("fault", None)
    if result["status"] != "scored":
        result["reason"] = f"line {line.number}: {result['reason']}"
    summary.count(result)
    text = json.dumps({"line": line.number, **result}, ensure_ascii=False) + "\n"
    target.write(text.encode(errors="backslashreplace"))
    target.flush()
