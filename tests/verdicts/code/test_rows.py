"""Rows of code: every shape to its tests, every broken one to a reason, and what tests may use of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.errors import BadMessage
from sandbox.program import Language
from scorers.code.scorer import CodeTests
from tests.scorers.code.corpus.attacks_names import BORROWED, ZERO
from tests.support.paths import DATA
from tests.support.tried_again import judged
from verdicts.code.rows import Harnessed, StdioCase, suite_of

pytestmark = pytest.mark.process


def suite(answer: Any, kind: str = "code", **options: Any) -> Any:
    return suite_of({"type": kind, "answer": answer}, **{"split": False, **options})


def harnessed(answer: dict[str, Any], **options: Any) -> Harnessed:
    tests = suite(answer, **options).tests
    assert isinstance(tests, Harnessed)
    return tests


def test_a_case_of_standard_input_and_output_is_read_in_every_shape(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, Any]] = [
        {"test_cases": [{"input": "1\n", "output": "2"}]},
        {"test_cases": [{"input": "1\n", "output": "2", "type": "stdin_stdout", "fn_name": None}]},
        {"test_cases": [{"input": "1\n", "output": "2", "testtype": "stdin"}]},
        {"test_cases": [{"input": "1\n", "output": "2", "id": 1}]},
        {"inputs": ["1\n"], "outputs": ["2"]},
        {"inputs": [["1", ""]], "outputs": ["2"], "fn_name": None},
    ]
    for answer in cases:
        with subtests.test(answer=answer):
            assert suite(answer).tests == (StdioCase(stdin="1\n", expected="2"),)


ASSERTS = ["assert f(1) == 2", "assert f(2) == 3"]


def test_asserts_of_kodcode_decide_alone(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, Any]] = [
        {"fn_name": "f", "inputs": [""], "outputs": [None]},  # as verl's rows of KodCode
        {"fn_name": "f", "inputs": ["", ""], "outputs": [None, None]}, {"fn_name": "f"}, {},
        {"inputs": None, "outputs": None},
        {"inputs": [], "outputs": []},
        {"inputs": [[]], "outputs": [""]},
        {"test_cases": [], "functional": "", "tests": None, "prefix": "", "language": "python"},
        {"id": 7, "name": "f", "explanation": "plus one"},
    ]  # fmt: skip
    for beside in cases:
        with subtests.test(beside=beside):
            tests = harnessed({"assert_case": ASSERTS, **beside})
            assert [case["text"] for case in tests.cases] == ASSERTS
            assert tests.names == ("f",)


def test_one_assert_of_kodcode_may_be_text() -> None:
    assert [case["text"] for case in harnessed({"assert_case": ASSERTS[0]}).cases] == ASSERTS[:1]


def test_a_test_case_may_call_a_function(subtests: pytest.Subtests) -> None:
    cases: list[tuple[list[Any], dict[str, Any]]] = [
        ([{"input": [1], "output": 2, "type": "function_call", "fn_name": "f"}], {}),
        ([{"input": [1], "output": 2, "fn_name": "f", "type": None}], {}),
        ([{"input": "1", "output": "2", "testtype": "functional"}], {"fn_name": "f"}),
        ([{"input": [1], "output": 2, "explanation": "plus one", "id": 3}], {"fn_name": "f"}),
    ]
    for given, beside in cases:
        with subtests.test(given=given, beside=beside):
            [case] = harnessed({"test_cases": given, **beside}).cases
            assert (case["entry"], case["arguments"], case["expected"]) == ("f", [1], [2])


def test_an_answer_has_what_sites_import_but_what_is_asked(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"functional": "assert f() == 1"}, ()),
        ({"tests": ["assert gcd(4, 6) == 2"]}, ("gcd",)),
        ({"functional": "assert gcd(4, 6) == 2"}, ("gcd",)),
        ({"inputs": [[4, 6]], "outputs": [2], "fn_name": "gcd"}, ("gcd",)),
        ({"assert_case": ["assert accumulate([1]) == [1]", "assert lcm(1, 2) == 2"]}, ("accumulate", "lcm")),
    ]
    for answer, names in cases:
        with subtests.test(answer=answer):
            prefix = harnessed(answer).prefix
            assert "from typing import *" in prefix
            assert prefix.endswith(f"del {', '.join(names)}\n") == bool(names)
            assert harnessed({"functional": "assert f() == 1", "prefix": "import os"}).prefix == "import os"


def test_a_language_has_many_names_and_counts_beside_the_answer(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], Language]] = [
        ({}, {"language": "cpp"}, Language.CPP),
        ({"language": "cpp"}, {}, Language.CPP),
        ({"language": "c++"}, {"language": "cpp"}, Language.CPP),
        ({"language": None}, {"language": None}, Language.PYTHON),
        *(({"language": name}, {}, Language.PYTHON) for name in ("Python3", "py")),
        *(({"language": name}, {}, Language.CPP) for name in ("C++", "cpp")),
        *(({"language": name}, {}, Language.JAVASCRIPT) for name in ("js", "node")),
    ]
    for given, beside, language in cases:
        with subtests.test(given=given, beside=beside):
            info = {"type": "code", "answer": {"inputs": ["1"], "outputs": ["2"], **given}, **beside}
            assert suite_of(info, split=False).language is language


def test_two_languages_are_one_too_many() -> None:
    answer = {"inputs": ["1"], "outputs": ["2"], "language": "python"}
    with pytest.raises(BadMessage, match="two languages"):
        suite_of({"type": "code", "answer": answer, "language": "cpp"}, split=False)


def test_a_call_has_its_arguments_and_what_it_has_to_give(subtests: pytest.Subtests) -> None:
    cases: list[tuple[list[Any], list[Any], list[Any], list[Any]]] = [
        ([[1, [2]]], [3], [1, [2]], [3]),
        (["1\n[2]"], ["true"], [1, [2]], [True]),
        (['"a"\n'], ['"b"'], ["a"], ["b"]),
        ([[1]], [[4]], [1], [4, [4]]),  # APPS wraps a result in a list, and others return a list
        ([["x"]], ["text"], ["x"], ["text"]),  # beside real arguments a text is a text
    ]
    for inputs, outputs, arguments, expected in cases:
        with subtests.test(inputs=inputs, outputs=outputs):
            tests = harnessed({"inputs": inputs, "outputs": outputs, "fn_name": "f"})
            assert tests.cases == ({"entry": "f", "arguments": arguments, "expected": expected},)


def test_the_names_that_tests_use_of_an_answer_are_found(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], tuple[str, ...]]] = [
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
        ({"tests": ["assert gcd(4, 6) == 2", "assert lcm(4, 6) == 12"]}, ("gcd", "lcm")),  # tested alone
        ({"tests": ["assert list(permutations([1])) == [(1,)]"]}, ("permutations",)),
        ({"tests": ["assert Fraction(1, 2).top() == 1"]}, ("Fraction",)),  # nothing else could be tested
        ({"tests": ["assert f(2) == 3", "assert sqrt(16) == 4"]}, ("f", "sqrt")),
        ({"tests": ["assert f(3) == 4", "assert Find_Min(2) == 1"]}, ("Find_Min", "f")),
        ({"tests": ["assert decimal.Decimal(f(2)) == 3"]}, ("f",)),
        *(({"tests": [f"assert {check}"]}, ("root",)) for check, _ in BORROWED.values()),
    ]
    for answer, names in cases:
        with subtests.test(answer=answer):
            assert harnessed(answer).names == names


def test_what_decides_a_check_is_the_library_s(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, tuple[str, ...], str]] = [
        ("assert sys.getsizeof(f()) == 1", ("sys",), ""),
        ("import math\nassert math.sqrt(f()) == 1", (), ""),
        ("assert isclose(f(), 1)", (), "from math import isclose\n"),
        ("assert np.allclose(f(), 1)", (), "import numpy as np\n"),
    ]
    for test, modules, setup in cases:
        with subtests.test(test=test):
            tests = harnessed({"tests": [test]})
            assert (tests.modules, tests.setup) == (modules, setup)


def test_only_asserts_in_a_row_are_cases_of_their_own(subtests: pytest.Subtests) -> None:
    texts: list[tuple[str, bool, list[str]]] = [
        ("x = 1\nassert f(x)\nassert f(2)", True, ["assert f(x)", "assert f(2)"]),
        ("x = 1\nassert f(x)\nassert f(2)", False, ["x = 1\nassert f(x)\nassert f(2)"]),
        ("assert f(1)\nx = f(2)\nassert x", True, ["assert f(1)\nx = f(2)\nassert x"]),  # the order matters
        ("def check(g):\n    assert g\ncheck(f)", True, ["def check(g):\n    assert g\ncheck(f)"]),
    ]
    for text, split, cases in texts:
        with subtests.test(text=text, split=split):
            assert [case["text"] for case in harnessed({"functional": text}, split=split).cases] == cases


def test_the_cap_draws_the_same_cases_in_their_order() -> None:
    answer = {"inputs": [str(n) for n in range(100)], "outputs": [""] * 100}
    drawn, again = ([int(case.stdin) for case in suite(answer, max_cases=8).tests] for _ in range(2))
    assert (len(drawn), drawn) == (8, sorted(again))
    assert drawn != list(range(8))
    assert len(suite(answer, max_cases=100).tests) == 100


def test_a_row_that_can_t_be_scored_says_what_it_lacks(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ("print(1)", "got str"), (None, "got NoneType"), ({}, "test_cases"),
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
    ]  # fmt: skip
    for answer, said in cases:
        with subtests.test(said, answer=answer), pytest.raises(BadMessage, match=said):
            suite(answer)


def test_a_pytest_file_that_reaches_into_the_answers_process_is_refused(subtests: pytest.Subtests) -> None:
    for body, tool in [
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
    ]:
        with (
            subtests.test(tool, body=body),
            pytest.raises(BadMessage, match=f"'{tool}': the answer runs in a process of its own"),
        ):
            suite({"pytest": f"from solution import f\n{body}"})


def test_a_pytest_file_may_hand_the_answer_a_mock_and_call_a_method_patch(subtests: pytest.Subtests) -> None:
    for body in (
        "from unittest.mock import Mock\ndef test_f(): f(Mock())",
        "def test_f(): f().patch('capsys')",
    ):
        with subtests.test(body=body):
            assert harnessed({"pytest": f"from solution import f\n{body}"}).imports


def test_another_type_is_refused() -> None:
    with pytest.raises(BadMessage, match="code or code_verifiable, got 'math'"):
        suite({"inputs": [""], "outputs": [""]}, "math")


MBPP = DATA / "mbpp.jsonl"


RIGHT = {
    "Decimal": "from decimal import Decimal\ndef root(n): return Decimal('1.5')",
    "Fraction": "from fractions import Fraction as F\ndef root(n): return F(3, 2)",
    "deque": "import collections\ndef root(n): return collections.deque([1, 5])",
    "datetime": "import datetime\ndef root(n): return datetime.datetime(2020, 1, 5)",
    "datetime's method": "import datetime\ndef root(n): return datetime.datetime(2020, 1, 5)",
    "sqrt": "def root(n): return n ** 0.5",
    "pi": "import math\ndef root(n): return math.pi",
    "reduce": "def root(n): return 5",
}


@pytest.mark.prove(after=3)
@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("shape", ["asserts", "functional", "a star"])
def test_a_name_of_the_standard_library_is_the_library_s(scorer: CodeTests, name: str, shape: str) -> None:
    check, forged = BORROWED[name]
    rows: dict[str, dict[str, Any]] = {
        "asserts": {"tests": [f"assert {check}"]},
        "functional": {"functional": f"def check(candidate):\n    assert {check}\ncheck(root)"},
        "a star": {"pytest": f"from solution import *\n\ndef test_it():\n    assert {check}\n"},
    }
    row = rows[shape]
    assert judged(scorer, f"{ZERO}{forged}\ndef root(n): return 0", row).value == 0.0
    assert judged(scorer, RIGHT[name], row).value == 1.0


FORGEABLE: list[tuple[list[str], str]] = [
    (["assert f(2) == helper(3)"], "helper"),
    (["assert same(f(2), 3)", "assert f(1) == 1"], "same"),
    (["assert f(encode('a')) == 'a'", "assert f('b') == 'a'"], "encode"),
    (["assert f(2) == 2", "assert abs(poly(f(3)) - 1) < 1e-6"], "poly"),
    (["assert f(1) == 1", "wanted = helper(3)\nassert f(2) == wanted"], "helper"),
    (["assert f(2) == 2", "assert f(3) == LIMIT"], "LIMIT"),
    (["assert f(2) == 2", "assert f(3) == Color.RED"], "Color"),
    (["assert f(2) == 2", "assert f(3) == Point(3).x"], "Point"),
    (["assert abs(sum(1, 2) - 3) == 0"], "abs' and 'sum"),
]
DECODES = """
def check(candidate):
    assert candidate(1) == 1
    for s in ['a']:
        coded = encode_cyclic(s)
        assert candidate(coded) == s
