"""A row that an answer without any work in it passes: which stub passes which shape of row, and what becomes of the row."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from config.scorer_kinds import CodeConfig, SimulationConfig
from config.scorers import ScorersConfig
from sandbox.program import Sandbox, SandboxUnavailable
from scorers.child.frames import failure
from scorers.code.scorer import CodeTests
from scorers.gold.examiner import Candidate, RowVerdict, _Asked, _ended, examine
from scorers.gold.row_check import RowCheck
from scorers.scorer import Trying
from scorers.simulation.scorer import Simulation
from tests.support.sandbox.unable import Unable

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

Answer = dict[str, Any]
CONFIG = ScorersConfig.model_validate(
    {"tasks": {kind: {"scorer": {"type": kind}} for kind in ("code", "simulation", "math")}}
)


def stdio(*cases: tuple[str, str], **more: str) -> Answer:
    return {"test_cases": [{"input": given, "output": wanted} for given, wanted in cases], **more}


def calls(*cases: tuple[Any, Any]) -> Answer:
    inputs, outputs = zip(*cases, strict=True)
    return {"fn_name": "f", "inputs": list(inputs), "outputs": list(outputs)}


def asserts(*tests: str) -> Answer:
    return {"tests": list(tests)}


def functional(text: str) -> Answer:
    return {"functional": text}


CHECK = "def check(candidate):\n    assert candidate(1) == {}\n    assert candidate(2) == {}\ncheck(f)"
STACK = "s = Stack()\ns.push(1)\n{}assert s.pop() == 1"
TESTED = "from solution import f\n\ndef test_f():\n    assert f(1) == 3\n    assert f(2) == {}"
PARAMETRIZED = """
import pytest, solution
@pytest.mark.parametrize(('x', 'e'), [(1, 'yes'), (2, 'yes')])
def test_f(x, e):
    assert solution.f(x) == e
"""
UNITTEST = """
import unittest
from solution import *
class T(unittest.TestCase):
    def test_f(self):
        self.assertEqual(f([1]), [1])
