"""Right answers that tests call: functions, classes and modules, as honest people write them."""

from __future__ import annotations

from tests.scorers.code.corpus.rows import Case, asserts, calls, cases, cases_apart, told_calls

PAIR = "class Pair:\n    def __init__(self, a, b):\n        self.a = a\n        self.b = b\n"
ADDS = {
    "a function assigned to a name": "add = lambda a, b: a + b",
    "prints beside its result": "def add(a, b):\n    print('debug', a, b)\n    return a + b",
    "a main guard beside the function": "def add(a, b):\n    return a + b\n\nif __name__ == '__main__':\n    print(add(*map(int, input().split())))",
}

# fmt: off
APART = {
    "LiveCodeBench's lines of JSON": (
        told_calls("find", (["abc", [1, 2]], True), (["", []], False)),
        "def find(s, xs):\n    return bool(s) and bool(xs)"),
    "LiveCodeBench's class Solution": (
        told_calls("twoSum", ([[2, 7, 11, 15], 9], [0, 1])),
        "class Solution:\n    def twoSum(self, nums: List[int], target: int) -> List[int]:\n        seen = {}\n        for i, n in enumerate(nums):\n            if target - n in seen:\n                return [seen[target - n], i]\n            seen[n] = i"),
    "a tuple where JSON has a list": (calls("pair", ([1, 2], [2, 1])), "def pair(a, b):\n    return b, a"),
    "a float within tolerance": (
        calls("third", ([1], 0.3333333333333333)), "def third(n):\n    return n * (1 / 3) + 1e-12"),
    "None, booleans and nested lists": (
        calls("echo", ([None], None), ([[True, [None, {"a": 1}]]], [True, [None, {"a": 1}]])),
        "def echo(x):\n    return x"),
    "helpers, imports and a decorator": (
        calls("fib", ([90], 2880067194370816120)),
        "from functools import lru_cache\n\n@lru_cache(maxsize=None)\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)"),
    "an instance that remembers": (
        calls("add", ([1, 2], 3), ([1, 2], 3)),
        "class Solution:\n    def __init__(self):\n        self.calls = 0\n\n    def add(self, a, b):\n        self.calls += 1\n        return a + b + self.calls - 1"),
    "unicode and big integers as values": (
        calls("f", (["字😀", 10**30], "字😀" + str(10**30))), "def f(s, n):\n    return s + str(n)"),
    "a bound method in check": (
        {"functional": "def check(candidate):\n    assert candidate([3, 1, 2]) == [1, 2, 3]\n\ncheck(Solution().order)\n",
        "prefix": "from typing import *\n"},
        "class Solution:\n    def order(self, xs: List[int]) -> List[int]:\n        return sorted(xs)"),
    "in-place mutation": (
        {"functional": "def check(candidate):\n    xs = [3, 1, 2]\n    candidate(xs)\n    assert xs == [1, 2, 3]\n\ncheck(order)\n"},
        "def order(xs):\n    xs.sort()"),
    "a callback": (
        asserts("assert apply(lambda n: n + 1, [1, 2]) == [2, 3]", "assert apply(str, [1]) == ['1']"),
        "def apply(f, xs):\n    return [f(x) for x in xs]"),
    "an exception that the test expects": (
        asserts("try:\n    root(-1)\n    assert False\nexcept ValueError:\n    pass", "assert root(4) == 2"),
        "def root(n):\n    if n < 0:\n        raise ValueError('negative')\n    return int(n ** 0.5)"),
    "a generator": (
        asserts("assert list(evens(6)) == [0, 2, 4]", "assert sum(evens(3)) == 2"),
        "def evens(n):\n    for i in range(0, n, 2):\n        yield i"),
    "a class as argument, from the answer": (
        asserts("assert longest([Pair(5, 24), Pair(15, 25), Pair(27, 40)]) == 2"),
        PAIR
        + """
def longest(pairs):
    pairs = sorted(pairs, key=lambda p: p.b)
    count, end = 0, float("-inf")
    for pair in pairs:
        if pair.a > end:
            count, end = count + 1, pair.b
    return count
"""),
    "sets, tuples, bytes, complex numbers": (
        asserts("assert f({1, 2}) == {2, 3}", "assert f((1,)) == (2,)", "assert isinstance(f({1}), set)",
        "assert g() == (b'x', 1j, range(3))"),
        "def f(xs):\n    return type(xs)(x + 1 for x in xs)\n\ndef g():\n    return b'x', 1j, range(3)"),
    "numbers.isclose in a test": (
        asserts("import math\nassert math.isclose(area(2), 12.566370614359172, rel_tol=0.001)"),
        "def area(r):\n    return 3.141592653589793 * r ** 2"),
    "an object with state and operators": (
        asserts("s = Stack(); s.push(1); s.push(2); assert s.pop() == 2 and len(s) == 1",
        "assert repr(Stack()) == 'Stack([])'"),
        'class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n        self.items.append(item)\n\n    def pop(self):\n        return self.items.pop()\n\n    def __len__(self):\n        return len(self.items)\n\n    def __repr__(self):\n        return f"Stack({self.items})"'),
    "a named tuple": (
        asserts("assert make() == (1, 2)", "assert make()[0] == 1"),
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\n\ndef make():\n    return P(1, 2)"),
    "pytest with raises, fixtures and parametrize": (
        {"pytest": 'import pytest\nfrom solution import divide\n\n@pytest.fixture\ndef ten():\n    return 10\n\n@pytest.mark.parametrize("by", [1, 2, 5])\ndef test_divides(ten, by):\n    assert divide(ten, by) == ten / by\n\ndef test_zero():\n    with pytest.raises(ZeroDivisionError):\n        divide(1, 0)'},
        "def divide(a, b):\n    return a / b"),
    "pytest with approx and a class": (
        {"pytest": "import pytest\nimport solution\n\nclass TestThird:\n    def test_it(self):\n        assert solution.third(1) == pytest.approx(1 / 3)\n"},
        "def third(n):\n    return n / 3"),
    "unittest in the pytest file": (
        {"pytest": "import unittest\nfrom answer import add\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(add(1, 2), 3)\n",
        "module": "answer"}, "def add(a, b):\n    return a + b"),
}
# fmt: on


CALLED_CASES: list[Case] = [*cases(calls("add", ([1, 2], 3)), 1.0, ADDS), *cases_apart(1.0, APART)]
