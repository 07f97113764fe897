"""`millrace rescore RUN --scorer X`: score a run's trained or held-out groups with another scorer or version.

In: the run's journal, its `config.yaml`, and a task of its `scorers` section or of another one. Out: the confusion
between the two scorings, in how many groups an advantage changes its sign, and where the scorings differ most. `--out`
stores each completion's two scores in a file. Only reads, needs no Redis, and works while the run continues. Separate
processes score (`scorers.rows.row_workers`), as for `millrace score`. Unreadable or unscorable groups are named and
counted, and stop nothing. With `--derivations K` X verifies the held-out samples (`tools.rescore.derived`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Final, Self

import msgspec

from broker.messages import Completion, Prompt, Score, ScoredGroup, ScoreStatus
from broker.private_redis.server import folder_of
from config.explanations import ConfigError
from config.loading import from_yaml, load_run
from config.run import Run
from config.scorers import ScorersConfig, TaskConfig
from learner.journal.ledger import read_ledger
from learner.journal.records import step_number
from learner.resume.replay import IncarnationSettings
from scorers.api import RowWorkerClient, all_tasks
from scorers.child.frames import EPISODE_KEY, TEXT_KEY, Result
from scorers.conversation import asked_of
from scorers.reward.combine import reward_of
from scorers.rows.judged_lines import asks
from scorers.rows.row_workers import RowWorkers
from scorers.scorer import Asked
from tools.arguments import (
    UsageError,
    add_json,
    add_run,
    add_runs_dir,
    add_samples,
    add_steps,
    add_workers,
    check_out,
    number_of,
)
from tools.journal.rows import JournalReader, NotInJournal, ranges
from tools.printable import tracked
from tools.rescore.comparison import FULL, Rescored, ScoringComparison, score_json
from tools.rescore.derived import Derived, held_out_groups

GROUPS_AHEAD: Final = 4  # per worker, groups that are read and not scored yet


EPILOG = (
    "Groups that never trained, variance-free ones above all, have no payload and are not among them. Exit "
    "code: 0 done, whatever came out; 1 nothing could be rescored; 2 bad usage."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace rescore`."""
    add_run(parser)
    parser.add_argument(
        "values",
        nargs="*",
        metavar="key=value",
        help="settings over the configuration's: scorers.tasks.math.scorer.require_box=false",
    )
    parser.add_argument(
        "--scorer",
        required=True,
        metavar="X",
        help="a task of `scorers.tasks`, or a type of scorer with its defaults: math, code, swe",
    )
    parser.add_argument(
        "--config", metavar="CONFIG", help="the YAML file whose `scorers` section has X (the run's)"
    )
    add_steps(parser)
    add_workers(parser)
    parser.add_argument(
        "--derivations",
        type=number_of("samples"),
        metavar="K",
        help="of the held-out samples: pass@K, pass@K verified by X, and the share of right answers that X does not "
        "verify, by round (--steps: of these versions)",
    )
    parser.add_argument(
        "--rule",
        metavar="Y",
        help="with --derivations: the task or type that says what is right (the recorded score, or its rule)",
    )
    parser.add_argument(
        "--accepts",
        type=float,
        default=FULL,
        metavar="SCORE",
        help="with --derivations: the score of X from which on a sample is verified (1)",
    )
    add_samples(parser, "how many of the most different completions to show")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="both scores of every completion, as JSON lines"
    )
    add_json(parser)
    add_runs_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Rescore a run. 0: done; 1: nothing could be rescored. Raises NotInJournal where there is no such run."""
    if options.derivations is None and (options.rule is not None or options.accepts != FULL):
        raise UsageError("--rule and --accepts belong to --derivations K")
    if options.derivations is not None and options.out is not None:
        raise UsageError("--out is of completions that were trained on; --derivations has --json")
    check_out(options.out)
    folder = folder_of(options.run, options.runs_dir)
    given = folder / "config.yaml"
    if not given.is_file():
        raise NotInJournal(
            f"no run {options.run!r}: there is no {given}; give --runs-dir, the folder that the run's own folder is in"
        )
    config = load_run(["--config", options.config or str(given), *options.values]).scorers
    reading = JournalReader(folder, read_ledger(folder / "journal", strict=False))
    if options.derivations is not None:
        return _derive(options, config, reading)
    return _compare(options, config, from_yaml(given.read_bytes(), str(given)), reading)


def _rescorer(config: ScorersConfig, name: str, workers: int, option: str = "--scorer") -> Rescorer:
    """Return the rescorer for the task or type `name`. Raises ConfigError."""
    only = config.model_copy(update={"tasks": {name: task_of(config, name, option)}})
    return Rescorer(only, lambda _: name, workers)


def _derive(options: argparse.Namespace, config: ScorersConfig, reading: JournalReader) -> int:
    """Verify the held-out samples, and print their figures."""
    derived = Derived(k=options.derivations, accepts=options.accepts)
    verifier = _rescorer(config, options.scorer, options.workers)
    rule = None if options.rule is None else _rescorer(config, options.rule, options.workers, "--rule")
    with ExitStack() as stack:
        verify = stack.enter_context(verifier).rescored
        by_rule = None if rule is None else stack.enter_context(rule).rescored
        done = derived.gather(held_out_groups(reading, options.steps), verify, by_rule)
        groups = sum(1 for _ in tracked(done, "verifying"))
    if options.json:
        found = {
            "run": options.run,
            "scorer": options.scorer,
            "rule": options.rule,
            "damaged": reading.broken,
        }
        sys.stdout.write(json.dumps({**found, **derived.as_json()}) + "\n")
        return 0 if groups else 1
    for line in reading.broken:
        sys.stderr.write(f"{line}\n")
    if not groups:
        sys.stderr.write(
            f"millrace rescore: the journal of {options.run} keeps no held-out samples"
            f"{' of these versions' if options.steps else ''}: `evaluation.every` has them sampled, and "
            "`learner.journal.untrained_mb` is how many of them are kept\n"
        )
        return 1
    sys.stdout.write("\n".join([f"run {options.run}, {groups} held-out problems", *derived.lines()]) + "\n")
    return 0


def _compare(options: argparse.Namespace, config: ScorersConfig, begun: Run, reading: JournalReader) -> int:
    """Score the run's trained groups, and print the comparison."""
    ledger = reading.ledger
    rescorer = _rescorer(config, options.scorer, options.workers)
    wanted = [
        record for record in ledger.steps if options.steps is None or step_number(record) in options.steps
    ]
    settings = IncarnationSettings(begun, ledger)
    scales = {step_number(record): settings.of(record).advantage.scale for record in wanted}
    comparison = ScoringComparison(options.samples)
    with ExitStack() as stack:
        out = (
            stack.enter_context(options.out.open("w", encoding="utf-8")) if options.out is not None else None
        )
        stack.enter_context(rescorer)
        found = rescorer.rescored((found.step, found.group) for found in reading.trained(wanted))
        total = sum(len(record["ids"]) for record in wanted)
        for step, group, rescored in tracked(found, "rescoring", total):
            comparison.add(step, group, rescored, scales[step])
            if out is not None:
                _write(out, step, group, rescored)
    _print_result(options, reading, comparison)
    return 0 if comparison.completions else 1


