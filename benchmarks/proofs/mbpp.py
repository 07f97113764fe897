"""`make prove-mbpp`: does the code scorer tell right from wrong on real problems?

In: MBPP as published (`../shared/data/mbpp.jsonl`, or `--data`). Out: a table; `--write` puts it at the end of
benchmarks/RESULTS.md. The 974 reference solutions are scored against their own tests in the sandbox, as code rows with
asserts; so are mutants of them that a plain run outside the scorer found wrong. Exit code 0 if at most 10 references
fail and no mutant passes, 1 otherwise, and 0 with a line that says so where the data is absent.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.rigs.mutants import is_wrong, mutate
from broker.messages import Score
from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from scorers.build import build_scorer
from scorers.scorer import Scorer

DATA = results.ROOT.parent / "shared" / "data" / "mbpp.jsonl"
AT_MOST_EXCEPTIONS = 10
MUTANTS = 200
SHOWN_CHARS = 160  # of a reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MbppProblem:
    """One problem of MBPP."""

    task_id: int
    code: str
    tests: tuple[str, ...]
    setup: str

    @property
    def verification_info(self) -> dict[str, Any]:
        """The problem's row for the scorer."""
        return {"type": "code", "answer": {"tests": list(self.tests), "setup": self.setup}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemResult:
    """The score of one program, with its problem."""

    problem: MbppProblem
    source: str
    score: Score


_scorer: Scorer | None = None


def judge(programs: Sequence[tuple[MbppProblem, str]], processes: int) -> list[ProblemResult]:
    """Score each program, in order. Every process has a scorer of its own, as an RQ worker has."""
    with ProcessPoolExecutor(processes, initializer=_start) as pool:
        return list(pool.map(_judge, programs))


def _start() -> None:
    global _scorer  # noqa: PLW0603 - what a process of the pool keeps
    _scorer = build_scorer(CodeConfig(), ScorersConfig())


def _judge(program: tuple[MbppProblem, str]) -> ProblemResult:
    assert _scorer is not None  # noqa: S101 - for mypy: `_start` ran
    problem, source = program
    score = _scorer.score(f"```python\n{source}\n```", problem.verification_info)
    return ProblemResult(problem=problem, source=source, score=score)


def main(argv: Sequence[str] | None = None) -> int:
    """Score references and mutants, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.mbpp", description="MBPP through the code scorer."
    )
    parser.add_argument("--data", type=Path, default=DATA, metavar="FILE", help="mbpp.jsonl (../shared/data)")
    parser.add_argument("--seed", type=int, default=0, help="of the mutants (0)")
    parser.add_argument("--processes", type=int, default=2, help="sandboxes at a time (2)")
    results.add_write(parser)
    args = parser.parse_args(argv)
    if not args.data.exists():
        sys.stdout.write(f"skipped: no {args.data}; --data FILE names the published mbpp.jsonl\n")
        return 0
    commit = results.commit()
    heading = results.heading("MBPP through the code scorer")
    problems = read(args.data)
    started = time.monotonic()
    references = judge([(problem, problem.code) for problem in problems], args.processes)
    references_s = time.monotonic() - started
    mutants = judge(list(islice(wrong_mutants(problems, args.seed), MUTANTS)), args.processes)
    mutants_s = time.monotonic() - started - references_s
    lines = [
        *heading,
        *as_table(references, references_s, mutants, mutants_s, args.seed),
        *results.remarks(commit),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if is_proven(references, mutants) else 1


def read(path: Path) -> list[MbppProblem]:
    """Read the problems of the published file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        MbppProblem(
            task_id=row["task_id"],
            code=row["code"],
            tests=tuple(row["test_list"]),
            setup=row["test_setup_code"],
        )
        for row in rows
    ]


def wrong_mutants(problems: Sequence[MbppProblem], seed: int) -> Iterator[tuple[MbppProblem, str]]:
    """Make mutants that the plain run finds wrong, one of a problem, problems in random order."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    for problem in chance.sample(problems, len(problems)):
        mutant = mutate(problem.code, chance)
        if mutant is not None and is_wrong(mutant, problem.tests, problem.setup):
            yield problem, mutant


def is_proven(references: Sequence[ProblemResult], mutants: Sequence[ProblemResult]) -> bool:
    """Tell whether both bars are met."""
    return len(_failed(references)) <= AT_MOST_EXCEPTIONS and not _unrefuted(mutants)


def as_table(
    references: Sequence[ProblemResult],
    references_s: float,
    mutants: Sequence[ProblemResult],
    mutants_s: float,
    seed: int,
) -> list[str]:
    """Write the results as lines of a Markdown table, every exception with its reason."""
    failed, unrefuted = _failed(references), _unrefuted(mutants)
    lines = ["| programs | number | score 1 | other | seconds |", "|---|--:|--:|--:|--:|"]
    for what, verdicts, other, seconds in (
        ("reference solutions", references, failed, references_s),
        (f"mutants, seed {seed}", mutants, _refuted(mutants), mutants_s),
    ):
        lines.append(
            f"| {what} | {len(verdicts)} | {len(verdicts) - len(other)} | {len(other)} | {seconds:.0f} |"
        )
    version = references[0].score.version if references else "unknown"
    verdict_text = "Proven" if is_proven(references, mutants) else "NOT proven"
    lines += [
        "",
        (
            f"**{verdict_text}**: at most {AT_MOST_EXCEPTIONS} references fail, and each of the mutants, wrong "
            f"in a plain run, has the score 0. Scorer: {version}."
        ),
    ]
    if failed or unrefuted:
        lines.append("")
    for verdict in failed:
        lines.append(f"- reference {verdict.problem.task_id}: {_shown(verdict.score)}")
    for verdict in unrefuted:
        lines.append(f"- MUTANT of {verdict.problem.task_id}: {_shown(verdict.score)}")
    return lines


def _failed(references: Sequence[ProblemResult]) -> list[ProblemResult]:
    return [verdict for verdict in references if verdict.score.value != 1.0]


def _refuted(mutants: Sequence[ProblemResult]) -> list[ProblemResult]:
    return [verdict for verdict in mutants if verdict.score.value == 0.0]


def _unrefuted(mutants: Sequence[ProblemResult]) -> list[ProblemResult]:
    return [verdict for verdict in mutants if verdict.score.value != 0.0]


def _shown(score: Score) -> str:
    line = f"{score.status} {score.value}: {' '.join(score.reason.split())}"
    return line if len(line) <= SHOWN_CHARS else f"{line[:SHOWN_CHARS]}..."


if __name__ == "__main__":
    sys.exit(main())
