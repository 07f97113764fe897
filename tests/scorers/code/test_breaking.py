"""Answers that try to break what checks them, and rows that this machine can't judge: neither gets a wrong verdict."""

from __future__ import annotations

from typing import Any

import pytest

from config.scorer_kinds import CodeConfig, SweConfig
from config.scorers import ScorersConfig
from sandbox.program import Sandbox, SandboxUnavailable
from scorers.code.scorer import CodeTests
from scorers.scorer import OVER_LIMIT
from scorers.swe.scorer import SwePatch
from tests.support.tried_again import judged

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

EVEN = "from solution import is_even\n" + "".join(
    f"def test_{n}():\n    assert {'' if n % 2 == 0 else 'not '}is_even({n})\n" for n in (2, 3, 4, 5)
)
# After the first test nothing of it can be printed: what tells of the failure fails, too.
UNPRINTABLE = """
left = 0
def text(*_):
    global left
    if left:
        left -= 1
        raise ValueError(Unprintable())
    return "x"
class Unprintable:
    __str__ = __repr__ = text
def is_even(x):
    global left
    if x == 2: return True
    left = %d
    return Unprintable()
"""
SECOND_TIME = """
class Coy:
    times = 0
    def __str__(self):
        Coy.times += 1
        if Coy.times > 1: {}
        return "a"
    __repr__ = __str__
def f(x): raise ValueError(Coy())
"""
ONE = {"tests": ["assert f(1) == 1"]}
CALL = {"fn_name": "f", "inputs": [[1]], "outputs": [1]}
CHECK = {"functional": "def check(f):\n    assert f(1) == 1\ncheck(f)"}
OF_PYTEST = "from solution import f\ndef test_f():\n    assert f(1) == 1\n"
PYTEST = {"pytest": OF_PYTEST}
# The answer's process lives on, and what it says to the tests goes nowhere.
GIVES_UP = """
import os
def give_up():
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in range(3, 64):
        try: writes = os.write(descriptor, b"") == 0
        except OSError: writes = False
        if writes and descriptor != nowhere: os.dup2(nowhere, descriptor)
"""


@pytest.mark.parametrize("left", [1, 24, 1000])
def test_an_object_that_pytest_can_not_print_ends_no_file_early(scorer: CodeTests, left: int) -> None:
    score = judged(scorer, UNPRINTABLE % left, {"pytest": EVEN})
    assert score.value == 0.0, score.reason
    assert "1 of 4 cases passed" in score.reason


def test_an_object_that_pytest_can_not_print_makes_no_patch_right() -> None:
    before = "def is_even(x):\n    return x == 2\n"
    row = {
        "type": "swe",
        "answer": {
            "input": before,
            "ground_truth": "def is_even(x):\n    return x % 2 == 0\n",
            "files": {"solution.py": before, "test_even.py": EVEN},
            "test_command": "pytest -q test_even.py",
        },
    }
    patcher = SwePatch(SweConfig(), ScorersConfig())
    score = patcher.score(f"```python\n{UNPRINTABLE % 24}\n```", row)
    patcher.close()
    assert score.value == 0.0, score.reason
    assert "1 of 4 tests passed" in score.reason


UNTOLD = {
    "a number without text": "def f(x): raise ValueError(10 ** 5000)",
    "the same while it is loaded": "raise ValueError(10 ** 5000)",
    "half a character": "def f(x): raise ValueError('\\ud800')",
    "half a character while it is loaded": "raise ValueError('\\ud800')",
    "half a character, returned": "def f(x): return '\\ud800'",
    "an end without text": "def f(x): raise SystemExit(10 ** 5000)",
    "functions": "def f(x): raise KeyError(*[f] * 99)",
    "text once only": SECOND_TIME.format("raise KeyError('x')"),
    "text, then an end": SECOND_TIME.format("__import__('os')._exit(0)"),
}


@pytest.mark.parametrize("program", UNTOLD.values(), ids=UNTOLD)
@pytest.mark.parametrize("answer", [ONE, CALL, CHECK, PYTEST], ids=["assert", "call", "check", "pytest"])
def test_an_untold_exception_is_wrong(scorer: CodeTests, program: str, answer: dict[str, Any]) -> None:
    score = judged(scorer, program, answer)
    assert score.value == 0.0, score.reason
    assert score.reason.encode("utf-8"), "a message carries it"


