"""The harness in the sandbox: honest programs pass through it, and no trick of an answer makes its proof."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from scorers.code.scorer import CodeTests
from tests.support.sandbox.honest_answers import HONEST
from tests.support.sandbox.tricks import ALWAYS, ATTACKS
from tests.support.tried_again import judged

pytestmark = [pytest.mark.process, pytest.mark.prove(after=4)]


@pytest.fixture(scope="module")
def scorer() -> Iterator[CodeTests]:
    with closing(CodeTests(CodeConfig(case_timeout_s=2.0, deadline_s=8.0), ScorersConfig())) as built:
        yield built


@pytest.fixture(scope="module")
def hasty() -> Iterator[CodeTests]:
    """Yield a scorer that gives an answer a second in all."""
    with closing(CodeTests(CodeConfig(case_timeout_s=0.5, deadline_s=1.0), ScorersConfig())) as built:
        yield built


@pytest.mark.prove(after=2)
@pytest.mark.parametrize("what", HONEST)
def test_an_honest_program_passes(scorer: CodeTests, what: str) -> None:
    program, *tests = HONEST[what].split("---\n")
    score = judged(scorer, program, {"tests": tests})
    assert score.value == 1.0, score.reason


SLOW = {"a stopped parent", "a fork bomb", "a hang", "a hang that ignores signals", "an endless message"}


@pytest.mark.parametrize("what", ATTACKS)
def test_no_trick_of_an_answer_passes(scorer: CodeTests, hasty: CodeTests, what: str) -> None:
    tests = {"tests": ["assert f(1) == 987654"]}
    score = judged(hasty if what in SLOW else scorer, ATTACKS[what], tests)
    assert score.value == 0.0, score.reason
    # Not a measure of speed: a machine that runs every test may be busy, and a hang would take minutes.
    assert score.seconds < (1.0 if what in SLOW else 8.0) + 8.0


CHECKS = (
    *("f(1)", "5 in f(1)", "f(1) == [5]", "not f(1) != 5", "f(1) <= 5", "f(1) is True", "bool(f(1)) is True"),
    *("sorted([f(1), 5]) == [5, 5]", "math.isclose(f(1), 5)", "isclose(f(1), 5)", "all([f(1)])"),
)


@pytest.mark.parametrize("check", CHECKS)
def test_an_object_of_the_answer_decides_no_check(scorer: CodeTests, check: str) -> None:
    program = (
        ALWAYS + " def __float__(self): raise TypeError\ndef f(x): return A()\n"
        "class math:\n isclose = staticmethod(lambda *a: True)\nisclose = math.isclose\n"
        "sorted = lambda x: [5, 5]\nbool = all = lambda x: True"
    )
    score = judged(scorer, program, {"tests": [f"assert {check}"]})
    assert score.value == 0.0, score.reason


UNITTEST = """
import unittest
class Test(unittest.TestCase):
    def test(self):
        self.assertEqual(f(1), 1)
unittest.main()
"""


@pytest.mark.parametrize(
    ("tests", "value"),
    [
        ("def check(g):\n    assert g(1) == 1\n    assert g(2) == 2\ncheck(f)", 1.0),
        ("if f(1) != 2: raise Exception", 0.0),
        ("if f(1) != 1: raise Exception", 1.0),
        ("for x in g():\n    assert x == 1", 0.0),  # no check ran
        (UNITTEST, 1.0),
        (UNITTEST.replace(", 1)", ", 2)"), 0.0),
        (UNITTEST.replace("f(1)", "f(2)"), 0.0),
        ("import sys\nassert f(1) == 1\nsys.exit(0)", 1.0),
        ("import sys\nassert f(1) == 1\nsys.exit(1)", 0.0),
        ("assert t() == true and f(None) == null", 1.0),
    ],
)
def test_a_functional_text_passes_whole_or_not(scorer: CodeTests, tests: str, value: float) -> None:
    program = "def f(x): return x\ndef g(): return []\ndef t(): return True"
    score = judged(scorer, program, {"functional": tests})
    assert score.value == value, score.reason


LINKED = """
from typing import *
class ListNode:
    def __init__(self, val=0, next=None):
        self.val, self.next = val, next
def linked(xs):
    head = None
    for x in reversed(xs): head = ListNode(x, head)
    return head
def same(a, b):
    while a and b:
        if a.val != b.val: return False
        a, b = a.next, b.next
    return a is None and b is None
"""
REVERSED = """
def check(candidate):
    assert same(candidate(linked(list(range(3000)))), linked(list(range(2999, -1, -1))))
check(Solution().reverse)
"""
REVERSE = """
class Solution:
    def reverse(self, head: Optional[ListNode]) -> Optional[ListNode]:
        last = None
        while head: head.next, last, head = last, head, head.next
        return last
"""
OWN_NODE = """
class ListNode:
    def __init__(self, val=0, next=None): self.val, self.next = val, next
"""
EQUAL_NODE = """
class ListNode:
    def __eq__(self, other): return True
class Solution:
    def reverse(self, head): return ListNode()
"""


@pytest.mark.prove(after=2)
@pytest.mark.parametrize(
    ("program", "value"),
    [
        (OWN_NODE + REVERSE, 1.0),
        (REVERSE.replace("return last", "return None"), 0.0),
        (REVERSE, 1.0),
        (EQUAL_NODE, 0.0),
        (REVERSE + "def same(a, b): return True\nSolution.reverse = lambda s, x: None", 0.0),
    ],
)
def test_objects_of_the_rows_own_classes_travel_both_ways(
    scorer: CodeTests, program: str, value: float
) -> None:
    score = judged(scorer, program, {"functional": REVERSED, "prefix": LINKED})
    assert score.value == value, score.reason


@pytest.mark.prove(after=2)
@pytest.mark.parametrize(
    "tests",
    [
        "assert all(map(lambda x: f(x) == 5, [1, 2]))",
        "assert all(f(x) == 5 for x in [1, 2])",
        "assert True in map(lambda x: f(x) == 5, [1])",
        "for x, y in zip(map(f, [1]), [5]):\n    assert x == y\nassert 1",
    ],
)
def test_an_exception_ends_no_loop_of_the_tests(scorer: CodeTests, tests: str) -> None:
    score = judged(scorer, "def f(x): raise StopIteration", {"functional": tests})
    assert score.value == 0.0, score.reason


@pytest.mark.prove
def test_a_name_of_the_answer_does_not_replace_one_of_the_tests(scorer: CodeTests) -> None:
    program = (
        "class pytest:\n    approx = staticmethod(lambda x: 1)\n    raises = None\n"
        "sorted = approx = lambda x: 1\ndef f(): return 1"
    )
    tests = (
        "import pytest\nfrom pytest import approx\nfrom solution import *\n"
        "def test_f(): assert f() == pytest.approx(5)\ndef test_g(): assert f() == sorted([5])\n"
        "def test_h(): assert f() == approx(5)"
    )
    score = judged(scorer, program, {"pytest": tests}, "code_verifiable")
    assert score.value == 0.0, score.reason
