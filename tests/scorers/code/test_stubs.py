"""A row that an answer without any work in it passes: which stub passes which shape of row, and what becomes of the row."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

import pytest

from config.scorer_kinds import CodeConfig, SimulationConfig
from config.scorers import ScorersConfig
from scorers.child.row_worker import failure
from scorers.code.scorer import CodeTests
from scorers.gold.examiner import Candidate, Verdict, _Asked, _ended, examine
from scorers.gold.row_check import RowCheck
from scorers.sandbox.program import Language, Prepared, Program, SandboxUnavailable
from scorers.scorer import Trying
from scorers.simulation.scorer import Simulation

pytestmark = [pytest.mark.process, pytest.mark.prove(after=4)]

Answer = dict[str, Any]
CONFIG = ScorersConfig.model_validate(
    {"tasks": {kind: {"scorer": {"type": kind}} for kind in ("code", "simulation", "math")}}
)


@pytest.fixture(scope="module")
def scorer() -> Iterator[CodeTests]:
    built = CodeTests(CodeConfig(), ScorersConfig())
    yield built
    built.close()


def stdio(*cases: tuple[str, str], **more: str) -> Answer:
    return {"test_cases": [{"input": given, "output": wanted} for given, wanted in cases], **more}


def calls(*cases: tuple[list[Any], Any]) -> Answer:
    return {
        "fn_name": "f",
        "inputs": [list(given) for given, _ in cases],
        "outputs": [out for _, out in cases],
    }


def asserts(*tests: str) -> Answer:
    return {"tests": list(tests)}


def pytest_file(*lines: str) -> Answer:
    return {"pytest": "\n".join(lines)}


CHECK = "def check(candidate):\n    assert candidate(1) == {}\n    assert candidate(2) == {}\ncheck(f)"


@pytest.mark.parametrize(
    ("answer", "stub"),
    [
        (stdio(("1\n", ""), ("2\n", "\n")), "a program that prints nothing"),
        (stdio(("1\n2\n", "1\n2"), ("3\n", "3")), "a program that prints its input"),
        (stdio(("1\n", "YES\n"), ("2\n", "YES")), "a program that always prints 'YES\\n'"),
        (stdio(("1\n", "7"), language="cpp"), "a program that always prints '7'"),
        ({"inputs": ["1", "2"], "outputs": ["no", "no"]}, "a program that always prints 'no'"),
        (calls(([1], None), ([2], None)), "a function that returns nothing"),
        (calls(([[3]], []), ([[4]], [])), "a function that returns []"),
        (calls(([[1, 2]], [1, 2]), ([[]], [])), "a function that returns its argument"),
        (calls(([5, 3], 3), ([1, 2], 2)), "a function that returns its last argument"),
        (calls(([1], [8]), ([2], [8])), "a function that returns 8"),
        (
            {"fn_name": "f", "inputs": ["1\n2", "3\n4"], "outputs": ["true", "true"]},
            "a function that returns True",
        ),
        (asserts("assert f(1) is None", "assert not f(2)"), "a function that returns nothing"),
        (asserts("assert f(1) == []", "assert f(2) == list()"), "a function that returns []"),
        (
            asserts("assert f([1, 2]) == [1, 2]", "assert f([3]) == [3]"),
            "a function that returns its argument",
        ),
        (
            asserts("assert f(1, 5) == 5", "assert f(1, y=7) == 7"),
            "a function that returns its last argument",
        ),
        (asserts("assert f(0) == True", "assert f(2)"), "a function that returns True"),
        (asserts("assert f(1) is False", "assert f(2) is False"), "a function that returns False"),
        (asserts("assert f(1) == sorted([2, 1])"), "a function that returns sorted([2, 1])"),
        (
            asserts("assert abs(f(1) - 1.5) < 1e-6", "assert abs(f(2) - 1.5) < 1e-6"),
            "a function that returns 1.5",
        ),
        (asserts("assert f(6) < 1", "assert f(9) < 1"), "a function that returns 0"),
        (asserts("assert isinstance(f(1), str)"), "a function that returns ''"),
        (asserts("assert set(f(1)) == {3, 4}"), "a function that returns {3, 4}"),
        (
            {"tests": ["assert f(1) == Decimal('1.5')"], "setup": "from decimal import Decimal"},
            "a function that returns Decimal('1.5')",
        ),
        (asserts("xs = [1, 2]\nf(xs)\nassert xs == [1, 2]"), "a function that returns nothing"),
        ({"functional": CHECK.format(5, 5)}, "a function that returns 5"),
        (
            {"functional": "for x, e in [(1, 'a'), (2, 'a')]:\n    assert f(x) == e"},
            "a function that returns 'a'",
        ),
        ({"functional": "assert f(3) == 3", "prefix": "import math"}, "a function that returns its argument"),
        ({"functional": "s = Stack()\ns.push(1)\nassert s.pop() == 1"}, "a class whose methods return 1"),
        (
            pytest_file(
                "from solution import f", "", "def test_f():", "    assert f(1) == 3", "    assert f(2) == 3"
            ),
            "a function that returns 3",
        ),
        (
            pytest_file(
                "import pytest, solution",
                "@pytest.mark.parametrize(('x', 'e'), [(1, 'yes'), (2, 'yes')])",
                "def test_f(x, e):",
                "    assert solution.f(x) == e",
            ),
            "a function that returns 'yes'",
        ),
        (
            pytest_file(
                "import unittest",
                "from solution import *",
                "class T(unittest.TestCase):",
                "    def test_f(self):",
                "        self.assertEqual(f([1]), [1])",
            ),
            "a function that returns its argument",
        ),
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
        calls(([1], 1), ([2], True)),
        asserts("assert f(1) == True", "assert f(2) == False"),
        asserts("assert f(1) == 1", "assert f(2) == 3"),
        asserts("assert f([1]) is None", "assert f([2]) == []"),
        {"functional": CHECK.format(5, 6)},
        {"functional": "s = Stack()\ns.push(1)\ns.push(2)\nassert s.pop() == 2\nassert s.pop() == 1"},
        pytest_file(
            "from solution import f", "", "def test_f():", "    assert f(1) == 3", "    assert f(2) == 4"
        ),
        asserts("while f(3) == 3: pass\nassert f(9) == 8", "assert f(1) == 0"),  # hangs for its argument
    ],
)
def test_a_row_that_asks_for_work_is_passed_by_no_stub(scorer: CodeTests, answer: Answer) -> None:
    assert scorer.passing_stub({"type": "code", "answer": answer}) == ""


def codeio(**answer: Any) -> dict[str, Any]:
    return {"type": "codeio", "answer": answer}


def cruxeval(**answer: Any) -> dict[str, Any]:
    return {"type": "cruxeval", "answer": answer}


FIRST = "def f(xs):\n    return xs[:1]"
NEXT = "def main_solution(n):\n    return n + 1"


@pytest.fixture(scope="module")
def simulation() -> Iterator[Simulation]:
    built = Simulation(SimulationConfig(), ScorersConfig())
    yield built
    built.close()


@pytest.mark.parametrize(
    ("info", "stub"),
    [
        (
            codeio(predict="input", value={"n": 3}, output=7, code="def main_solution(n=1):\n    return 7"),
            "an input of no variable",
        ),
        (
            codeio(predict="input", value={"n": 3}, output=7, code="def main_solution(n):\n    return 7"),
            "an input of null for every variable",
        ),
        (cruxeval(functional="def f(x):\n    return 7", predict="input", output="7"), "an input of None"),
        (codeio(predict="input", value={}, output=7, code="def main_solution():\n    return 7"), ""),
        (codeio(predict="input", value={"n": 3}, output=4, code=NEXT), ""),
        (codeio(predict="output", value=None), ""),
        (codeio(predict="output", value=[]), ""),
        (cruxeval(functional=FIRST, predict="output", input="[4]", output="[4]"), ""),
        (cruxeval(functional=FIRST, predict="input", output="[]"), ""),
        (cruxeval(functional=FIRST, predict="input", output="[4]"), ""),
    ],
)
def test_an_input_that_no_program_looks_at_is_named(
    simulation: Simulation, info: dict[str, Any], stub: str
) -> None:
    assert simulation.passing_stub(info) == stub


def test_the_gold_test_refuses_such_a_row_by_the_stubs_name_with_a_reference_and_without() -> None:
    loose, strict = calls(([1], True), ([2], True)), calls(([1], 2), ([2], 3))
    told = "every test passes for a function that returns True: add a case that tells it from a right answer"
    rows = {
        (0, "def f(x): return x > 0"): Verdict.REFUSED,
        (0, ""): Verdict.REFUSED,
        (0, "def f(x): return 3"): Verdict.WRONG,
        (1, "def f(x): return x + 1"): Verdict.RIGHT,
        (1, ""): Verdict.UNTESTED,
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


class Away:
    """A sandbox that can't be reached."""

    name, version, languages = "away", "0", frozenset(Language)
    max_wall_s, max_output_bytes = 10.0, 1000

    def prepare(self, program: Program) -> AbstractContextManager[Prepared]:
        raise SandboxUnavailable("http://sandbox:8080 refused the connection")

    def self_test(self) -> None: ...

    def close(self) -> None: ...


