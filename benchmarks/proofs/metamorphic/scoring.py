"""Score each reference's rewrites by the math scorer, in a few processes.

In: references. Out: for each its answers with their verdicts. A process has a scorer of its own, as an RQ worker has.
Where the machine is too busy for a child's deadline, it is asked again a few times; an answer that is not scored then
says so, and proves nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final, NamedTuple

from benchmarks.proofs.metamorphic.references import Reference
from benchmarks.proofs.metamorphic.rewrites import RIGHT, WRONG
from benchmarks.proofs.metamorphic.structure import shape_of
from broker.errors import Retryable
from config.scorer_kinds import MathConfig
from scorers.math.scorer import MathAnswer

PROBE: Final = "31415.926"  # no reference's value: it has the scorer look at the reference itself
PROBED, ITSELF, TEMPLATE = "probe", "itself", "its template's"
NOT_SCORED: Final = "not scored"
_TRIES: Final = 5


class Pair(NamedTuple):
    """An answer, and what it has to score."""

    answer: str
    rewrite: str
    row_type: str
    expected: float | None  # None: the reference is looked at, and no answer


class RewriteVerdict(NamedTuple):
    """What the scorer said of one answer to a reference."""

    reference: Reference
    shape: str
    pair: Pair
    value: float | None
    reason: str

    @property
    def expected(self) -> float | None:
        """The score that is right; None for the look at the reference."""
        return self.pair.expected

    @property
    def rewrite(self) -> str:
        """The kind of rewrite."""
        return self.pair.rewrite

    @property
    def is_not_scored(self) -> bool:
        """Whether this machine was too busy."""
        return self.value is None and self.reason.startswith(NOT_SCORED)

    @property
    def is_unscorable(self) -> bool:
        """Whether the scorer can't read the reference."""
        return self.value is None and not self.is_not_scored

    @property
    def is_paid(self) -> bool:
        """Whether a wrong answer has 1."""
        return self.expected == 0.0 and self.value == 1.0

    @property
    def is_refused(self) -> bool:
        """Whether a right answer has 0."""
        return self.expected == 1.0 and self.value == 0.0


_scorer: MathAnswer | None = None


def judge(
    references: Iterable[Reference],
    *,
    jobs: int,
    seed: int,
    rewrites: frozenset[str] = frozenset(),
    config: MathConfig,
) -> Iterator[list[RewriteVerdict]]:
    """Yield each reference's verdicts, in order; of the named rewrites alone where some are named."""
    with ProcessPoolExecutor(jobs, initializer=_start, initargs=(config,)) as pool:
        yield from pool.map(_judge, ((reference, seed, rewrites) for reference in references))


def _start(config: MathConfig) -> None:
    global _scorer  # noqa: PLW0603 - what a process of the pool keeps
    _scorer = MathAnswer(config)


def _judge(task: tuple[Reference, int, frozenset[str]]) -> list[RewriteVerdict]:
    assert _scorer is not None  # noqa: S101 - for mypy: `_start` ran
    reference, seed, rewrites = task
    return [
        verdict(_scorer, reference, pair)
        for pair in pairs(reference, seed)
        if not rewrites or pair.rewrite in {PROBED, *rewrites}
    ]


def pairs(reference: Reference, seed: int) -> Iterator[Pair]:
    """Yield an answer for every rewrite that applies, each answer once; wrong ones for both rules of comparison."""
    text = reference.text
    yield Pair(PROBE, PROBED, "math", None)
    yield Pair(text, ITSELF, "math", 1.0)
    seen = {text}
    right = [(answer, TEMPLATE) for answer in reference.right]
    wrong = [(answer, TEMPLATE) for answer in reference.wrong]
    for table, found in ((RIGHT, right), (WRONG, wrong)):
        for name, rewrite in table.items():
            chance = random.Random(f"{seed} {name} {text}")  # noqa: S311 - no secret
            if (answer := rewrite(text, chance)) is not None:
                found.append((answer, name))
    for answers, expected in ((right, 1.0), (wrong, 0.0)):
        for answer, name in answers:
            if answer in seen:
                continue
            seen.add(answer)
            yield Pair(answer, name, "math", expected)
            if not expected:
                yield Pair(answer, name, "prime_math", expected)


def verdict(scorer: MathAnswer, reference: Reference, pair: Pair) -> RewriteVerdict:
    """Score one answer."""
    value, reason = None, NOT_SCORED
    for _ in range(_TRIES):
        try:
            score = scorer.score_text(f"\\boxed{{{pair.answer}}}", reference.text, pair.row_type)
        except Retryable as error:
            reason = f"{NOT_SCORED}: {error}"
        else:
            value, reason = score.value, score.reason
            break
    return RewriteVerdict(reference, shape_of(reference.text), pair, value, reason)
