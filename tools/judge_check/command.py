"""`millrace judge-check FILE`: measure how far a judge or a rubric model agrees with known labels.

In: responses with labels (`tools.judge_check.labelled_rows`), and a verifier: the environment's judge, or a task of a
configuration. Out: agreement, false positives and false negatives by source, the worst disagreements
(`tools.judge_check.agreement`), optionally each verdict in a file. One process asks, with as many concurrent calls as
the endpoint allows. A failed call is repeated after all others, and never counts against the verifier.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any, Final

from config.explanations import ConfigError
from config.scorers import ScorersConfig
from scorers.api import RowWorkerClient, all_tasks
from scorers.child.frames import Result
from scorers.retries import LONGEST_WAIT_S, was_given_up
from tools.arguments import UsageError, add_json, add_samples
from tools.judge_check.agreement import Agreement, was_judged
from tools.judge_check.labelled_rows import LABEL_KEYS, PARTS, Labelled, read_labelled
from tools.printable import tracked
from tools.rescore.command import task_of
from tools.row_file import add_row_file, given_scorers, open_rows
from tools.score.command import INTERRUPTED

THRESHOLD: Final = 0.5
AHEAD: Final = 1024  # rows started before the first one's result is awaited: more than most endpoints accept
ENOUGH: Final = 16  # if the first calls all fail, this many mean that the verifier is away


EPILOG = (
    f"A row has its response in `llm_output` and what it is worth in {' or '.join(LABEL_KEYS)}: true, "
    f"false, or a number from 0 to 1. A row of HardVerify-Math has {' and '.join(PARTS)} instead. Results "
    "are told apart by `source`, else by data_source, else by the row's type. Exit code: 0 done, whatever "
    "came out; 1 nothing could be scored: the judge is away, say; 2 bad usage, or a file that can't be "
    "used."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace judge-check`."""
    add_row_file(parser, out="each verdict with its label, as JSON lines")
    parser.add_argument(
        "--task",
        metavar="NAME",
        help="who judges every row: a task of `scorers.tasks`, or a type of "
        "scorer with its defaults: judge, rubric (the one that each row belongs to)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        default=THRESHOLD,
        metavar="X",
        help=f"the value, and the label, from which on a response is right ({THRESHOLD})",
    )
    add_samples(parser, "how many of the worst disagreements to show")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Check a verifier. 0: done; 1: nothing could be scored. Raises ConfigError for an unusable file."""
    if not 0 < options.threshold <= 1:
        raise UsageError("--threshold must be above 0, and at most 1")
    config = given_scorers(options) or all_tasks()
    if options.task is not None:
        config = config.model_copy(
            update={"tasks": {options.task: task_of(config, options.task, option="--task")}}
        )
    with ExitStack() as stack:
        rows = read_labelled(open_rows(options.file, options.out, stack), config.tasks, options.task)
        _check_endpoints(config, {row.task for row in rows})
        out = None if options.out is None else stack.enter_context(options.out.open("w", encoding="utf-8"))
        started = time.monotonic()
        results, is_interrupted = _results(rows, config)
        seconds = time.monotonic() - started
        agreement = Agreement(options.threshold, options.samples)
        for row, result in zip(rows, results, strict=True):
            agreement.add(row, result)
            if out is not None and result is not None:
                out.write(json.dumps(_line(row, result, agreement)) + "\n")
    _print_result(options, agreement, seconds)
    if is_interrupted:
        return INTERRUPTED
    return 0 if agreement.overall.distances else 1


def _check_endpoints(config: ScorersConfig, tasks: set[str]) -> None:
    """Check that every task has a server. Raises ConfigError where one has none."""
    for name in sorted(tasks):
        endpoint = getattr(config.tasks[name].scorer, "endpoint", None)
        if endpoint is not None and not endpoint.urls:
            raise ConfigError(
                f"no server to ask for task {name!r}: set LLM_JUDGE_BASE_URL, or "
                f"scorers.tasks.{name}.scorer.endpoint.urls of a --config"
            )


def _results(rows: Sequence[Labelled], config: ScorersConfig) -> tuple[list[Result | None], bool]:
    """Return the verifier's result on each row, None where it was not asked; and whether it was interrupted.

    Each pass over the rows makes its calls concurrently. Failed ones form the next pass, so that they are concurrent,
    too.
    """
    results: list[Result | None] = [None] * len(rows)
    waiting = list(range(len(rows)))
    try:
        with closing(RowWorkerClient(config.model_copy(update={"retries": 0}))) as process:
            for number in range(config.retries + 1):
                if number:
                    time.sleep(min(config.retry_backoff_s * 2 ** (number - 1), LONGEST_WAIT_S))
                for done, (index, result) in enumerate(_pass(process, rows, waiting), 1):
                    results[index] = result
                    if number == 0 and done == ENOUGH and all(map(_has_failed, results[:ENOUGH])):
                        return results, False
                waiting = [index for index in waiting if _has_failed(results[index])]
                if not waiting or not any(map(_is_judged, results)):
                    break
    except KeyboardInterrupt:
        return results, True
    return results, False


def _pass(
    process: RowWorkerClient, rows: Sequence[Labelled], indices: Sequence[int]
) -> Iterator[tuple[int, Result]]:
    """Return the results of these rows, in order; later rows are started while the first one is awaited."""
    ahead = iter(indices)
    begun: deque[int] = deque()
    for _ in tracked(indices, "judging"):
        while len(begun) < AHEAD and (index := next(ahead, None)) is not None:
            process.prefetch(rows[index].line)
            begun.append(index)
        first = begun.popleft()
        yield first, process.result(rows[first].line)


def _is_judged(result: Result | None) -> bool:
    return result is not None and was_judged(result)


def _has_failed(result: Result | None) -> bool:
    """Return whether another try may help: the machinery failed, not the row."""
    return result is not None and (
        result.get("fault") == "machine" or (result["value"] is None and was_given_up(result["components"]))
    )


def _line(row: Labelled, result: Result, agreement: Agreement) -> dict[str, Any]:
    """Make a line of --out."""
    return {
        **row.as_json(),
        "agrees": agreement.agrees(row, result),
        **{key: value for key, value in result.items() if key != "fault"},
    }


def _print_result(args: argparse.Namespace, agreement: Agreement, seconds: float) -> None:
    """Print the result on standard output."""
    if args.json:
        found = {"file": args.file, "seconds": round(seconds, 3), **agreement.as_json()}
        sys.stdout.write(json.dumps(found) + "\n")
    elif agreement.overall.rows:
        judged, rows = agreement.overall.rows, agreement.overall.rows + agreement.not_judged.total()
        lines = [f"{args.file}: {judged} of {rows} responses judged in {seconds:.1f} s", *agreement.lines()]
        sys.stdout.write("\n".join(lines) + "\n")
    if not agreement.overall.distances:
        reasons = agreement.unscorable or agreement.not_judged
        sys.stderr.write(f"millrace judge-check: nothing could be scored: {next(iter(reasons))}\n")