"""
FUNCTIONS = [  # what a function that returns is enough for
    (calls(([1], None), ([2], None)), "nothing"),
    (calls(([[3]], []), ([[4]], [])), "[]"),
    (calls(([[1, 2]], [1, 2]), ([[]], [])), "its argument"),
    (calls(([5, 3], 3), ([1, 2], 2)), "its last argument"),
    (calls(([1], [8]), ([2], [8])), "8"),
    (calls(("1\n2", "true"), ("3\n4", "true")), "True"),
    (asserts("assert f(1) is None", "assert not f(2)"), "nothing"),
    (asserts("assert f(1) == []", "assert f(2) == list()"), "[]"),
    (asserts("assert f([1, 2]) == [1, 2]", "assert f([3]) == [3]"), "its argument"),
    (asserts("assert f(1, 5) == 5", "assert f(1, y=7) == 7"), "its last argument"),
    (asserts("assert f(0) == True", "assert f(2)"), "True"),
    (asserts("assert f(1) is False", "assert f(2) is False"), "False"),
    (asserts("assert f(1) == sorted([2, 1])"), "sorted([2, 1])"),
    (asserts("assert abs(f(1) - 1.5) < 1e-6", "assert abs(f(2) - 1.5) < 1e-6"), "1.5"),
    (asserts("assert f(6) < 1", "assert f(9) < 1"), "0"),
    (asserts("assert isinstance(f(1), str)"), "''"),
    (asserts("assert set(f(1)) == {3, 4}"), "{3, 4}"),
    (asserts("assert f(1) == Decimal('1.5')") | {"setup": "from decimal import Decimal"}, "Decimal('1.5')"),
    (asserts("xs = [1, 2]\nf(xs)\nassert xs == [1, 2]"), "nothing"),
    (functional(CHECK.format(5, 5)), "5"),
    (functional("for x, e in [(1, 'a'), (2, 'a')]:\n    assert f(x) == e"), "'a'"),
    (functional("assert f(3) == 3") | {"prefix": "import math"}, "its argument"),
    ({"pytest": TESTED.format(3)}, "3"),
    ({"pytest": PARAMETRIZED}, "'yes'"),
    ({"pytest": UNITTEST}, "its argument"),
]


@pytest.mark.parametrize(
    ("answer", "stub"),
    [
        (stdio(("1\n", ""), ("2\n", "\n")), "a program that prints nothing"),
        (stdio(("1\n2\n", "1\n2"), ("3\n", "3")), "a program that prints its input"),
        (stdio(("1\n", "YES\n"), ("2\n", "YES")), "a program that always prints 'YES\\n'"),
        (stdio(("1\n", "7"), language="cpp"), "a program that always prints '7'"),
        ({"inputs": ["1", "2"], "outputs": ["no", "no"]}, "a program that always prints 'no'"),
        (functional(STACK.format("")), "a class whose methods return 1"),
        (calls(([1], 1), ([2], True)), "a function that returns 1"),  # True equals 1
        *((answer, f"a function that returns {value}") for answer, value in FUNCTIONS),
    ],
)
def test_a_stub_that_passes_every_test_is_named(scorer: CodeTests, answer: Answer, stub: str) -> None:
    assert scorer.passing_stub({"type": "code_verifiable", "answer": answer}) == stub


@pytest.mark.parametrize(
    "answer",
    [
        stdio(("1\n", "2"), ("2\n", "3")),
        stdio(("1\n", ""), ("2\n", "2"), ("3\n", "4")),
        calls(([1], 2), ([2], 3)),
        calls(([1], True), ([2], False)),
        asserts("assert f(1) == True", "assert f(2) == False"),
        asserts("assert f(1) == 1", "assert f(2) == 3"),
        asserts("assert f([1]) is None", "assert f([2]) == []"),
        functional(CHECK.format(5, 6)),
        functional(STACK.format("s.push(2)\nassert s.pop() == 2\n")),
        {"pytest": TESTED.format(4)},
        asserts("while f(3) == 3: pass\nassert f(9) == 8", "assert f(1) == 0"),  # hangs for its argument
    ],
)
def test_a_row_that_asks_for_work_is_passed_by_no_stub(scorer: CodeTests, answer: Answer) -> None:
    assert scorer.passing_stub({"type": "code", "answer": answer}) == ""


def codeio(predict: str, **answer: Any) -> dict[str, Any]:
    return {"type": "codeio", "answer": {"predict": predict, **answer}}


def cruxeval(functional: str, predict: str, **answer: Any) -> dict[str, Any]:
    return {"type": "cruxeval", "answer": {"functional": functional, "predict": predict, **answer}}


FIRST, SEVEN = "def f(xs):\n    return xs[:1]", "def f(x):\n    return 7"
MAIN = "def main_solution({}):\n    return {}"


@pytest.fixture(scope="module")
def simulation(sandbox: Sandbox) -> Simulation:
    return Simulation(SimulationConfig(), ScorersConfig(), sandbox)


@pytest.mark.parametrize(
    ("info", "stub"),
    [
        (codeio("input", value={"n": 3}, output=7, code=MAIN.format("n=1", 7)), "an input of no variable"),
        (
            codeio("input", value={"n": 3}, output=7, code=MAIN.format("n", 7)),
            "an input of null for every variable",
        ),
        (cruxeval(SEVEN, "input", output="7"), "an input of None"),
        (codeio("input", value={}, output=7, code=MAIN.format("", 7)), ""),
        (codeio("input", value={"n": 3}, output=4, code=MAIN.format("n", "n + 1")), ""),
        (codeio("output", value=None), ""),
        (codeio("output", value=[]), ""),
        (cruxeval(FIRST, "output", input="[4]", output="[4]"), ""),
        (cruxeval(FIRST, "input", output="[]"), ""),
        (cruxeval(FIRST, "input", output="[4]"), ""),
    ],
)
def test_an_input_without_effect_is_named(simulation: Simulation, info: dict[str, Any], stub: str) -> None:
    assert simulation.passing_stub(info) == stub


@pytest.mark.prove
def test_the_gold_test_refuses_such_a_row_by_its_stubs_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    loose, strict = calls(([1], True), ([2], True)), calls(([1], 2), ([2], 3))
    told = "every test passes for a function that returns True: add a case that tells it from a right answer"
    rows = {
        (0, "def f(x): return x > 0"): RowVerdict.REFUSED,
        (0, ""): RowVerdict.REFUSED,
        (0, "def f(x): return 3"): RowVerdict.WRONG,
        (1, "def f(x): return x + 1"): RowVerdict.RIGHT,
        (1, ""): RowVerdict.UNTESTED,
    }
    candidates = [
        Candidate(
            task="code",
            verification_info={"type": "code", "answer": (loose, strict)[which]},
            solution=solution,
        )
        for which, solution in rows
    ]
    found = list(examine(CONFIG, candidates))
    assert [one.verdict for one in found] == list(rows.values())
    assert [one.reason for one in found[:2]] == [told] * 2


def test_a_plain_start_tries_no_row() -> None:
    """It shows rows to their scorers, and runs nothing."""
    row = b'["code", {"type": "code", "answer": {"tests": ["assert f(1)"]}}]'
    assert RowCheck(CONFIG).look([(0, row)]) == []


def test_what_the_machinery_could_not_do_is_no_verdict() -> None:
    scorer = CodeTests(CodeConfig(), ScorersConfig(), Unable())
    assert isinstance(scorer, Trying)
    with pytest.raises(SandboxUnavailable, match="refused the connection"):
        scorer.passing_stub({"type": "code", "answer": asserts("assert f(1) == 2")})


def done(result: dict[str, Any]) -> Future[dict[str, Any]]:
    future: Future[dict[str, Any]] = Future()
    future.set_result(result)
    return future


SCORED: dict[str, Any] = {"status": "scored", "value": 1.0, "reason": "", "components": {}}
UNSCORED: dict[str, Any] = {"status": "unscorable", "value": None, "reason": "why", "components": {}}


def test_a_failure_of_the_machinery_and_a_lack_of_the_machine_are_no_verdict(
    subtests: pytest.Subtests,
) -> None:
    cases: list[tuple[dict[str, Any] | None, dict[str, Any], RowVerdict]] = [
        (SCORED, {"stub": ""}, RowVerdict.RIGHT),
        (SCORED, {"stub": "a program that prints nothing"}, RowVerdict.REFUSED),
        (SCORED, failure("no such row", fault="row"), RowVerdict.REFUSED),
        (SCORED, failure("refused the connection", fault="machine"), RowVerdict.UNTESTED),
        (SCORED, failure("a bug", fault="scorer"), RowVerdict.UNTESTED),
        (UNSCORED, {"stub": ""}, RowVerdict.WRONG),
        (UNSCORED | {"components": {"failed_tries": 3.0}}, {"stub": ""}, RowVerdict.UNTESTED),
        (UNSCORED | {"components": {"lacking": 1.0}}, {"stub": ""}, RowVerdict.UNTESTED),
        (SCORED | {"value": 0.5}, {"stub": "a program that prints nothing"}, RowVerdict.WRONG),
        (None, {"stub": ""}, RowVerdict.UNTESTED),
        (None, {"stub": "a program that prints nothing"}, RowVerdict.REFUSED),
    ]
    for scored, tried, verdict in cases:
        with subtests.test(scored=scored, tried=tried):
            reference = None if scored is None else ("text", done(scored))
            assert _ended(_Asked(reference, done(tried), "none is known")).verdict is verdict
