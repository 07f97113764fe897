"""Arguments are the tests' own, and what an answer gives is data, or an object that is the same at each look."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

import pytest

from scorers.code.scorer import CodeTests
from tests.support.tried_again import judged
from verdicts.code.rows import suite_of

pytestmark = pytest.mark.process


# A row's class, known to both sides, and helpers of the tests'.
CLASSES = """
class Box:
    LIMIT = 3
    def __init__(self, items): self.items = items
    def size(self): return len(self.items)
class Node:
    def __init__(self, val, next=None): self.val, self.next = val, next
def chain(xs):
    head = None
    for x in reversed(xs): head = Node(x, head)
    return head
def values(node):
    found = []
    while node: found.append(node.val); node = node.next
    return found
"""
HELPERS = """
def is_order_of(result, xs):
    return len(result) == len(xs) and all(x in result for x in xs)
def verify(f, xs):
    assert f(xs) == sorted(xs)
"""
PREFIX = CLASSES + HELPERS
# Empties whatever it is handed, and gives what an empty argument deserves.
EMPTIES = """
def empty(x):
    if isinstance(x, (tuple, frozenset)):
        for part in x: empty(part)
    elif isinstance(x, dict):
        for part in x.values(): empty(part)
        x.clear()
    elif hasattr(x, "maxlen") or isinstance(x, (list, set, bytearray)):
        for part in list(x): empty(part)
        x.clear()
    elif type(x).__name__ == "Box": x.items = []
    elif type(x).__name__ == "Node": x.val, x.next = 1, None
def order(*args, **named):
    for x in (*args, *named.values()): empty(x)
    return []
def total(*args, **named):
    order(*args, **named)
    return 0
def back(head):
    empty(head)
    return head
def place(xs, x):
    xs[:] = [x]
    return 0
def nothing(xs):
    total(xs)
class Solution:
    def order(self, xs): return order(xs)
"""
RIGHT = """
def order(*args, **named):
    x = (*args, *named.values())[-1]
    if isinstance(x, tuple): x = x[0]
    return sorted(x.items if type(x).__name__ == "Box" else x)
def total(*args, **named): return sum(order(*args, **named))
def back(head):
    last = None
    while head: last = Node(head.val, last); head = head.next
    return last
def place(xs, x): return xs.index(x)
def nothing(xs): pass
class Solution:
    def order(self, xs): return order(xs)
"""
# The same, but it sorts in place what it is handed, as honest programs do.
IN_PLACE = """
def order(*args, **named):
    x = (*args, *named.values())[-1]
    if isinstance(x, tuple): x = x[0]
    if type(x).__name__ == "Box": x = x.items
    if not isinstance(x, list): return sorted(x)
    x.sort()
    return x
def total(xs):
    found = 0
    while xs: found += xs.pop()
    return found
def back(head):
    last = None
    while head: head.next, last, head = last, head, head.next
    return last
def place(xs, x): return xs.index(x)
def nothing(xs): pass
class Solution:
    def order(self, xs): return order(xs)
