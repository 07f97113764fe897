"""What an answer's function gives is data, or an object that is the same at each look: no object says what a check wants."""

from __future__ import annotations

import re

import pytest

from scorers.code.scorer import CodeTests
from tests.support.tried_again import judged

pytestmark = pytest.mark.process


def assert_each(scorer: CodeTests, program: str, tests: list[str], value: float) -> None:
    named = [
        re.sub(r"(?<!')\b([abirsgtuknx])\b(?!')", rf"\1_{number}", test) for number, test in enumerate(tests)
    ]
    if judged(scorer, program, {"tests": named}, "code_verifiable").value == value:
        return
    wrong = [
        (test, score)
        for test in tests
        if (score := judged(scorer, program, {"tests": [test]}, "code_verifiable")).value != value
    ]
    assert not wrong, "\n".join(f"{test}: {score.value} {score.reason}" for test, score in wrong)
    raise AssertionError("each passes alone")


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
    "assert order('ab').endswith('x')",
    "assert order('ab').isdigit()",
    "assert order('ab').isupper()",
    "assert order([1]).issubset({2})",
    "assert order([1]).issuperset({2})",
    "assert order([1]).isdisjoint({1})",
    "assert order([1]).is_integer()",
    "assert order([1]).all()",
    "assert order([1]).equals([2])",
    "assert Solution().order('ab').isspace()",
    "def check(candidate):\n    assert candidate('ab').startswith('x')\ncheck(order)",
    "assert Sorter().order('ab').startswith('x')",
    "import asyncio\nassert asyncio.run(later('ab')).startswith('x')",
    "r = [order('ab')]\nassert r[0].startswith('x')",
]


def test_no_object_says_what_a_check_wants_to_hear(scorer: CodeTests) -> None:
    assert_each(scorer, LIES, FORGED, 0.0)


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
    assert_each(scorer, HONEST, KEPT, 1.0)


def test_an_object_of_a_pytest_file_is_the_same_at_each_look(scorer: CodeTests) -> None:
    tests = "from solution import empty\ndef test_it():\n    r = empty([3, 1, 2])\n    assert len(r) == 3\n    for a, b in zip(r, [1, 2, 3]):\n        assert a == b\n"
    assert judged(scorer, LIES, {"pytest": tests}).value == 0.0