check(decode_cyclic)
"""
UNITTEST = """
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertEqual(f(1), 1)
        self.assertEqual(f(2), helper(3))
unittest.main()
"""
OF_PYTEST = "\ndef test_f():\n    assert {0}f(1) == 1\n    assert {0}f(2) == {0}helper(3)"
FORGEABLE_TEXTS = [
    ({"functional": "for x, y in zip([1], helper()):\n    assert f(x) == y\nassert f(2) == 3"}, "helper"),
    ({"functional": DECODES}, "encode_cyclic"),
    ({"functional": "assert same(f(), 1)", "prefix": "def same(a, b): return helper(a) == b"}, "helper"),
    ({"functional": "assert f(1) == 1\nif f(2) != helper(3):\n    raise ValueError"}, "helper"),
    ({"functional": UNITTEST}, "helper"),
    ({"pytest": "from solution import f, helper" + OF_PYTEST.format("")}, "helper"),
    ({"pytest": "import solution as s" + OF_PYTEST.format("s.")}, "helper"),
]


def test_a_check_on_two_names_of_the_answer_is_refused_by_name(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        *(({"tests": tests}, name) for tests, name in FORGEABLE),
        *FORGEABLE_TEXTS,
    ]
    for answer, name in cases:
        with subtests.test(name, answer=answer):
            with pytest.raises(
                BadMessage, match=f"a check that depends on .*'{name}'.*, which the answer"
            ) as refused:
                harnessed(answer)
            assert " and " in str(refused.value).partition(", which")[0]


def test_a_row_that_compares_objects_of_the_answer_s_classes_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[list[str]] = [
        ["assert Vector(1) == Vector(1)"],
        ["assert Vector(1).add(Vector(2)) == Vector(3)"],
        ["a = Vector(1)\nb = Vector(1)\nassert a == b"],
        ["assert f(1) == Vector(1)"],
        ["assert f(1) == [Vector(1)]"],
        ["assert Vector(1) != Vector(2)"],
    ]
    for tests in cases:
        with (
            subtests.test(tests=tests),
            pytest.raises(BadMessage, match="compare objects of 'Vector', a class of the answer"),
        ):
            harnessed({"tests": tests})


STUBBED = "class Solution:\n    def add(self, a: int) -> int:\n        ..."


def test_a_stub_of_the_function_that_is_tested_is_refused(subtests: pytest.Subtests) -> None:
    for tests, stub in [
        ("check = 1\nassert add(1, 2) == 3", "def add(a, b):\n    pass"),
        ("def check(c):\n    assert c(1)\ncheck(add)", "def add(a):\n    'Add.'"),
        ("def check(c):\n    assert abs(c(1)) == 2\ncheck(Solution().add)", STUBBED),
        ("assert add(1)", "def add(a):\n    raise NotImplementedError('yours')"),
    ]:
        with (
            subtests.test(tests=tests, stub=stub),
            pytest.raises(BadMessage, match=r"whose 'prefix' stubs '(add|Solution)'"),
        ):
            harnessed({"functional": tests, "prefix": stub})


def test_a_stub_in_the_setup_is_refused() -> None:
    with pytest.raises(BadMessage, match="whose 'setup' stubs 'add'"):
        harnessed({"tests": ["assert add(1) == f(2)"], "setup": "def add(a):\n    pass"})


def test_rows_that_can_t_be_forged_so_are_read(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, Any]] = [
        {"tests": ["assert f([Pair(1, 2)]) == 14"]},
        {"tests": ["assert f(root) == 3"], "setup": "root = Node(1)\nroot.left = Node(2)"},
        {"tests": ["assert f() != f()"]},
        {"tests": ["assert f(1) == 1 and g(2) == 2"]},
        {"tests": ["assert isinstance(f(1), Mine)"]},
        {"tests": ["s = Stack(); s.push(1); assert s.pop() == 1 and len(s) == 0"]},
        {"tests": ["assert f(noop) == 1"], "setup": "def noop():\n    pass"},
        {"functional": "check(Solution().f)", "prefix": "def check(c):\n    assert c(1) == 1"},
        {
            "functional": "def check(c):\n    assert same(c(linked([1])), linked([1]))\ncheck(Solution().f)",
            "prefix": "def linked(xs): return xs[0]\ndef same(a, b): return a == b",
        },
        {"functional": "def check(c):\n    assert c(1) == sqrt(1)\ncheck(f)", "prefix": "from math import *"},
        {
            "pytest": "from solution import f, g\ndef test_f():\n    assert f(1) == 1\ndef test_g():\n    assert g(1)"
        },
    ]
    for answer in cases:
        with subtests.test(answer=answer):
            harnessed(answer)


@pytest.mark.prove
@pytest.mark.skipif(not MBPP.exists(), reason="needs shared/data/mbpp.jsonl")
def test_every_row_of_mbpp_is_read_and_asks_for_what_its_reference_defines() -> None:
    for line in MBPP.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        tests = row["test_list"] + row["challenge_test_list"]
        names = harnessed({"tests": tests, "setup": row["test_setup_code"]}).names
        assert all(name in row["code"] for name in names), row["task_id"]