"""
COMPARED = {
    "in one expression": "xs = [3, 1, 2]\nassert order(xs) == sorted(xs)",
    "the other way round": "xs = [3, 1, 2]\nassert not sorted(xs) != order(xs)",
    "in two statements": "xs = [3, 1, 2]\nr = order(xs)\nassert r == sorted(xs)",
    "in three": "xs = [3, 1, 2]\nr = order(xs)\nexpected = sorted(xs)\nassert r == expected",
    "by another name": "xs = [3, 1, 2]\nys = xs\nr = order(xs)\nassert r == sorted(ys)",
    "by a part of each": "xs = [3, 1, 2]\nr = order(xs)\nassert len(r) == len(xs)",
    "one by one": "xs = [3, 1, 2]\nr = order(xs)\nassert True\nfor a, b in zip(r, sorted(xs)): assert a == b\nassert len(r) == len(xs)",
    "by an index": "xs = [3, 1, 2]\nr = order(xs)\nassert 1\nfor i in range(len(xs)): assert r[i] == sorted(xs)[i]",
    "all of them": "xs = [3, 1, 2]\nr = order(xs)\nassert all(x in r for x in xs)",
    "as a set": "xs = [3, 1, 2]\nassert set(xs) - set(order(xs)) == set()",
    "by a method of a set": "xs = [3, 1, 2]\nr = order(xs)\nassert set(r).issuperset(xs)",
    "by a helper": "xs = [3, 1, 2]\nassert is_order_of(order(xs), xs)",
    "within a lambda": "xs = [3, 1, 2]\nsame = lambda r: r == sorted(xs)\nassert same(order(xs))",
    "within a method": "class Checker:\n    def __init__(self, xs): self.xs = xs\n    def ok(self, r): return r == sorted(self.xs)\nxs = [3, 1, 2]\nassert Checker(xs).ok(order(xs))",
    "counted": "xs = [3, 1, 2]\nr = order(xs)\nseen = {}\nfor x in xs: seen[x] = seen.get(x, 0) + 1\nassert len(r) == len(seen)",
    "gathered": "xs = [3, 1, 2]\nr = order(xs)\nys = []\nfor x in xs: ys.append(x)\nys.sort()\nassert r == ys",
    "gathered at once": "xs = [3, 1, 2]\nr = order(xs)\nys = []\nys.extend(xs)\nassert r == sorted(ys)",
    "gathered results": "xs = [3, 1, 2]\nrs = []\nrs.append(order(xs))\nassert rs[0] == sorted(xs)",
    "as long as there are some": "xs = [3, 1, 2]\nr = order(xs)\ni = 0\nwhile i < len(xs):\n    assert r[i] == sorted(xs)[i]\n    i += 1\nassert True",
    "as often as there are some": "xs = [3, 1, 2]\nr = order(xs)\nfor _ in xs: assert r\nassert True",
    "two at once": "xs = [3, 1, 2]\nr, want = order(xs), sorted(xs)\nassert r == want",
    "in words": "xs = [3, 1, 2]\nassert str(len(order(xs))) + ' numbers' == f'{len(xs)} numbers'",
    "named on the way": "xs = [3, 1, 2]\nassert (r := order(xs)) == sorted(xs)",
    "a difference of counts": "from collections import Counter\nxs = [3, 1, 2]\nassert not Counter(xs) - Counter(order(xs))",
    "within a helper": "verify(order, [3, 1, 2])\nassert True",
    "within a check": "def check(candidate):\n    xs = [3, 1, 2]\n    assert candidate(xs) == sorted(xs)\ncheck(order)",
    "a default argument": "def check(f, xs=[3, 1, 2]):\n    assert f(xs) == sorted(xs)\ncheck(order)",
    "a method": "xs = [3, 1, 2]\nassert Solution().order(xs) == sorted(xs)",
    "a list of lists": "xs = [[3, 1, 2]]\nassert order(xs[0]) == sorted(xs[0])",
    "inside a list": "xs = [[3, 1, 2]]\nassert [order(x) for x in xs] == [sorted(x) for x in xs]",
    "a table of cases": "cases = [([3, 1, 2], [1, 2, 3]), ([5, 4], [4, 5])]\nfor given, want in cases:\n    assert order(given) == sorted(given) == want",
    "starred": "args = [[3, 1, 2]]\nassert order(*args) == sorted(*args)",
    "named": "xs = [3, 1, 2]\nassert order(xs=xs) == sorted(xs)",
    "in a dictionary": "d = {'xs': [3, 1, 2]}\nassert order(d['xs']) == sorted(d['xs'])",
    "a dictionary's keys": "d = {3: 1, 1: 2}\nassert order(d) == sorted(d)",
    "its keyword": "d = {'xs': [3, 1]}\nassert order(**d) == sorted(d['xs'])",
    "a set": "s = {3, 1, 2}\nassert order(s) == sorted(s)",
    "bytes": "b = bytearray(b'cab')\nassert order(b) == sorted(b)",
    "a deque": "from collections import deque\nq = deque([3, 1, 2])\nassert order(q) == sorted(q)",
    "a tuple with a list": "t = ([3, 1, 2],)\nassert order(t) == sorted(t[0])",
    "an object's attribute": "box = Box([3, 1, 2])\nassert order(box.items) == sorted(box.items)",
    "an object": "box = Box([3, 1, 2])\nassert order(box) == sorted(box.items)",
    "an object's size": "box = Box([3, 1, 2])\nr = order(box)\nassert len(r) == box.size()",
    "a chain": "head = chain([1, 2, 3])\nr = back(head)\nassert values(r) == values(head)[::-1]",
    "a long chain": "head = chain(list(range(1, 3000)))\nassert values(back(head)) == values(head)[::-1]",
    "a global": "DATA = [3, 1, 2]\ndef check():\n    assert order(DATA) == sorted(DATA)\ncheck()",
    "a sum": "xs = [3, 1, 2]\nassert total(xs) == sum(xs)",
    "a difference": "xs = [3, 1, 2]\nassert abs(total(xs) - sum(xs)) < 1e-9",
    "nearly": "import math\nxs = [3, 1, 2]\nassert math.isclose(total(xs), sum(xs))",
    "at an index": "xs = [3, 1, 2]\nassert xs[place(xs, 2)] == 2\nassert xs[place(xs, 1)] + 1 == 2",
    "twice over": "xs = [3, 1, 2]\nassert total(xs) == 6 or True\nassert order(xs[:]) == sorted(xs)",
    "raised": "xs = [3, 1, 2]\nif order(xs) != sorted(xs): raise ValueError\nassert True",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        xs = [3, 1, 2]\n        self.assertEqual(order(xs), sorted(xs))\nunittest.main()",
    "unittest, in two": "import unittest\nclass T(unittest.TestCase):\n    def setUp(self): self.xs = [3, 1, 2]\n    def test(self):\n        r = order(self.xs)\n        self.assertEqual(len(r), len(self.xs))\nunittest.main()",
}
NOT_IN_PLACE = {"twice over"}  # it takes the sum of what is left
# Classes that both sides know, and tests without an assert: a row each.
SHARED = ("Box(", "chain(", "unittest")


def apart(test: str, number: int) -> str:
    """Give what a test binds a name that no other test has: the tests of one row are read together."""
    tree = ast.parse(test)
    nodes = list(ast.walk(tree))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return re.sub(
        r"(?<!['\w.])(\w+)\b(?!')", lambda found: found[1] + f"_{number}" * (found[1] in bound), test
    )


def assert_worth(scorer: CodeTests, program: str, tests: Collection[str], value: float) -> None:
    """Assert that a program is worth so much in each of the tests; which ones it is not is found out one by one."""
    alone = [test for test in tests if any(map(test.__contains__, SHARED))]
    together = [apart(test, number) for number, test in enumerate(tests) if test not in alone]
    row = {"tests": together, "setup": HELPERS}
    is_worth = judged(scorer, program, row, "code_verifiable").value == value
    rows = [{"functional": test, "prefix": PREFIX} for test in (alone if is_worth else tests)]
    scores = [(row["functional"], judged(scorer, program, row)) for row in rows]
    failed = [f"{test}: {score.value} {score.reason}" for test, score in scores if score.value != value]
    assert not failed, "\n".join(failed)
    assert is_worth, "each test passes alone, and not beside the others"


@pytest.mark.prove(cases=("right", "in place"))
@pytest.mark.parametrize(
    ("program", "value", "but"),
    [(EMPTIES, 0.0, ()), (RIGHT, 1.0, ()), (IN_PLACE, 1.0, NOT_IN_PLACE)],
    ids=["empties", "right", "in place"],
)
def test_an_answer_that_changes_its_arguments_is_compared_with_the_tests_own(
    scorer: CodeTests, program: str, value: float, but: Collection[str]
) -> None:
    assert_worth(scorer, program, [test for what, test in COMPARED.items() if what not in but], value)


PLACES = """
def sort(xs, *_): xs.sort()
def dedupe(xs):
    xs[:] = sorted(set(xs)) + xs[:0]
    return len(xs)