def task_of(config: ScorersConfig, name: str, option: str = "--scorer") -> TaskConfig:
    """Return the task `name` of `config`, or a scorer of that type with its defaults. Raises ConfigError."""
    known = all_tasks().tasks | config.tasks
    if name not in known:
        raise ConfigError(
            f"{option} {name!r}: the tasks of `scorers` are {', '.join(sorted(config.tasks))}, and the "
            f"types of scorers {', '.join(sorted(all_tasks().tasks))}"
        )
    return known[name]


class Rescorer:
    """Score groups again, in order.

    Args:
        config: with the possible tasks.
        task_of_group: returns the task of `config` that scores a group.
        workers: number of processes; each starts when there is a group for it.
    """

    def __init__(
        self, config: ScorersConfig, task_of_group: Callable[[ScoredGroup], str], workers: int
    ) -> None:
        self._tasks = config.tasks
        self._task_of_group = task_of_group
        self._workers = RowWorkers(config, workers)
        self._ahead = GROUPS_AHEAD * workers

    def rescored(
        self, groups: Iterator[tuple[int, ScoredGroup]]
    ) -> Iterator[tuple[int, ScoredGroup, list[Rescored]]]:
        """Yield each group with its step and the new scores. Raises ScoringFailed."""
        waiting: deque[tuple[int, ScoredGroup, Future[list[Rescored]]]] = deque()
        while True:
            for step, group in islice(groups, self._ahead - len(waiting)):
                waiting.append((step, group, self._workers.submit(partial(self._score, group))))
            if not waiting:
                return
            first, scored, future = waiting.popleft()
            yield first, scored, future.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """End the processes, at once where the rest is not wanted."""
        self._workers.close(is_interrupted=error is not None)

    def _score(self, group: ScoredGroup, process: RowWorkerClient) -> list[Rescored]:
        """Score a group's completions; equal texts, or episodes, are judged once, as in the original scoring."""
        name = self._task_of_group(group)
        answers = [asked_of(completion) for completion in group.rollout.completions]
        lines = {answer: self._line(name, answer, group) for answer in answers}
        for line in lines.values() if asks(self._tasks[name]) else ():
            process.prefetch(line)
        judged = {answer: process.result(line) for answer, line in lines.items()}
        prompt = group.rollout.prompt
        return [
            self._rescored(name, judged[answer], completion, prompt)
            for answer, completion in zip(answers, group.rollout.completions, strict=True)
        ]

    def _line(self, name: str, answer: Asked, group: ScoredGroup) -> bytes:
        info = dict(group.rollout.prompt.verification_info)
        line = {"task": name, "verification_info": info}
        if isinstance(answer, str):
            return json.dumps({TEXT_KEY: answer, **line}).encode("ascii")
        episode = {TEXT_KEY: answer.text, EPISODE_KEY: msgspec.to_builtins(answer), **line}
        return json.dumps(episode).encode("ascii")

    def _rescored(self, name: str, result: Result, completion: Completion, prompt: Prompt) -> Rescored:
        """Apply the task's format and penalties to a score."""
        if result["status"] == "error":
            return Rescored(score=None, error=result["reason"])
        score = Score(
            status=ScoreStatus(result["status"]),
            value=result["value"],
            reason=result["reason"],
            scorer=result["scorer"] or name,
            version=result["version"] or "",
            seconds=result["seconds"],
            components=result["components"],
        )
        score, paid = reward_of(
            self._tasks[name], score, completion, dict(prompt.verification_info), prompt.max_tokens
        )
        return Rescored(score=score, reward=paid)


