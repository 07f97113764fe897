"""What an answer that hangs costs a worker, by shape of row, beside what it may cost.

Each answer of `benchmarks.rigs.hanging_answers` goes through its scorer as a worker would have it. The bound is twice
the limit of a case and a second, all told. A swe row is tried first with another edit, since each row is tried once.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from benchmarks.comparison import Comparison
from benchmarks.rigs.hanging_answers import SHAPES, HangingAnswer
from config.scorer_kinds import CodeConfig, SweConfig
from config.scorers import ScorersConfig
from scorers.build import build_scorer
from scorers.scorer import Scorer
from scorers.swe.package_tests import CASE_S

LIMIT = "bound: twice the case's limit and a second"
ANOTHER_EDIT = "def add(a, b):\n    return 7"
RIGHT = "def f(x):\n    return x\nif __name__ == '__main__':\n    print(input())"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured."""

    case_s: float = 2.0  # a case's limit; a swe test's is its own
    shapes: int = len(SHAPES)


FULL, SMOKE = Size(), Size(case_s=0.25, shapes=2)


def measure(size: Size) -> list[Comparison]:
    """Make one comparison for each shape of row."""
    config = ScorersConfig()
    code = CodeConfig(case_timeout_s=size.case_s)
    with closing(build_scorer(code, config)) as programs, closing(build_scorer(SweConfig(), config)) as edits:
        scorers = {"code": programs, "swe": edits}
        return [
            _comparison(name, shape, scorers[shape.type], size.case_s if shape.type == "code" else CASE_S)
            for name, shape in list(SHAPES.items())[: size.shapes]
        ]


def _comparison(name: str, shape: HangingAnswer, scorer: Scorer, case_s: float) -> Comparison:
    """Score the answer after another one, which brings what only the first run of a row needs."""
    scorer.score(_fenced(RIGHT if shape.type == "code" else ANOTHER_EDIT), shape.info)
    score = scorer.score(_fenced(shape.program), shape.info)
    if score.value is None or score.value == 1.0:
        raise RuntimeError(f"{name}: {score.value}, {score.reason}")
    return Comparison(
        what=f"{name}; a case's limit is {case_s:g} s",
        unit="s",
        less_is_better=True,
        ours=[score.seconds],
        beside=LIMIT,
        other=[2 * case_s + 1.0],
    )


def _fenced(program: str) -> str:
    return f"```python\n{program}\n```"
