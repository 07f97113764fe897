"""Rows of code: every shape to its tests, every broken one to a reason, and what tests may use of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from broker.errors import BadMessage
from scorers.code.rows import Harnessed, StdioCase, suite_of
from scorers.sandbox.program import Language

pytestmark = pytest.mark.process


def suite(answer: Any, kind: str = "code", **options: Any) -> Any:
    return suite_of({"type": kind, "answer": answer}, **{"split": False, **options})


def harnessed(answer: dict[str, Any], **options: Any) -> Harnessed:
    tests = suite(answer, **options).tests
    assert isinstance(tests, Harnessed)
    return tests


@pytest.mark.parametrize(
    "answer",
    [
        {"test_cases": [{"input": "1\n", "output": "2"}]},
        {"test_cases": [{"input": "1\n", "output": "2", "type": "stdin_stdout", "fn_name": None}]},
        {"test_cases": [{"input": "1\n", "output": "2", "testtype": "stdin"}]},
        {"test_cases": [{"input": "1\n", "output": "2", "id": 1}]},
        {"inputs": ["1\n"], "outputs": ["2"]},
        {"inputs": [["1", ""]], "outputs": ["2"], "fn_name": None},
    ],
)
def test_standard_input_and_output(answer: dict[str, Any]) -> None:
    assert suite(answer).tests == (StdioCase(stdin="1\n", expected="2"),)


ASSERTS = ["assert f(1) == 2", "assert f(2) == 3"]


@pytest.mark.parametrize(
    "beside",
    [
        {"fn_name": "f", "inputs": [""], "outputs": [None]},  # as verl's rows of KodCode
        {"fn_name": "f", "inputs": ["", ""], "outputs": [None, None]},
        {"fn_name": "f"},
        {},
        {"inputs": None, "outputs": None},
        {"inputs": [], "outputs": []},
        {"inputs": [[]], "outputs": [""]},
        {"test_cases": [], "functional": "", "tests": None, "prefix": "", "language": "python"},
        {"id": 7, "name": "f", "explanation": "plus one"},
    ],
)
def test_asserts_of_kodcode_decide_alone(beside: dict[str, Any]) -> None:
    tests = harnessed({"assert_case": ASSERTS, **beside})
    assert [case["text"] for case in tests.cases] == ASSERTS
    assert tests.names == ("f",)


def test_one_assert_of_kodcode_may_be_text() -> None:
    assert [case["text"] for case in harnessed({"assert_case": ASSERTS[0]}).cases] == ASSERTS[:1]


@pytest.mark.parametrize(
    ("cases", "beside"),
    [
        ([{"input": [1], "output": 2, "type": "function_call", "fn_name": "f"}], {}),
        ([{"input": [1], "output": 2, "fn_name": "f", "type": None}], {}),
        ([{"input": "1", "output": "2", "testtype": "functional"}], {"fn_name": "f"}),
        ([{"input": [1], "output": 2, "explanation": "plus one", "id": 3}], {"fn_name": "f"}),
    ],
)
def test_a_test_case_may_call_a_function(cases: list[Any], beside: dict[str, Any]) -> None:
    [case] = harnessed({"test_cases": cases, **beside}).cases
    assert (case["entry"], case["arguments"], case["expected"]) == ("f", [1], [2])


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ({"functional": "assert f() == 1"}, ()),
        ({"tests": ["assert gcd(4, 6) == 2"]}, ("gcd",)),
        ({"functional": "assert gcd(4, 6) == 2"}, ("gcd",)),
        ({"inputs": [[4, 6]], "outputs": [2], "fn_name": "gcd"}, ("gcd",)),
        ({"assert_case": ["assert accumulate([1]) == [1]", "assert lcm(1, 2) == 2"]}, ("accumulate", "lcm")),
    ],
)
def test_an_answer_has_what_sites_import_but_for_what_it_is_asked_for(
    answer: dict[str, Any], names: tuple[str, ...]
) -> None:
    prefix = harnessed(answer).prefix
    assert "from typing import *" in prefix
    assert prefix.endswith(f"del {', '.join(names)}\n") == bool(names)
    assert harnessed({"functional": "assert f() == 1", "prefix": "import os"}).prefix == "import os"


@pytest.mark.parametrize(
    ("given", "beside", "language"),
    [
        ({}, {"language": "cpp"}, Language.CPP),
        ({"language": "cpp"}, {}, Language.CPP),
        ({"language": "c++"}, {"language": "cpp"}, Language.CPP),
        ({"language": None}, {"language": None}, Language.PYTHON),
        *(({"language": name}, {}, Language.PYTHON) for name in ("Python3", "py")),
        *(({"language": name}, {}, Language.CPP) for name in ("C++", "cpp")),
        *(({"language": name}, {}, Language.JAVASCRIPT) for name in ("js", "node")),
    ],
)
def test_a_language_has_many_names_and_counts_beside_the_answer(
    given: dict[str, Any], beside: dict[str, Any], language: Language
) -> None:
    info = {"type": "code", "answer": {"inputs": ["1"], "outputs": ["2"], **given}, **beside}
    assert suite_of(info, split=False).language is language


def test_two_languages_are_one_too_many() -> None:
    answer = {"inputs": ["1"], "outputs": ["2"], "language": "python"}
    with pytest.raises(BadMessage, match="two languages"):
        suite_of({"type": "code", "answer": answer, "language": "cpp"}, split=False)


@pytest.mark.parametrize(
    ("inputs", "outputs", "arguments", "expected"),
    [
        ([[1, [2]]], [3], [1, [2]], [3]),
        (["1\n[2]"], ["true"], [1, [2]], [True]),
        (['"a"\n'], ['"b"'], ["a"], ["b"]),
        ([[1]], [[4]], [1], [4, [4]]),  # APPS wraps a result in a list, and others return a list
        ([["x"]], ["text"], ["x"], ["text"]),  # beside real arguments a text is a text
    ],
)
def test_function_calls(
    inputs: list[Any], outputs: list[Any], arguments: list[Any], expected: list[Any]
) -> None:
    tests = harnessed({"inputs": inputs, "outputs": outputs, "fn_name": "f"})
    assert tests.cases == ({"entry": "f", "arguments": arguments, "expected": expected},)


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ({"tests": ["assert f(1) == len([2])", "assert g(2) == 1"]}, ("f", "g")),
        ({"tests": ["assert sum(1, 2) == 3"]}, ("sum",)),  # built in, and all that the tests use
        ({"tests": ["assert set(sum(1, 2)) == {3}"]}, ("sum",)),
        ({"tests": ["assert sorted(f(1)) == [1]"]}, ("f",)),  # built in, and not the answer's to define
        ({"tests": ["assert math.isclose(f(1), 1)"]}, ("f",)),
        ({"tests": ["assert queue(1) == 1"]}, ("queue",)),  # called: no module
        ({"tests": ["assert isclose(f(1), Counter())"]}, ("f",)),
        ({"tests": ["assert f(root)"], "setup": "root = Node(1)\r\nroot.left = Node(2)"}, ("Node", "f")),
        ({"functional": "def check(g):\n    for x in [1]: assert g(x)\ncheck(Solution().f)"}, ("Solution",)),
        ({"functional": "def check(f):\n    assert f(1)\ncheck(f)"}, ("f",)),
        (
            {"functional": "assert same(f(), inf)", "prefix": "inf = 1e9\ndef same(a, b): return a == b"},
            ("f",),
        ),
        ({"functional": "assert f() is true and f() != null"}, ("f",)),
        ({"functional": "assert [x for x in f()] == [y := 1]"}, ("f",)),
    ],
)
def test_what_tests_use_of_an_answer(answer: dict[str, Any], names: tuple[str, ...]) -> None:
    assert harnessed(answer).names == names


@pytest.mark.parametrize(
    ("test", "modules", "setup"),
    [
        ("assert sys.getsizeof(f()) == 1", ("sys",), ""),
        ("import math\nassert math.sqrt(f()) == 1", (), ""),
        ("assert isclose(f(), 1)", (), "from math import isclose\n"),
        ("assert np.allclose(f(), 1)", (), "import numpy as np\n"),
    ],
)
def test_what_decides_a_check_is_the_library_s(test: str, modules: tuple[str, ...], setup: str) -> None:
    tests = harnessed({"tests": [test]})
    assert (tests.modules, tests.setup) == (modules, setup)


@pytest.mark.parametrize(
    ("text", "split", "cases"),
    [
        ("x = 1\nassert f(x)\nassert f(2)", True, ["assert f(x)", "assert f(2)"]),
        ("x = 1\nassert f(x)\nassert f(2)", False, ["x = 1\nassert f(x)\nassert f(2)"]),
        ("assert f(1)\nx = f(2)\nassert x", True, ["assert f(1)\nx = f(2)\nassert x"]),  # the order matters
        ("def check(g):\n    assert g\ncheck(f)", True, ["def check(g):\n    assert g\ncheck(f)"]),
    ],
)
def test_only_asserts_in_a_row_are_cases_of_their_own(text: str, split: bool, cases: list[str]) -> None:
    assert [case["text"] for case in harnessed({"functional": text}, split=split).cases] == cases


def test_the_cap_draws_the_same_cases_in_their_order() -> None:
    answer = {"inputs": [str(n) for n in range(100)], "outputs": [""] * 100}
    drawn, again = ([int(case.stdin) for case in suite(answer, max_cases=8).tests] for _ in range(2))
    assert (len(drawn), drawn) == (8, sorted(again))
    assert drawn != list(range(8))
    assert len(suite(answer, max_cases=100).tests) == 100


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("print(1)", "got str"),
        (None, "got NoneType"),
        ({}, "test_cases"),
        ({"inputs": [""], "outputs": [None], "fn_name": "f"}, "without tests"),
        ({"inputs": ["", ""], "outputs": [None, None], "fn_name": "f", "assert_case": []}, "without tests"),
        ({"assert_case": ["f(1) == 2"]}, "without an assert"),
        ({"assert_case": [5]}, "texts"),
        ({"assert_case": ["assert f("]}, "no Python"),
        ({"assert_case": ["assert f(1)"], "inputs": ["1"], "outputs": ["2"]}, "one or the other"),
        ({"assert_case": ["assert f(1)"], "inputs": [""], "outputs": ["2"]}, "one or the other"),
        ({"assert_case": ["assert f(1)"], "setup": "x = 1"}, "'setup' beside 'assert_case'"),
        ({"inputs": ["1"], "outputs": ["2"], "asserts": ["x"]}, "'asserts' beside 'inputs'"),
        ({"inputs": ["1"], "outputs": ["2"], "checker": "exit 0"}, "'checker' beside 'inputs'"),
        ({"inputs": ["1"], "outputs": ["2"], "prefix": "import os"}, "'prefix' beside 'inputs'"),
        ({"inputs": ["1"], "outputs": ["2"], "time_limit": 2}, "'time_limit' beside 'inputs'"),
        ({"inputs": ["1"], "outputs": ["2"], "functional": "assert f()"}, "'functional' beside 'inputs'"),
        ({"inputs": ["1"], "outputs": ["2"], "test_cases": [{"input": "", "output": ""}]}, "'inputs'"),
        ({"functional": "assert f()", "setup": "x = 1", "entry_point": "f"}, "'entry_point', 'setup'"),
        ({"tests": ["assert f()"], "prefix": "x = 1"}, "'prefix' beside 'tests'"),
        ({"pytest": "import solution", "setup": "x = 1"}, "'setup' beside 'pytest'"),
        ({"test_cases": [{"input": "", "output": "", "checker": "x"}]}, "'checker' in a test case"),
        ({"test_cases": [{"input": "", "output": "", "type": "interactive"}]}, "interactive"),
        ({"test_cases": [{"input": "", "output": "", "testtype": "functional"}]}, "all name one"),
        (
            {"test_cases": [{"input": "", "output": ""} | more for more in ({}, {"fn_name": "f"})]},
            "of 2 these do",
        ),
        ({"value": 5}, "keys \\['value'\\]"),
        ({"test_cases": []}, "at least one"),
        ({"test_cases": "x"}, "at least one"),
        ({"test_cases": [{"input": "1"}]}, "output"),
        ({"test_cases": [{"input": 1, "output": "1"}]}, "must be text"),
        ({"inputs": [], "outputs": []}, "at least one"),
        ({"inputs": ["1"], "outputs": []}, "at least one"),
        ({"inputs": ["1"]}, "outputs"),
        ({"inputs": ["1"], "outputs": ["1", "2"]}, "1 inputs with 2 outputs"),
        ({"inputs": ["x"], "outputs": ["1"], "fn_name": "f"}, "no JSON"),
        ({"inputs": [5], "outputs": [1], "fn_name": "f"}, "lists"),
        ({"inputs": [[1]], "outputs": [1], "fn_name": "f()"}, "name of a function"),
        ({"functional": " "}, "no text"),
        ({"functional": "assert f("}, "no Python"),
        ({"functional": "x = 1"}, "check nothing"),
        ({"functional": "assert True"}, "nothing of the answer"),
        ({"tests": ["f(1) == 2"]}, "without an assert"),
        ({"tests": [5]}, "texts"),
        ({"tests": "assert f(1)"}, "list"),
        ({"tests": ["assert f("]}, "no Python"),
        ({"tests": ["assert f(1)"], "setup": "x = ("}, "setup"),
        ({"pytest": "def test(): assert 1"}, "imports nothing"),
        ({"pytest": "import solution", "module": "os"}, "standard library"),
        ({"pytest": "import ("}, "no Python"),
        ({"inputs": [""], "outputs": [""], "language": "(a+)+"}, "unknown language"),
        ({"tests": ["assert f(1)"], "language": "cpp"}, "for Python"),
    ],
)
def test_a_row_that_can_t_be_scored_says_what_it_lacks(answer: Any, said: str) -> None:
    with pytest.raises(BadMessage, match=said):
        suite(answer)


@pytest.mark.parametrize(
    ("body", "tool"),
    [
        ("def test_f(capsys): f()", "capsys"),
        ("def test_f(*, capfd): f()", "capfd"),
        ("class TestF:\n    def test_f(self, monkeypatch): f()", "monkeypatch"),
        ("import pytest\n@pytest.mark.usefixtures('capsys')\ndef test_f(): f()", "capsys"),
        ("from unittest import mock\ndef test_f():\n    with mock.patch('solution.g'): f()", "mock.patch"),
        ("from unittest.mock import patch\n@patch('solution.g')\ndef test_f(g): f()", "mock.patch"),
        (
            "import unittest.mock\ndef test_f():\n    with unittest.mock.patch.object(f, 'g'): f()",
            "mock.patch",
        ),
    ],
)
def test_a_pytest_file_that_reaches_into_the_answers_process_is_refused(body: str, tool: str) -> None:
    with pytest.raises(BadMessage, match=f"'{tool}': the answer runs in a process of its own"):
        suite({"pytest": f"from solution import f\n{body}"})


def test_a_pytest_file_may_hand_the_answer_a_mock_and_call_a_method_patch() -> None:
    for body in (
        "from unittest.mock import Mock\ndef test_f(): f(Mock())",
        "def test_f(): f().patch('capsys')",
    ):
        assert harnessed({"pytest": f"from solution import f\n{body}"}).imports


def test_another_type_is_refused() -> None:
    with pytest.raises(BadMessage, match="code or code_verifiable, got 'math'"):
        suite({"inputs": [""], "outputs": [""]}, "math")
