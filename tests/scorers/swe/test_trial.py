"""Patched packages against their tests in the sandbox: honest ones, and attacks on what judges them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from broker.errors import BadMessage
from broker.messages import ScoreStatus
from config.scorer_kinds import SweConfig
from config.scorers import ScorersConfig
from scorers.swe.rows import read_row
from scorers.swe.scorer import SwePatch
from scorers.swe.trial import Trial
from tests.scorers.swe.texts import Row, edit, edits, fenced, solution, whole

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

CALC = """from .errors import Empty


class Total:
    def __init__(self):
        self.value = 0

    def push(self, number):
        self.value -= number
        return self


def mean(numbers):
    if not numbers:
        raise Empty("no numbers")
    return sum(numbers)
"""
FIXES = [
    ("        self.value -= number", "        self.value += number"),
    ("    return sum(numbers)", "    return sum(numbers) / len(numbers)"),
]
CALC_FIXED = CALC.replace("-= number", "+= number").replace("sum(numbers)", "sum(numbers) / len(numbers)")
TESTS = """from __future__ import annotations

import math
import pytest
import stats
from stats import calc
from stats.calc import Total, mean
from stats.errors import Empty
from tests.cases import CASES

@pytest.mark.parametrize(("numbers", "expected"), CASES)
def test_mean(numbers, expected):
    assert math.isclose(mean(numbers), expected)

def test_empty():
    with pytest.raises(Empty, match="no numbers"):
        calc.mean([])

def test_total():
    total = Total()
    assert total.push(2).push(3).value == 5
    assert isinstance(total, calc.Total)

def test_replaced(monkeypatch):
    monkeypatch.setattr(calc, "sum", lambda numbers: 8, raising=False)
    assert stats.mean([1, 2]) == 4
"""
UNIT_TESTS = """import unittest
from stats.calc import Total, mean

class StatsTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 2, 3, 4]), 2.5)

    def test_total(self):
        self.assertEqual(Total().push(4).value, 4)

if __name__ == "__main__":
    unittest.main()