def test_what_the_machinery_could_not_do_is_no_verdict() -> None:
    scorer = CodeTests(CodeConfig(), ScorersConfig(), Away())
    assert isinstance(scorer, Trying)
    with pytest.raises(SandboxUnavailable, match="refused the connection"):
        scorer.passing_stub({"type": "code", "answer": asserts("assert f(1) == 2")})


def done(result: dict[str, Any]) -> Future[dict[str, Any]]:
    future: Future[dict[str, Any]] = Future()
    future.set_result(result)
    return future


SCORED: dict[str, Any] = {"status": "scored", "value": 1.0, "reason": "", "components": {}}
UNSCORED: dict[str, Any] = {"status": "unscorable", "value": None, "reason": "why", "components": {}}


@pytest.mark.parametrize(
    ("scored", "tried", "verdict"),
    [
        (SCORED, {"stub": ""}, Verdict.RIGHT),
        (SCORED, {"stub": "a program that prints nothing"}, Verdict.REFUSED),
        (SCORED, failure("no such row", fault="row"), Verdict.REFUSED),
        (SCORED, failure("refused the connection", fault="machine"), Verdict.UNTESTED),
        (SCORED, failure("a bug", fault="scorer"), Verdict.UNTESTED),
        (UNSCORED, {"stub": ""}, Verdict.WRONG),
        (UNSCORED | {"components": {"failed_tries": 3.0}}, {"stub": ""}, Verdict.UNTESTED),
        (UNSCORED | {"components": {"lacking": 1.0}}, {"stub": ""}, Verdict.UNTESTED),
        (SCORED | {"value": 0.5}, {"stub": "a program that prints nothing"}, Verdict.WRONG),
        (None, {"stub": ""}, Verdict.UNTESTED),
        (None, {"stub": "a program that prints nothing"}, Verdict.REFUSED),
    ],
)
def test_a_failure_of_the_machinery_and_a_lack_of_the_machine_are_no_verdict(
    scored: dict[str, Any] | None, tried: dict[str, Any], verdict: Verdict
) -> None:
    reference = None if scored is None else ("text", done(scored))
    assert _ended(_Asked(reference, done(tried), "none is known")).verdict is verdict
