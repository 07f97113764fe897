"""From cases to a score, and which zeros are those of a limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from scorers.code.scorer import CaseTally, CodeTests
from scorers.scorer import OVER_LIMIT
from tests.support.tried_again import judged

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

HANG = "while True: pass"
STDIO = {"test_cases": [{"input": "", "output": "1"}, {"input": "", "output": "1"}]}
CALLS = {"tests": ["assert f(1) == 1", "assert f(2) == 2"]}
PYTEST = {"pytest": "from solution import f\ndef test_f(): assert f(1) == 1\n"}
HALF = "def f(x):\n    while x == 2: pass\n    return x"


@pytest.mark.parametrize(
    ("is_all", "cases", "expected"),
    [
        (True, [None, None], (1.0, 1.0, "all 2 cases passed")),
        (True, [None, "no"], (0.0, 0.5, "1 of 2 cases passed; case 2: no")),
        (False, [None, "no"], (0.5, 0.5, "1 of 2 cases passed; case 2: no")),
        (True, ["no"], (0.0, 0.0, "0 of 2 cases passed (1 ran); case 1: no")),
    ],
)
def test_the_first_failure_is_the_reason(
    is_all: bool, cases: list[str | None], expected: tuple[float, float, str]
) -> None:
    tally = CaseTally(2, is_all)
    for reason in cases:
        tally.add(reason)
    assert tally.is_decided
    assert tally.score() == expected


def test_the_first_failure_says_whether_it_was_a_limit() -> None:
    for before, is_over in (((None, "wrong"), False), ((), True)):
        tally = CaseTally(3, is_all=False)
        for reason in before:
            tally.add(reason)
        tally.fail_rest("the deadline is over", is_limit=True)
        assert tally.is_over_limit is is_over


@pytest.fixture(scope="module")
def hasty() -> Iterator[CodeTests]:
    scorer = CodeTests(CodeConfig(case_timeout_s=0.5, deadline_s=20.0), ScorersConfig())
    yield scorer
    scorer.close()


@pytest.mark.parametrize(
    ("program", "answer", "kind", "is_over"),
    [
        (HANG, STDIO, "code", True),
        (HANG, CALLS, "code", True),
        (HANG, PYTEST, "code", True),
        (HALF, CALLS, "code", True),
        (HALF, CALLS, "code_verifiable", False),  # half a score is no zero
        ("print('exceeded its limit')", STDIO, "code", False),
        ("raise SystemExit('exceeded its limit')", STDIO, "code", False),
    ],
)
def test_zeros_of_a_limit_are_marked(
    hasty: CodeTests, program: str, answer: dict[str, Any], kind: str, is_over: bool
) -> None:
    score = judged(hasty, program, answer, kind)
    assert score.value == (0.5 if kind == "code_verifiable" else 0.0), score.reason
    assert (OVER_LIMIT in score.components) == is_over, score.reason