def keep(xs, x):
    k = 0
    for y in list(xs):
        if y != x: xs[k] = y; k += 1
    return k
def put(d, k): d[k] = 1
def grown(xs):
    xs.append(0)
    return xs
def both(a, b): a.sort(); b.sort()
def reverse(xs): xs.reverse()
def flip(node):
    if node: node.val, node.next = 7, None
def fill(box): box.items.append(9)
def take(xs): return xs.pop()
class Stack:
    def __init__(self, xs): self.xs = xs
    def pour(self, ys):
        while self.xs: ys.append(self.xs.pop())
"""
CHANGED = {
    "a statement": "xs = [3, 1]\nsort(xs)\nassert xs == [1, 3]",
    "a statement, compared with a copy": "xs = [3, 1]\nys = list(xs)\nsort(xs)\nassert xs == sorted(ys)",
    "a None": "xs = [3, 1]\nassert sort(xs) is None\nassert xs == [1, 3]",
    "a None, in one": "xs = [3, 1]\nassert sort(xs) is None and xs == [1, 3]",
    "a value nobody looks at": "xs = [3, 1]\nr = sort(xs)\nassert xs == [1, 3]",
    "a pair": "xs = [3, 1]\nassert (sort(xs), xs) == (None, [1, 3])",
    "a length and a part": "xs = [3, 1, 3]\nk = dedupe(xs)\nassert k == 2 and xs[:k] == [1, 3]",
    "a judge's loop": "xs = [3, 2, 3]\nwant = [2]\nk = keep(xs, 3)\nassert k == len(want)\nfor i in range(k): assert xs[i] == want[i]",
    "a part, sorted": "xs = [3, 2, 3]\nk = keep(xs, 3)\nassert sorted(xs[:k]) == [2]",
    "a dictionary": "d = {}\nput(d, 'a')\nput(d, 'b')\nassert d == {'a': 1, 'b': 1}",
    "the very same": "xs = [3]\nr = grown(xs)\nassert r is xs and xs == [3, 0]",
    "two": "a, b = [2, 1], [4, 3]\nboth(a, b)\nassert (a, b) == ([1, 2], [3, 4])",
    "there and back": "xs = [3, 1, 2]\nreverse(xs)\nreverse(xs)\nassert xs == [3, 1, 2]",
    "within a check": "def check(candidate):\n    xs = [3, 1]\n    candidate(xs)\n    assert xs == [1, 3]\ncheck(sort)",
    "by a helper": "def run(f, xs):\n    f(xs)\n    return xs\nassert run(sort, [3, 1]) == [1, 3]",
    "a loop": "for xs in ([3, 1], [2, 1, 3]):\n    sort(xs)\n    assert xs == sorted(xs) and xs[0] == 1",
    "an object": "box = Box([1])\nfill(box)\nassert box.items == [1, 9]",
    "a chain": "head = chain([1, 2])\nflip(head)\nassert values(head) == [7]",
    "one after the other": "xs = [1, 2, 3]\nassert take(xs) == 3\nassert take(xs) == 2\nassert xs == [1]",
    "a method": "s, ys = Stack([1, 2]), []\ns.pour(ys)\nassert ys == [2, 1]",
    "kept, and compared": "xs = [3, 1, 2]\nsort(xs)\nassert take(xs) == 3 and len(xs) == 2",
    "the tests' own changes": "xs = [3, 1]\nassert take(xs) == 1\nxs.append(5)\nassert grown(list(xs)) == xs + [0]",
    "a mutable that was left": "xs = [1]\nr = grown(xs)\nassert r[-1] == 0 and len(r) == 2 and xs == [1, 0]",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        xs = [3, 1]\n        self.assertIsNone(sort(xs))\n        self.assertEqual(xs, [1, 3])\nunittest.main()",
}


def test_what_an_answer_is_asked_to_do_to_its_arguments_is_seen(scorer: CodeTests) -> None:
    assert_worth(scorer, PLACES, CHANGED.values(), 1.0)


@pytest.mark.parametrize(
    "tests",
    [
        "xs = [3, 1]\nassert take(xs) == 1\nassert xs == [3, 1]",
        "xs = [3, 1]\nbefore = xs.copy()\nr = grown(xs)\nassert xs == before",
        "xs = [3, 1]\nassert dedupe(xs) == 2 and xs == [3, 1]",
    ],
)
def test_a_change_that_a_test_forbids_is_seen(scorer: CodeTests, tests: str) -> None:
    assert judged(scorer, PLACES, {"functional": tests}).value == 0.0


PYTEST = """
import pytest
from solution import order
DATA = [[3, 1, 2], [2, 1]]

