"""Names that the tests of a row use: which are the answer's, which are a library's, and which make a row forgeable."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.errors import BadMessage
from scorers.code.rows import Harnessed, suite_of
from scorers.code.scorer import CodeTests
from tests.scorers.code.corpus.attacks_names import BORROWED, ZERO
from tests.support.paths import DATA
from tests.support.tried_again import judged

pytestmark = [pytest.mark.process, pytest.mark.prove(after=3)]

MBPP = DATA / "mbpp.jsonl"


def harnessed(answer: dict[str, Any]) -> Harnessed:
    tests = suite_of({"type": "code", "answer": answer}, split=False).tests
    assert isinstance(tests, Harnessed)
    return tests


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


@pytest.mark.parametrize("check", [check for check, _ in BORROWED.values()])
def test_no_borrowed_name_is_asked_of_the_answer(check: str) -> None:
    assert harnessed({"tests": [f"assert {check}"]}).names == ("root",)


@pytest.mark.parametrize(
    ("tests", "names"),
    [
        (["assert gcd(4, 6) == 2"], ("gcd",)),
        (["assert gcd(4, 6) == 2", "assert lcm(4, 6) == 12"], ("gcd", "lcm")),
        (["assert list(permutations([1])) == [(1,)]"], ("permutations",)),
        (["assert Fraction(1, 2).top() == 1"], ("Fraction",)),  # nothing else could be tested
        (["assert f(2) == 3", "assert sqrt(16) == 4"], ("f", "sqrt")),  # tested alone
        (["assert f(3) == 4", "assert Find_Min(2) == 1"], ("Find_Min", "f")),
        (["assert decimal.Decimal(f(2)) == 3"], ("f",)),
    ],
)
def test_a_function_that_is_tested_alone_is_the_answer_s(tests: list[str], names: tuple[str, ...]) -> None:
    assert harnessed({"tests": tests}).names == names


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


@pytest.mark.parametrize(
    ("answer", "name"), [*(({"tests": tests}, name) for tests, name in FORGEABLE), *FORGEABLE_TEXTS]
)
def test_a_check_that_depends_on_two_names_of_the_answer_is_refused_by_name(
    answer: dict[str, Any], name: str
) -> None:
    with pytest.raises(
        BadMessage, match=f"a check that depends on .*'{name}'.*, which the answer"
    ) as refused:
        harnessed(answer)
    assert " and " in str(refused.value).partition(", which")[0]


@pytest.mark.parametrize(
    "tests",
    [
        ["assert Vector(1) == Vector(1)"],
        ["assert Vector(1).add(Vector(2)) == Vector(3)"],
        ["a = Vector(1)\nb = Vector(1)\nassert a == b"],
        ["assert f(1) == Vector(1)"],
        ["assert f(1) == [Vector(1)]"],
        ["assert Vector(1) != Vector(2)"],
    ],
)
def test_a_row_that_compares_objects_of_the_answer_s_classes_is_refused(tests: list[str]) -> None:
    with pytest.raises(BadMessage, match="compare objects of 'Vector', a class of the answer"):
        harnessed({"tests": tests})


STUBBED = "class Solution:\n    def add(self, a: int) -> int:\n        ..."


@pytest.mark.parametrize(
    ("tests", "stub"),
    [
        ("check = 1\nassert add(1, 2) == 3", "def add(a, b):\n    pass"),
        ("def check(c):\n    assert c(1)\ncheck(add)", "def add(a):\n    'Add.'"),
        ("def check(c):\n    assert abs(c(1)) == 2\ncheck(Solution().add)", STUBBED),
        ("assert add(1)", "def add(a):\n    raise NotImplementedError('yours')"),
    ],
)
def test_a_stub_of_the_function_that_is_tested_is_refused(tests: str, stub: str) -> None:
    with pytest.raises(BadMessage, match=r"whose 'prefix' stubs '(add|Solution)'"):
        harnessed({"functional": tests, "prefix": stub})


def test_a_stub_in_the_setup_is_refused() -> None:
    with pytest.raises(BadMessage, match="whose 'setup' stubs 'add'"):
        harnessed({"tests": ["assert add(1) == f(2)"], "setup": "def add(a):\n    pass"})


@pytest.mark.parametrize(
    "answer",
    [
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
    ],
)
def test_rows_that_can_t_be_forged_so_are_read(answer: dict[str, Any]) -> None:
    harnessed(answer)


@pytest.mark.prove
@pytest.mark.skipif(not MBPP.exists(), reason="needs shared/data/mbpp.jsonl")
def test_every_row_of_mbpp_is_read_and_asks_for_what_its_reference_defines() -> None:
    for line in MBPP.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        tests = row["test_list"] + row["challenge_test_list"]
        names = harnessed({"tests": tests, "setup": row["test_setup_code"]}).names
        assert all(name in row["code"] for name in names), row["task_id"]