@pytest.mark.parametrize(
    ("program", "expected", "value"),
    [
        ("def f(x): return 5", "Infinity", 0.0),
        ("def f(x): return -5.0", "-Infinity", 0.0),
        ("def f(x): return [5, 5]", [float("inf"), -float("inf")], 0.0),
        ("def f(x): return float('inf')", "Infinity", 1.0),
        ("def f(x): return -float('inf')", "Infinity", 0.0),
        ("def f(x): return float('nan')", 5.0, 0.0),
        ("def f(x): return 5.0000001", 5.0, 1.0),
    ],
)
def test_only_infinity_is_infinite(scorer: CodeTests, program: str, expected: Any, value: float) -> None:
    score = judged(scorer, program, {"fn_name": "f", "inputs": ["1"], "outputs": [expected]})
    assert score.value == value, score.reason


@pytest.mark.parametrize(
    "answer",
    [
        {"tests": ["import missing_package\nassert f(1) == 1"]},
        {"tests": ["from missing_package.part import thing\nassert f(1) == thing"]},
        {"functional": "import missing_package as m\nassert m.g(f(1)) == 1"},
        {"pytest": f"import missing_package\n{OF_PYTEST}"},
        {"pytest": OF_PYTEST.replace(":\n", ":\n    import missing_package\n")},
    ],
    ids=["assert", "from", "check", "pytest", "inside a test"],
)
def test_a_package_that_tests_need_and_lack_is_no_zero(scorer: CodeTests, answer: dict[str, Any]) -> None:
    with pytest.raises(SandboxUnavailable, match="the tests need missing_package"):
        judged(scorer, "def f(x): return x", answer)


@pytest.mark.prove
def test_a_package_that_tests_can_do_without_may_be_missing(scorer: CodeTests) -> None:
    tests = "try:\n    import missing_package\nexcept ImportError:\n    missing_package = None\n"
    assert judged(scorer, "def f(x): return x", {"pytest": tests + OF_PYTEST}).value == 1.0


def test_a_package_that_the_answer_needs_is_the_answers_own_affair(scorer: CodeTests) -> None:
    score = judged(scorer, "import missing_package\ndef f(x): return x", ONE)
    assert score.value == 0.0
    assert "missing_package" in score.reason


@pytest.mark.parametrize(
    "test",
    [
        "import pytest\nassert f(1) == pytest.approx(1)",
        "from pytest import approx\nassert f(1) == approx(1)",
        "assert f(1) == approx(1)",
        "import pytest\nwith pytest.raises(ZeroDivisionError):\n    f(0)\nassert f(1) == 1",
    ],
)
def test_checks_may_use_pytest_without_being_its_file(scorer: CodeTests, test: str) -> None:
    assert judged(scorer, "def f(x): return x / x", {"tests": [test]}).value == 1.0
    assert judged(scorer, "def f(x): return x - 3", {"tests": [test]}).value == 0.0


WHEN_CALLED = "def f(x):\n    give_up()\n    return x"


@pytest.mark.parametrize(
    ("program", "answer"),
    [("give_up()\ndef f(x): return x", ONE), (WHEN_CALLED, CALL), (WHEN_CALLED, PYTEST)],
    ids=["assert, at load", "call", "pytest"],
)
def test_an_answer_without_its_pipe_is_not_waited_for(
    scorer: CodeTests, program: str, answer: dict[str, Any]
) -> None:
    score = judged(scorer, f"{GIVES_UP}{program}", answer)
    assert score.value == 0.0, score.reason
    assert "the program closed its pipe" in score.reason
    assert score.seconds < 10.0, "the deadline is 60 s"


def test_what_passed_before_an_answer_gave_up_its_pipe_counts(scorer: CodeTests) -> None:
    program = f"{GIVES_UP}def f(x):\n    if x == 2: give_up()\n    return x"
    tests = [f"assert f({number}) == {number}" for number in (1, 2, 3)]
    score = judged(scorer, program, {"tests": tests}, "code_verifiable")
    assert score.value == pytest.approx(2 / 3), score.reason


def test_tests_that_hear_no_alarm_are_ended_and_it_was_the_time(sandbox: Sandbox) -> None:
    scorer = CodeTests(CodeConfig(case_timeout_s=0.3, deadline_s=40.0), ScorersConfig(), sandbox)
    score = judged(scorer, "def f(x): return range(10 ** 15)", {"tests": ["assert sum(f(9)) == 1"]})
    assert (score.value, score.components.get(OVER_LIMIT)) == (0.0, 1.0), score.reason
    assert (
        "exceeded its limit: the time of what the tests do with its values, and again alone" in score.reason
    )