@pytest.fixture
def numbers():
    return [5, 4]

def is_permutation(one, other):
    return sorted(one) == sorted(other)

@pytest.mark.parametrize("xs", DATA)
def test_order(xs):
    assert order(xs) == sorted(xs)

def test_fixture(numbers):
    result = order(numbers)
    assert len(result) == len(numbers)

def test_helper():
    data = [3, 1]
    assert is_permutation(order(data), data)

def test_one_name_twice():
    data = order([2, 1])
    assert len(data) == 2

class TestClass:
    xs = [3, 1]
    def test_it(self):
        result = order(self.xs)
        for x in self.xs:
            assert x in result
        assert len(result) == len(self.xs)
"""


@pytest.mark.prove
def test_a_pytest_file_has_its_own_arguments(scorer: CodeTests) -> None:
    program = "def order(xs):\n    xs.clear()\n    return []"
    score = judged(scorer, program, {"pytest": PYTEST})
    assert score.value == 0.0, score.reason
    assert judged(scorer, "def order(xs):\n    xs.sort()\n    return xs", {"pytest": PYTEST}).value == 1.0


def test_arguments_stay_the_tests_own_from_one_case_to_the_next(scorer: CodeTests) -> None:
    tests = ["assert first(xs) == 3", "assert order(xs) == sorted(xs)", "assert len(order(xs)) == len(xs)"]
    row = {"tests": tests, "setup": "xs = [3, 1, 2]"}
    empties = "def first(xs):\n    xs.clear()\n    return 3\ndef order(xs): return list(xs)"
    assert judged(scorer, empties, row, "code_verifiable").value == pytest.approx(1 / 3)
    honest = "def first(xs): return xs[0]\ndef order(xs): return sorted(xs)"
    assert judged(scorer, honest, row).value == 1.0


MOVE = "class Move:\n    def __init__(self, n): self.n = n\n"
# A class of the tests, a look at its object `m`, and the attribute by which the answer would hide what is looked at.
HIDDEN = [
    (f"{MOVE}    LIMIT = 3\n", "m.n <= m.LIMIT", "LIMIT = 99"),
    (f"{MOVE}    limit = 3\n", "m.n <= m.limit", "limit = 99"),
    (f"{MOVE}    limit = 3\n    def ok(self): return self.n <= self.limit\n", "m.ok()", "limit = 99"),
    ("class Base:\n    limit = 3\n" + MOVE.replace("Move", "Move(Base)"), "m.n <= m.limit", "limit = 99"),
    (f"from typing import ClassVar\n{MOVE}    limit: ClassVar[int] = 3\n", "m.n <= m.limit", "limit = 99"),
    (f"{MOVE}    KNOWN = {{1, 2}}\n", "m.n in m.KNOWN", "KNOWN = {9}"),
    (f"{MOVE}    @property\n    def ok(self): return self.n < 3\n", "m.ok", "ok = True"),
    (
        f"import functools\n{MOVE}    @functools.cached_property\n    def ok(self): return self.n < 3\n",
        "m.ok",
        "ok = True",
    ),
    (f"{MOVE}    def ok(self): return self.n < 3\n", "m.ok()", "ok = lambda: True"),
    (f"{MOVE}    @staticmethod\n    def top(): return 3\n", "m.n <= m.top()", "top = lambda: 99"),
]


def test_an_object_of_the_tests_own_class_hides_nothing_that_its_class_defines(scorer: CodeTests) -> None:
    prefix, checks, forged, honest = "", [], "", ""
    for number, (classes, look, hiding) in enumerate(HIDDEN):
        name, hidden = hiding.split(" = ", 1)
        prefix += classes.replace("Move", f"Move{number}").replace("Base", f"Base{number}")
        check = look.replace("m.", f"move{number}(9).")
        checks.append(f"assert isinstance(move{number}(9), Move{number}) and {check}")
        forged += (
            f"def move{number}(x):\n    m = Move{number}(9)\n    vars(m)['{name}'] = {hidden}\n    return m\n"
        )
        honest += f"def move{number}(x): return Move{number}(2)\n"
    for program, value in ((forged, 0.0), (honest, 1.0)):
        row = {"functional": "\n".join(checks), "prefix": prefix}
        score = judged(scorer, program, row, "code_verifiable")
        assert score.value == value, score.reason


@pytest.mark.parametrize(
    "prefix",
    [
        "from dataclasses import dataclass\n@dataclass\nclass Move:\n    n: int = 0\n    to: str = ''\n",
        "class Move:\n    n = 0\n    to = None\n    def __init__(self, n=0): self.n = n; self.to = ''\n",
        "class Move:\n    n = to = 0\n    def set(self, n):\n        self.n, self.to = n, ''\n        return self\n",
    ],
)
def test_an_attribute_that_tests_write_may_stand_before_its_class_s(scorer: CodeTests, prefix: str) -> None:
    program = "def move(x):\n    m = Move()\n    m.n = x\n    m.to = 'b'\n    return m"
    row = {"functional": "m = move(9)\nassert m.n == 9 and m.to == 'b'", "prefix": prefix}
    score = judged(scorer, program, row)
    assert score.value == 1.0, score.reason


def rewritten(tests: str) -> str:
    found = suite_of({"type": "code", "answer": {"functional": tests, "prefix": PREFIX}}, split=False).tests
    assert not isinstance(found, tuple)
    return str(found.cases[0]["text"])


def test_tests_without_a_comparison_with_their_arguments_stay_as_they_are(subtests: pytest.Subtests) -> None:
    for tests in [
        "assert f([3, 1]) == [1, 3]",
        "xs = [3, 1]\nassert f(xs) == [1, 3]",
        "xs = [3, 1]\nr = f(xs)\nassert xs == [1, 3]",
        "xs = [3, 1]\nk = f(xs)\nassert xs[:k] == [1, 3]",
        "xs = [3, 1]\nr = f(xs)\nassert r is xs",
        "assert f(1) == 2 and g(2) == 3  # spaces   stay",
        "def check(candidate):\n    assert candidate('a') == 'b'\ncheck(f)",
    ]:
        with subtests.test(tests=tests):
            assert rewritten(tests) == tests


def test_one_name_may_be_the_answers_in_one_test_and_data_in_another(scorer: CodeTests) -> None:
    row = {"tests": ["x = order([])\nassert x == []", "x = [3, 1, 2]\nassert order(x) == sorted(x)"]}
    assert judged(scorer, EMPTIES, row, "code_verifiable").value == 0.5
    assert judged(scorer, RIGHT, row, "code_verifiable").value == 1.0


def test_a_list_of_the_answers_objects_is_the_tests_own(scorer: CodeTests) -> None:
    tests = "xs = [Pair(1), Pair(2)]\nassert count(xs) == len(xs)"
    pair = "class Pair:\n    def __init__(self, a): self.a = a\n"
    empties = f"{pair}def count(xs):\n    xs.clear()\n    return 0"
    assert judged(scorer, empties, {"functional": tests}).value == 0.0
    assert judged(scorer, f"{pair}def count(xs): return len(xs)", {"functional": tests}).value == 1.0


@pytest.mark.prove
def test_tests_keep_their_statements(subtests: pytest.Subtests) -> None:
    """Whatever is written into them, each statement is there, of its kind and in its place."""

    def kinds(text: str) -> list[str]:
        return [type(node).__name__ for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]

    for tests in (*COMPARED.values(), *CHANGED.values()):
        with subtests.test(tests=tests):
            assert kinds(rewritten(tests)) == kinds(tests)


# An object that has three items for `len`, none for a loop, others at the second look, and yes for each question.
LIES = """
class Again:
    n = 0
    def __init__(self, xs): self.xs = list(xs)
    def __len__(self): return len(self.xs)
    def __getitem__(self, index): return self.xs[index]
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        if self.n % 2 or not self.xs: raise StopIteration
        return self.xs.pop()
