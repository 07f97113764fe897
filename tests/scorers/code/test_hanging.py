"""From cases to a score; the price of an answer that hangs: in every shape of rows at most twice the case's limit and a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from benchmarks.rigs.hanging_answers import SHAPES
from broker.messages import Score
from config.scorer_kinds import CodeConfig, SweConfig
from config.scorers import ScorersConfig
from sandbox.limits import Limits
from sandbox.program import Ending, Language, Program, ProgramOutcome, Sandbox
from scorers.code.scorer import CodeTests
from scorers.scorer import OVER_LIMIT
from scorers.swe import package_tests
from scorers.swe.scorer import SwePatch
from tests.support.tried_again import judged
from verdicts.code.judging import CaseTally

pytestmark = pytest.mark.process

CASE_S, DEADLINE_S = 0.5, 16.0
BUSY_S = 4.0  # a machine that runs every test is shared; a hang that is not bounded takes the whole deadline
PARTLY_RIGHT = {"asserts, a sleep in every other case", "asserts, the checking process kept busy"}
CODE = [
    name
    for name, shape in SHAPES.items()
    if shape.type == "code" and not name.endswith((" 1 case", " 2 cases"))
]
SWE = [name for name, shape in SHAPES.items() if shape.type == "swe"]


@pytest.fixture(scope="module")
def hasty(sandbox: Sandbox) -> CodeTests:
    scorer = CodeTests(CodeConfig(case_timeout_s=CASE_S, deadline_s=DEADLINE_S), ScorersConfig(), sandbox)
    warm = scorer.score("```python\ndef f(x): return x\n```", SHAPES["pytest, one test"].info)
    assert warm.value == 1.0, warm.reason
    return scorer


def price(score: Score) -> float:
    assert score.value is not None, score.reason
    return score.seconds


@pytest.mark.prove
@pytest.mark.parametrize("name", CODE)
def test_a_hang_costs_twice_the_limit_of_a_case_and_a_second(hasty: CodeTests, name: str) -> None:
    shape = SHAPES[name]
    score = hasty.score(f"```python\n{shape.program}\n```", shape.info)
    assert price(score) <= 2 * CASE_S + 1.0 + BUSY_S, score.reason
    if name in PARTLY_RIGHT:
        assert 0.0 < (score.value or 0.0) < 1.0, score.reason
    else:
        assert score.value == 0.0, score.reason
        assert OVER_LIMIT in score.components, score.reason


@pytest.mark.prove
@pytest.mark.parametrize("name", SWE)
def test_a_hanging_package_costs_twice_the_limit_and_a_second(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shape = SHAPES[name]
    scorer = SwePatch(SweConfig(deadline_s=DEADLINE_S), ScorersConfig())
    try:
        tried = scorer.score("```python\ndef add(a, b):\n    return 7\n```", shape.info)  # tries the row, too
        assert tried.value == 0.0, tried.reason
        monkeypatch.setattr(package_tests, "CASE_S", CASE_S)
        score = scorer.score(f"```python\n{shape.program}\n```", shape.info)
    finally:
        scorer.close()
    assert score.value == 0.0, score.reason
    assert "and again alone" in score.reason
    assert OVER_LIMIT in score.components, score.reason
    assert price(score) <= 2 * CASE_S + 1.0 + BUSY_S, score.reason


class Clock:
    """A sandbox whose programs take the seconds that they are told to, without taking them."""

    name, version, languages = "clock", "0", frozenset(Language)
    max_wall_s, max_output_bytes = 1000.0, 1 << 20
    failure, compiler_s = None, 0.0

    def __init__(self, **seconds: float) -> None:
        """Take how long a program runs, by its standard input; one that is not named runs no time."""
        self.seconds = seconds
        self.quick_after = 1000  # runs, after which no program takes any time
        self.given: list[tuple[str, float]] = []  # standard input, and the seconds that it might take

    @contextmanager
    def prepare(self, program: Program) -> Iterator[Clock]:
        self.compile_s = program.compile_s
        yield self

    def run(self, stdin: bytes = b"", limits: Limits | None = None) -> ProgramOutcome:
        assert limits is not None
        name = stdin.decode()
        self.given.append((name, limits.wall_s))
        wanted_s = self.seconds.get(name, 0.0) if len(self.given) <= self.quick_after else 0.0
        is_over = wanted_s > limits.wall_s
        return ProgramOutcome(
            ending=Ending.TIME if is_over else Ending.EXITED,
            exit_code=None if is_over else 0,
            stdout=stdin,
            stderr=b"",
            seconds=min(wanted_s, limits.wall_s),
            detail="time",
        )

    def self_test(self) -> None:
        pass

    def close(self) -> None:
        pass


def timed(clock: Clock, names: str, **options: Any) -> Score:
    scorer = CodeTests(CodeConfig(case_timeout_s=10.0, deadline_s=100.0), ScorersConfig(**options), clock)
    cases = [{"input": name, "output": name} for name in names]
    return scorer.score("```python\n1\n```", {"type": "code_verifiable", "answer": {"test_cases": cases}})


def test_after_two_limits_a_case_has_little_time_and_the_next_one_over_it_is_the_last() -> None:
    clock = Clock(b=99.0, d=99.0)
    score = timed(clock, "abcdef")
    assert [name for name, _ in clock.given] == list("abbcd")
    assert [seconds for _, seconds in clock.given] == [10.0, 10.0, 10.0, 0.5, 0.5]
    assert score.value == pytest.approx(2 / 6), score.reason
    assert "case 2: exceeded its limit" in score.reason


def test_a_case_that_is_over_its_limit_once_leaves_the_others_their_time() -> None:
    clock = Clock(a=99.0)
    clock.quick_after = 1
    score = timed(clock, "abc")
    assert [seconds for _, seconds in clock.given] == [10.0] * 4
    assert score.value == 1.0, score.reason


def test_quick_cases_after_a_slow_one_are_still_counted() -> None:
    clock = Clock(b=99.0, **dict.fromkeys("acdefghij", 0.4))
    score = timed(clock, "abcdefghij")
    assert score.value == pytest.approx(0.9), score.reason


HANG = "while True: pass"
STDIO = {"test_cases": [{"input": "", "output": "1"}, {"input": "", "output": "1"}]}
CALLS = {"tests": ["assert f(1) == 1", "assert f(2) == 2"]}
PYTEST = {"pytest": "from solution import f\ndef test_f(): assert f(1) == 1\n"}
HALF = "def f(x):\n    while x == 2: pass\n    return x"


def test_the_first_failure_is_the_reason(subtests: pytest.Subtests) -> None:
    table: list[tuple[bool, list[str | None], tuple[float, float, str]]] = [
        (True, [None, None], (1.0, 1.0, "all 2 cases passed")),
        (True, [None, "no"], (0.0, 0.5, "1 of 2 cases passed; case 2: no")),
        (False, [None, "no"], (0.5, 0.5, "1 of 2 cases passed; case 2: no")),
        (True, ["no"], (0.0, 0.0, "0 of 2 cases passed (1 ran); case 1: no")),
    ]
    for is_all, cases, expected in table:
        with subtests.test(is_all=is_all, cases=cases):
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
def brief(sandbox: Sandbox) -> CodeTests:
    return CodeTests(CodeConfig(case_timeout_s=0.5, deadline_s=20.0), ScorersConfig(), sandbox)


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("program", "answer", "kind", "is_over"),
    [
        (HANG, STDIO, "code", True), (HANG, CALLS, "code", True), (HANG, PYTEST, "code", True),
        (HALF, CALLS, "code", True),
        (HALF, CALLS, "code_verifiable", False),  # half a score is no zero
        ("print('exceeded its limit')", STDIO, "code", False),
        ("raise SystemExit('exceeded its limit')", STDIO, "code", False),
    ],
)  # fmt: skip
def test_zeros_of_a_limit_are_marked(
    brief: CodeTests, program: str, answer: dict[str, Any], kind: str, is_over: bool
) -> None:
    score = judged(brief, program, answer, kind)
    assert score.value == (0.5 if kind == "code_verifiable" else 0.0), score.reason
    assert (OVER_LIMIT in score.components) == is_over, score.reason