"""
FILES = {
    "stats/__init__.py": "from .calc import mean\n",
    "stats/calc.py": CALC,
    "stats/errors.py": "class Empty(ValueError):\n    pass\n",
    "README.md": "```text\nstats\n```\n",
    "tests/cases.py": "CASES = [([1, 2], 1.5), ([3], 3.0)]\n",
    "tests/test_stats.py": TESTS,
    "tests/test_unit.py": UNIT_TESTS,
}
HEAD = "from .errors import Empty"
REFERENCE = {"stats/calc.py": CALC_FIXED}
COMMAND = "pytest -q tests/test_stats.py"


def row(command: str = COMMAND, files: dict[str, str] = FILES, after: dict[str, str] = REFERENCE) -> Row:
    made = edits({path: files[path] for path in after if path in files}, after)
    made["answer"] |= {"files": files, "test_command": command}
    return made


def with_file(path: str, text: str) -> Row:
    return row(files={**FILES, path: text})


def of_swe(**answer: Any) -> Row:
    return {"type": "swe", "answer": answer}


def in_calc(*replacements: tuple[str, str]) -> str:
    return solution(*(edit("stats/calc.py", search, replace) for search, replace in replacements))


ROW = row()  # one object: a row is tried once as long as it is the same
RIGHT = in_calc(*FIXES)
WHOLE = whole(CALC, CALC_FIXED)
WHOLE["answer"] |= {"files": FILES, "test_command": "python -m unittest tests.test_unit"}
IN_SRC = {f"src/{path}" if path.startswith("stats") else path: text for path, text in FILES.items()}


@pytest.fixture(scope="module")
def scorer() -> Iterator[SwePatch]:
    with closing(SwePatch(SweConfig(), ScorersConfig())) as swe:
        yield swe


BOTH_FILES = "python -m pytest -x --tb=short tests/test_stats.py tests/test_unit.py"
SUMS = FIXES[1][0]
WITH_A_NEW_FILE = solution(
    edit("stats/calc.py", *FIXES[0]),
    edit("stats/calc.py", HEAD, f"{HEAD}\nfrom .own import half"),
    edit("stats/own.py", "", "def half(total, count):\n    return total / count"),
    edit("stats/calc.py", SUMS, "    return half(sum(numbers), len(numbers))"),
)


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (ROW, RIGHT),
        (WHOLE, fenced(CALC_FIXED)),
        (
            row(BOTH_FILES, IN_SRC, {"src/stats/calc.py": CALC_FIXED}),
            RIGHT.replace("### stats", "### src/stats"),
        ),
        (ROW, WITH_A_NEW_FILE),
    ],
)
def test_an_edit_with_which_every_test_passes_is_1(scorer: SwePatch, info: Row, text: str) -> None:
    score = scorer.score(text, info)
    assert (score.value, score.components) == (1.0, {"edit": 1.0}), score.reason
    assert score.version != scorer.version  # the sandbox's own is part of it


WRONG = [
    (in_calc(FIXES[1]), "4 of 5 tests passed; test_total"),
    (in_calc(("class Total:", "class Total(:")), "SyntaxError"),
    (solution(edit("README.md", "stats", "statistics")), "has no file"),
    ("I don't know", "no edit"),
    (in_calc(FIXES[0], (FIXES[0][1], FIXES[0][0])), "changes nothing"),
]


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_an_edit_with_which_a_test_fails_is_0(scorer: SwePatch, text: str, reason: str) -> None:
    score = scorer.score(text, ROW)
    assert score.value == 0.0
    assert reason in score.reason


IN_THE_MODULE = {  # beside one of the two fixes, when the module is loaded
    "ends with success": "import os; os._exit(0)",
    "writes over the tests": 'import os\nos.makedirs("tests", exist_ok=True)\nfor name in ("test_stats", "cases"):\n    open(f"tests/{name}.py", "w").write("CASES = []")',
    "replaces the cases in memory": 'import sys\nsys.modules["tests.cases"] = type(sys)("tests.cases")\nsys.modules["tests.cases"].CASES = []',
    "patches pytest, unittest and built-ins": "import builtins, math, pytest, unittest\nunittest.TestCase.assertEqual = lambda *given: None\npytest.approx = math.isclose = builtins.isinstance = lambda *given, **named: True\nbuiltins.AssertionError = KeyError",
    "leaves a child behind": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(3600)",
}
EQUAL = """    class Any(float):
        def __eq__(self, other): return True
        def __sub__(self, other): return 0.0
        __rsub__ = __sub__
    return Any(0)"""
IN_THE_FUNCTION = {
    "is equal to everything": EQUAL,
    "raises what skips a test": "    import unittest\n    raise unittest.SkipTest('no')",
    "raises what a test waits for": "    raise Empty('no numbers')",
}
ATTACKS = {
    **{name: in_calc((HEAD, f"{HEAD}\n{code}"), FIXES[0]) for name, code in IN_THE_MODULE.items()},
    **{name: in_calc(FIXES[0], (SUMS, code)) for name, code in IN_THE_FUNCTION.items()},
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_the_tests_gets_nothing(scorer: SwePatch, name: str) -> None:
    score = scorer.score(ATTACKS[name], ROW)
    assert score.value == 0.0, score.reason


@pytest.mark.prove
def test_a_fraction_of_the_tests_pays_where_the_run_says_so_and_hanging_pays_nothing() -> None:
    info, trial = read_row(ROW), Trial(ScorersConfig(credit="fraction"))
    assert info.tests is not None
    for text, fraction in (
        (CALC.replace(*FIXES[1]), 0.8),
        ("import os\nos._exit(0)", 0.0),
    ):  # all but one of five
        written = {"stats/calc.py": text}
        assert trial.verdict(info, info.tests, written, time.monotonic() + 40.0)[0] == fraction
    started = time.monotonic()
    value, reason, _ = trial.verdict(info, info.tests, {"stats/calc.py": "while True: pass"}, started + 1.0)
    assert time.monotonic() - started < 1.0 + 2.0
    assert value == 0.0
    assert "and again alone" in reason
    trial.close()


@pytest.mark.prove
@pytest.mark.parametrize(
    ("info", "reason"),
    [
        (row(after={"stats/calc.py": CALC + "\n# fixed"}), "the reference itself does not pass"),
        (with_file("tests/test_stats.py", "def test_nothing():\n    assert True\n"), "pass without any edit"),
        (with_file("tests/test_stats.py", "x = 1\n"), "the reference itself does not pass"),
    ],
)
def test_a_row_whose_tests_say_nothing_is_unscorable(scorer: SwePatch, info: Row, reason: str) -> None:
    score = scorer.score(RIGHT, info)
    assert (score.status, score.value) == (ScoreStatus.UNSCORABLE, None)
    assert reason in score.reason


@pytest.mark.parametrize(
    ("info", "names"),
    [
        (row("make test"), "what can: `pytest FILE"),
        (row("pytest"), "what can"),
        (row("pytest -k mean tests/test_stats.py"), "'-k'"),
        (row("pytest tests/test_stats.py::test_mean"), "which is no file of the row"),
        (row("pytest tests/test_none.py"), "'tests/test_none.py'"),
        (row("pytest 'tests"), "can't be read"),
        (row("python tests/test_unit.py"), "what can"),
        (of_swe(**ROW["answer"] | {"test_command": None}), "must be text"),
        (of_swe(**ROW["answer"] | {"files": "x"}), "must be an object of path and text"),
        (of_swe(**edits({}, {})["answer"], test_command=COMMAND), "tests need both"),
        (with_file("conftest.py", ""), "conftest.py"),
        (with_file("math.py", ""), "named 'math'"),
        (with_file("tests/test_stats.py", "def ("), "is no Python"),
        (of_swe(oracle_patches=[], files=FILES, test_command=COMMAND), "can't run tests"),
        (of_swe(**WHOLE["answer"] | {"files": {"tests/test_unit.py": UNIT_TESTS}}), "must name input's"),
    ],
)
def test_a_row_whose_tests_can_not_be_run_is_refused(scorer: SwePatch, info: Row, names: str) -> None:
    with pytest.raises(BadMessage) as refusal:
        scorer.check_row(info)
    assert names in str(refusal.value)