def _write(out: IO[str], step: int, group: ScoredGroup, rescored: Sequence[Rescored]) -> None:
    """Write a line per completion."""
    for place, (old, paid, new) in enumerate(zip(group.scores, group.rewards, rescored, strict=True)):
        said = {"error": new.error} if new.score is None else {**score_json(new.score), "reward": new.reward}
        out.write(
            json.dumps(
                {
                    "step": step,
                    "group": group.group_id,
                    "completion": place,
                    "old": {**score_json(old), "reward": paid},
                    "new": said,
                }
            )
            + "\n"
        )


def _print_result(args: argparse.Namespace, reading: JournalReader, comparison: ScoringComparison) -> None:
    """Print the result on standard output; what is missing from it on standard error, unless the JSON has it."""
    if args.json:
        found = {
            "run": args.run,
            "scorer": args.scorer,
            "steps": reading.read,
            "gone": list(reading.gone),
            "damaged": {str(step): reason for step, reason in reading.damaged.items()},
            "journal_problems": reading.ledger.problems,
            **comparison.as_json(),
        }
        sys.stdout.write(json.dumps(found) + "\n")
        return
    if not comparison.completions:
        sys.stderr.write(f"millrace rescore: {_why_nothing(args, reading, comparison)}\n")
    else:
        lines = [
            f"run {args.run}, {len(reading.read)} steps ({ranges(reading.read)}), through {args.scorer}",
            *comparison.lines(),
        ]
        sys.stdout.write("\n".join(lines) + "\n")
    if reading.gone:
        sys.stderr.write(f"steps {ranges(list(reading.gone))}: retention has removed what they trained on\n")
    for line in [*reading.damaged.values(), *reading.ledger.problems]:
        sys.stderr.write(f"{line}\n")


def _why_nothing(args: argparse.Namespace, reading: JournalReader, comparison: ScoringComparison) -> str:
    """Say why there is no completion with a new score."""
    ledger = reading.ledger
    if not ledger.steps:
        return f"{args.run} has no step in its journal"
    if not (reading.read or reading.gone or reading.damaged):
        return f"--steps: {args.run} has the steps {ranges(list(map(step_number, ledger.steps)))}"
    if not reading.read:
        return "nothing could be rescored: no payload of these steps can be read"
    reason = next(iter(comparison.not_scored), "no group in these steps")
    return f"{args.scorer} scored none of {sum(comparison.not_scored.values())} completions: {reason}"
