r"""Completions scored a second, beside the same comparisons without the child process.

`GroupScorer` takes the answer out of the text, asks the child with a deadline, checks the reference once a group and
writes reasons. The limit is `judge`, what the child runs around math_verify, called in this process on the bare
answers: nothing would end it if one hung. Every round has other numbers, so that no cache of sympy's has seen them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from benchmarks.comparison import Comparison, TimedWork, take_turns, timed
from benchmarks.rigs.groups import spoken_rollout
from config.scorers import ScorersConfig
from scorers.group import GroupScorer
from scorers.math.equality import judge
from scorers.math.text import tidy

LIMIT = "limit: the child's function called in this process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    groups: int = 16  # of one round
    completions: int = 8  # of a group, no two alike
    rounds: int = 5


FULL, SMOKE = Size(), Size(groups=4, completions=2, rounds=1)


@dataclass(frozen=True, slots=True)
class ScorerProblem:
    """A reference with answers, of which the even ones are right."""

    reference: str
    answers: tuple[str, ...]


def measure(size: Size) -> list[Comparison]:
    """Compare the scoring of numbers, fractions, roots and polynomials in equal parts."""
    with closing(GroupScorer(ScorersConfig())) as scorer:

        def ours(number: int) -> TimedWork:
            # Texts differ in their first words: equal ones are scored once.
            rollouts = [
                spoken_rollout(
                    str(index),
                    [f"Try {k}. \\boxed{{{answer}}}" for k, answer in enumerate(problem.answers)],
                    problem.reference,
                )
                for index, problem in enumerate(_problems(size, number))
            ]
            return timed(
                lambda: sum(_verified(scorer.score(rollout, "benchmark").rewards) for rollout in rollouts)
            )

        def other(number: int) -> TimedWork:
            problems = _problems(size, number)
            return timed(
                lambda: sum(
                    _verified([_judged(problem.reference, answer) for answer in problem.answers])
                    for problem in problems
                )
            )

        mine, others = take_turns(ours, other, rounds=size.rounds)
    return [
        Comparison(
            what=f"score {size.groups} x {size.completions} answers",
            unit="completions/s",
            ours=[turn.rate for turn in mine],
            beside=LIMIT,
            other=[turn.rate for turn in others],
        )
    ]


def _judged(reference: str, answer: str) -> float:
    return float(judge({"reference": tidy(reference), "answer": answer, "boxed": True})["equal"])


def _verified(rewards: list[float] | tuple[float | None, ...]) -> int:
    """Count the rewards once they are known to be right: a fast wrong result is no result."""
    expected = [float(index % 2 == 0) for index in range(len(rewards))]
    if list(rewards) != expected:
        raise RuntimeError(f"the verdicts are {list(rewards)}, and the answers deserve {expected}")
    return len(rewards)


def _problems(size: Size, number: int) -> list[ScorerProblem]:
    """Make the problems of one round: the same for both sides, others in every round."""
    kinds = _kinds(random.Random(number))  # noqa: S311 - no secret
    problems = []
    for _ in range(size.groups):
        reference, right, wrong = next(kinds)
        problems.append(
            ScorerProblem(reference, tuple(right if k % 2 == 0 else wrong for k in range(size.completions)))
        )
    return problems


def _kinds(source: random.Random) -> Iterator[tuple[str, str, str]]:
    """Yield a reference, a right answer (in another form where there is one) and a wrong one; four kinds in turn."""
    while True:
        a, b = source.randrange(11, 10_000), source.randrange(11, 10_000)
        yield f"{a * b}", f"{a * b:,}", f"{a * b + 1}"
        odd = 2 * a + 1
        yield f"\\frac{{{odd}}}{{8}}", f"{odd / 8}", f"\\frac{{{odd + 1}}}{{8}}"
        yield f"{a}\\sqrt{{2}}", f"\\sqrt{{2}} \\cdot {a}", f"{a}\\sqrt{{3}}"
        yield f"(x+{a})(x+{b})", f"x^2 + {a + b}x + {a * b}", f"x^2 + {a + b}x - {a * b}"