def again(xs): return Again(xs)
class Lies:
    looks = 0
    def __init__(self, xs): self.xs = list(xs)
    def __len__(self): return len(self.xs)
    def __iter__(self):
        Lies.looks += 1
        return iter(self.xs if Lies.looks % 2 else [])
    def __getitem__(self, index): return [] if isinstance(index, slice) else 0
    def __reversed__(self): return iter([])
    def yes(self, *_): return True
    startswith = endswith = isdigit = isupper = issubset = issuperset = isdisjoint = is_integer = all = any = yes
    equals = isspace = yes
def order(xs): return Lies(xs)
def empty(xs):
    Lies.looks = 1
    return Lies(xs)
async def later(xs): return Lies(xs)
class Sorter:
    def order(self, xs): return Lies(xs)
class Solution:
    def order(self, xs): return Lies(xs)
    def empty(self, xs): return empty(xs)
"""
FORGED = [
    "r = empty([3, 1, 2])\nassert len(r) == 3 and all(a == b for a, b in zip(r, [1, 2, 3]))",
    "r = Solution().empty([3, 1, 2])\nassert len(r) == 3 and all(a == b for a, b in zip(r, [1, 2, 3]))",
    "r = order([3, 1, 2])\nassert sorted(r) == [1, 2, 3] and all(a <= b for a, b in zip(r, r[1:]))",
    "r = order([3, 1, 2])\nassert sorted(r) == [1, 2, 3] and list(r) == sorted(r)",
    "r = order([3, 1, 2])\nassert len(r) == 3 and sorted(r) == [1, 2, 3] and all(r[i] <= r[i + 1] for i in range(2))",
    "r = order([3, 1, 2])\nassert set(r) == {1, 2, 3} and not any(a > b for a, b in zip(r, list(r)[1:]))",
    "r = order([3, 1, 2])\nassert len(list(r)) == 3 and list(reversed(r)) == []",
    "r = order([3, 1, 2])\nassert len(r) == 3 and [x for x in r] == [3, 1, 2] and r[0] == 0",
    "r = again([3])\nassert len(r) == 1 and list(r) == []",
    "r = again([3])\nassert list(r) == [] and list(r) == [3]",
    "r = again([3])\nassert list(r) == [] and r[0] == 3",
    "assert order('ab').startswith('x')",
    "assert order('ab').endswith('x')", "assert order('ab').isdigit()", "assert order('ab').isupper()",
    "assert order([1]).issubset({2})",
    "assert order([1]).issuperset({2})",
    "assert order([1]).isdisjoint({1})", "assert order([1]).is_integer()", "assert order([1]).all()",
    "assert order([1]).equals([2])",
    "assert Solution().order('ab').isspace()",
    "def check(candidate):\n    assert candidate('ab').startswith('x')\ncheck(order)",
    "assert Sorter().order('ab').startswith('x')",
    "import asyncio\nassert asyncio.run(later('ab')).startswith('x')",
    "r = [order('ab')]\nassert r[0].startswith('x')",
]  # fmt: skip


def test_no_object_says_what_a_check_wants_to_hear(scorer: CodeTests) -> None:
    assert_worth(scorer, LIES, FORGED, 0.0)


HONEST = """
import itertools
from collections import UserList
class Stack:
    def __init__(self, xs=()): self.xs = list(xs)
    def push(self, x): self.xs.append(x)
    def pop(self): return self.xs.pop()
    def __len__(self): return len(self.xs)
    def __iter__(self): return iter(self.xs)
    def __getitem__(self, index): return self.xs[index]
    def __setitem__(self, index, x): self.xs[index] = x
    def copy(self): return Stack(self.xs)
    def all(self): return all(self.xs)
class Trie:
    def __init__(self): self.words = []
    def insert(self, word): self.words.append(word)
    def startswith(self, start): return any(word.startswith(start) for word in self.words)
class Endless:
    def __iter__(self): return itertools.count()
def stack(xs): return Stack(xs)
def keys(d): return d.keys()
def pairs(d): return d.items()
def evens(n): return (x for x in range(n) if x % 2 == 0)
def doubled(xs): return map(lambda x: 2 * x, xs)
def counted(): return itertools.count()
def endless(): return Endless()
def user(xs): return UserList(xs)
def text(s): return s + "!"
def squares(n): return [x * x for x in range(n)]
def adder(n): return lambda x: x + n
def node(x):
    class Node: pass
    found = Node()
    found.value, found.parts = x, [x]
    return found
"""
KEPT = [
    "s = stack([1, 2])\nassert len(s) == 2 and list(s) == [1, 2] and s[0] == 1 and s[-1] == 2 and s[:1] == [1]",
    "s = stack([1, 2])\nassert len(s) == 2\ns.push(3)\nassert len(s) == 3 and list(s) == [1, 2, 3]\nassert s.pop() == 3 and len(s) == 2",
    "s = stack([1, 2])\nassert s[0] == 1\ns[0] = 5\nassert s[0] == 5 and list(reversed(s)) == [2, 5]",
    "s = Stack([1])\ns.push(2)\nassert len(s) == 2 and s[1] == 2 and s.all() and list(s.copy()) == [1, 2]",
    "t = Trie()\nt.insert('apple')\nassert t.startswith('app') and not t.startswith('b')",
    "assert sorted(keys({'a': 1, 'b': 2})) == ['a', 'b'] and len(keys({'a': 1})) == 1 and 'a' in keys({'a': 1})",
    "k = keys({'a': 1, 'b': 2})\nassert list(k) == list(k) == ['a', 'b']",
    "assert dict(pairs({'a': 1})) == {'a': 1}",
    "g = evens(6)\nassert next(g) == 0 and list(g) == [2, 4] and list(g) == []",
    "assert list(doubled([1, 2])) == [2, 4] and sum(doubled([1])) == 2",
    "import itertools\nassert list(itertools.islice(counted(), 3)) == [0, 1, 2]",
    "import itertools\nassert list(itertools.islice(endless(), 3)) == [0, 1, 2]",
    "u = user([1, 2])\nassert len(u) == 2 and u[1] == 2 and list(u) == [1, 2] and 2 in u",
    "assert text('a').startswith('a') and text('a').endswith('!') and not text('a').isalpha()",
    "assert set(squares(2)).issubset({0, 1, 4}) and 2.0.is_integer()",
    "assert adder(2)(3) == 5",
    "n = node(3)\nassert n.value == 3 and n.parts == [3] and n.parts[0] == 3",
]


def test_honest_objects_stay_what_they_are(scorer: CodeTests) -> None:
    assert_worth(scorer, HONEST, KEPT, 1.0)


@pytest.mark.prove
def test_an_object_of_a_pytest_file_is_the_same_at_each_look(scorer: CodeTests) -> None:
    tests = "from solution import empty\ndef test_it():\n    r = empty([3, 1, 2])\n    assert len(r) == 3\n    for a, b in zip(r, [1, 2, 3]):\n        assert a == b\n"
    assert judged(scorer, LIES, {"pytest": tests}).value == 0.0
