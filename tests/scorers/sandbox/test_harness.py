"""The harness in the sandbox: honest programs pass through it, and no trick of an answer makes its proof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.messages import Score
from config.scorers import CodeConfig, ScorersConfig
from scorers.code_tests import CodeTests


@pytest.fixture(scope="module")
def scorer() -> Iterator[CodeTests]:
    built = CodeTests(CodeConfig(case_timeout_s=2.0, deadline_s=8.0), ScorersConfig())
    yield built
    built.close()


@pytest.fixture(scope="module")
def hasty() -> Iterator[CodeTests]:
    """A scorer that gives an answer a second in all."""
    built = CodeTests(CodeConfig(case_timeout_s=0.5, deadline_s=1.0), ScorersConfig())
    yield built
    built.close()


def asserts(scorer: CodeTests, program: str, *tests: str, setup: str = "") -> Score:
    answer: dict[str, Any] = {"tests": list(tests), "setup": setup}
    return scorer.score(f"```python\n{program}\n```", {"type": "code", "answer": answer})


def functional(scorer: CodeTests, program: str, tests: str, prefix: str = "") -> Score:
    return scorer.score(f"```python\n{program}\n```",
                        {"type": "code", "answer": {"functional": tests, "prefix": prefix}})


HONEST = {
    "a number": ("def f(x): return x + 1", ["assert f(1) == 2"]),
    "floats": ("def f(): return [float('inf'), -0.0, 1e300]", ["assert f() == [float('inf'), 0.0, 1e300]"]),
    "not a number": ("def f(): return float('nan')", ["assert f() != f()"]),
    "a complex number": ("def f(): return 1 - 2j", ["assert f() == complex(1, -2)"]),
    "a huge integer": ("def f(n): return 7 ** n", ["assert f(5000) == 7 ** 5000", "assert f(2) == 49"]),
    "text with lone surrogates": ("def f(s): return s + '\\ud800'", ["assert f('\\udfff\\0') == '\\udfff\\0\\ud800'"]),
    "bytes": ("def f(b): return bytes(b) + bytearray(b'\\xff')", ["assert f(bytearray(b'a')) == b'a\\xff'"]),
    "tuples, not lists": ("def f(): return ((1, 2), [3])", ["assert f() == ((1, 2), [3])", "assert f() != [(1, 2), [3]]"]),
    "sets": ("def f(x): return {frozenset(x)}", ["assert f({1, 2}) == {frozenset({1, 2})}"]),
    "dictionaries with any key": ("def f(): return {(1, 'a'): {None: True}, 2.5: b''}",
                                  ["assert f() == {(1, 'a'): {None: True}, 2.5: b''}"]),
    "a Counter": ("from collections import Counter\ndef f(s): return Counter(s)", ["assert f('aab') == {'a': 2, 'b': 1}"]),
    "a defaultdict": ("from collections import defaultdict\ndef f():\n d = defaultdict(list)\n d[1].append(2)\n return d",
                      ["assert f() == {1: [2]}"]),
    "a deque": ("from collections import deque\ndef f(): return deque([1, 2], maxlen=2)",
                ["from collections import deque\nassert f() == deque([1, 2])"]),
    "a named tuple": ("from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)",
                      ["assert f() == (1, 2)"]),
    "a range and a slice": ("def f(r): return r[::2], slice(1)", ["assert f(range(5)) == (range(0, 5, 2), slice(1))"]),
    "fractions and decimals": ("from fractions import Fraction as F\nfrom decimal import Decimal as D\n"
                               "def f(): return F(1, 3) + F(1, 6), D('0.10')",
                               ["from fractions import Fraction\nfrom decimal import Decimal\n"
                                "assert f() == (Fraction(1, 2), Decimal('0.1'))"]),
    "dates": ("import datetime as d\ndef f(x): return x + d.timedelta(days=1), d.time(1, 2)",
              ["import datetime\nassert f(datetime.date(2024, 2, 28)) == (datetime.date(2024, 2, 29), datetime.time(1, 2))"]),
    "a type as an argument": ("def f(xs, t): return [x for x in xs if type(x) != t]",
                              ["assert f([1, 'a', 2.5], str) == [1, 2.5]"]),
    "sorting in place": ("def f(xs): xs.sort()", ["xs = [3, 1, 2]\nassert f(xs) is None and xs == [1, 2, 3]"]),
    "changes in nested containers": ("def f(d): d['a'].append(2); d['b'] = {1}; return d['a']",
                                     ["d = {'a': [1]}\nr = f(d)\nassert d == {'a': [1, 2], 'b': {1}} and r is d['a']"]),
    "a list in itself": ("def f(x): x.append(x); return x", ["x = [1]\nassert f(x) is x and x[1] is x"]),
    "a callback": ("def f(g, xs): return [g(x) for x in xs]",
                   ["seen = []\nassert f(lambda x: seen.append(x) or x * 2, [1, 2]) == [2, 4] and seen == [1, 2]",
                    "assert f(abs, [-1]) == [1]", "assert f(str.upper, ['a']) == ['A']"]),
    "a callback that raises": ("def f(g):\n try: g()\n except KeyError as e: return e.args[0]",
                               ["def g(): raise KeyError('k')\nassert f(g) == 'k'"]),
    "a decorator": ("def twice(g): return lambda x: g(g(x))", ["assert twice(lambda x: x + 1)(1) == 3"]),
    "an iterator as an argument": ("def f(it): return sum(it)", ["assert f(iter([1, 2])) == 3",
                                                                   "assert f(x for x in range(4)) == 6"]),
    "a generator": ("def f(n):\n for i in range(n): yield [i]", ["assert list(f(3)) == [[0], [1], [2]]",
                                                               "g = f(2)\nassert next(g) == [0] and list(g) == [[1]]"]),
    "map, zip and dict views": ("def f(): return map(str, [1]), zip('a', [2]), {3: 4}.items()",
                                ["a, b, c = f()\nassert list(a) == ['1'] and list(b) == [('a', 2)] and list(c) == [(3, 4)]"]),
    "recursion": ("import sys\nsys.setrecursionlimit(20000)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)",
                  ["assert f(10000) == 10000"]),
    "threads": ("from concurrent.futures import ThreadPoolExecutor as T\n"
                "def f(n):\n with T(4) as pool: return list(pool.map(lambda x: x * x, range(n)))",
                ["assert f(4) == [0, 1, 4, 9]"]),
    "coroutines": ("import asyncio\nasync def f(x):\n await asyncio.sleep(0)\n return x + 1",
                   ["import asyncio\nassert asyncio.run(f(1)) == 2"]),
    "a class": ("class Stack:\n def __init__(self): self.items = []\n def push(self, x): self.items.append(x); return self\n"
                " def __len__(self): return len(self.items)\n def __getitem__(self, i): return self.items[i]\n"
                " def __str__(self): return f'S{self.items}'\n def __iter__(self): return iter(self.items)",
                ["s = Stack().push(1).push([2])\nassert len(s) == 2 and s[1] == [2] and str(s) == 'S[1, [2]]'"
                 " and list(s) == [1, [2]] and s.items == [1, [2]] and isinstance(s, Stack) and 1 in s and 3 not in s"]),
    "objects handed back": ("class Pair:\n def __init__(self, a, b): self.a, self.b = a, b\n"
                            "def f(ps): return sum(p.a * p.b for p in ps)", ["assert f([Pair(1, 2), Pair(3, 4)]) == 14"]),
    "attributes set by the tests": ("class Node:\n def __init__(self, v): self.v, self.next = v, None\n"
                                    "def f(n): return n.v + (f(n.next) if n.next else 0)",
                                    ["n = Node(1)\nn.next = Node(2)\nassert f(n) == 3 and n.next is n.next"]),
    "arithmetic": ("class V:\n def __init__(self, x): self.x = x\n def __add__(self, o): return V(self.x + o.x)\n"
                   " def __rmul__(self, k): return V(k * self.x)", ["assert (V(1) + 2 * V(3)).x == 7"]),
    "a dataclass": ("from dataclasses import dataclass\n@dataclass\nclass P:\n x: int\ndef f(): return P(3)",
                    ["assert f().x == 3 and repr(f()) == 'P(x=3)'"]),
    "a context manager": ("from contextlib import contextmanager\nlog = []\n@contextmanager\ndef f():\n yield 5\n"
                          "def g(): return 1", ["with f() as x:\n    assert x == 5 and g() == 1"]),
    "an exception": ("def f(x):\n if x < 0: raise ValueError('negative')\n return x",
                     ["try:\n    f(-1)\nexcept ValueError as e:\n    assert str(e) == 'negative'\nelse:\n    assert False"]),
    "an exception of its own": ("class Base(KeyError): pass\nclass Mine(Base):\n def __init__(self, code):"
                                " super().__init__('m', code); self.code = code\ndef f(): raise Mine(7)",
                                ["try:\n    f()\nexcept Base as e:\n    assert isinstance(e, KeyError) and e.code == 7"
                                 " and type(e).__name__ == 'Mine'\nelse:\n    assert False"]),
    "an exception of the standard library": ("import json\ndef f(s): return json.loads(s)",
                                             ["import json\ntry:\n    f('{')\nexcept json.JSONDecodeError as e:\n"
                                              "    assert e.pos == 1\nelse:\n    assert False"]),
    "constants and modules of its own": ("import math\nLIMIT = {'a': [1]}\ndef f(x): return math.floor(x)",
                                         ["assert f(2.5) == math.floor(2.9) and LIMIT == {'a': [1]}"]),
    "a name that is built in": ("def sum(a, b): return a * b", ["assert sum(2, 4) == 8"]),
    "printing": ("def f():\n print('x' * 10000)\n return 1", ["assert f() == 1"]),
    "a main part that reads": ("def f(): return 1\nif __name__ == '__main__': print(input())", ["assert f() == 1"]),
    "pickling its own classes": ("import pickle\nclass A:\n x = 1\ndef f(): return pickle.loads(pickle.dumps(A())).x",
                                 ["assert f() == 1"]),
    "keyword arguments": ("def f(a, *b, c=1, **d): return a, b, c, d", ["assert f(1, 2, c=3, e=4) == (1, (2,), 3, {'e': 4})"]),
}


@pytest.mark.parametrize("what", HONEST)
def test_an_honest_program_passes(scorer: CodeTests, what: str) -> None:
    program, tests = HONEST[what]
    score = asserts(scorer, program, *tests)
    assert score.value == 1.0, score.reason


ALWAYS = ("class A:\n __hash__ = object.__hash__\n"
          " def __eq__(self, o): return True\n def __ne__(self, o): return False\n def __bool__(self): return True\n"
          " def __contains__(self, o): return True\n def __lt__(self, o): return True\n __le__ = __gt__ = __ge__ = __lt__\n")
ATTACKS = {
    "nothing": "pass",
    "sys.exit(0) at load": "import sys; sys.exit(0)",
    "sys.exit(0) when called": "import sys\ndef f(x): sys.exit(0)",
    "os._exit(0) at load": "import os; os._exit(0)",
    "os._exit(0) when called": "import os\ndef f(x): os._exit(0)",
    "SystemExit when called": "def f(x): raise SystemExit(0)",
    "KeyboardInterrupt when called": "def f(x): raise KeyboardInterrupt",
    "a skipped test": "import unittest\ndef f(x): raise unittest.SkipTest('x')",
    "atexit": "import atexit, os\natexit.register(lambda: os._exit(0))\ndef f(x): return None",
    "an object that equals everything": ALWAYS + "def f(x): return A()",
    "an integer that equals everything": "class A(int):\n def __eq__(self, o): return True\ndef f(x): return A(5)",
    "a list that equals everything": "class A(list):\n def __eq__(self, o): return True\ndef f(x): return A()",
    "a text that equals everything": "class A(str):\n def __eq__(self, o): return True\ndef f(x): return A()",
    "a class as the function": ALWAYS + " def __new__(cls, *a): return object.__new__(cls)\n def __init__(self, x): pass\nf = A",
    "frames": ("import sys\ndef f(x):\n frame = sys._getframe()\n while frame:\n  for v in list(frame.f_locals.values()):\n"
               "   if isinstance(v, int) and v % 1000000 // 10 == 98765: return v\n  frame = frame.f_back"),
    "the garbage collector's objects": ("import gc\ndef f(x):\n for o in gc.get_objects():\n"
                                        "  for v in (o if isinstance(o, (list, tuple)) else []):\n"
                                        "   if type(v) is int and v % 1000000 // 10 == 98765: return v"),
    "standard input": "import sys, os\ndef f(x): return int(re.findall(b'9876..', os.read(0, 1 << 20))[0])\nimport re",
    "/dev/stdin": "import re\ndef f(x): return int(re.findall('9876..', open('/dev/stdin').read())[0])",
    "the memory of the process that checks": (
        "import os, re\ndef f(x):\n for line in open(f'/proc/{os.getppid()}/maps'):\n  low, high = line.split()[0].split('-')\n"
        "  with open(f'/proc/{os.getppid()}/mem', 'rb') as memory:\n   memory.seek(int(low, 16))\n"
        "   found = re.search(rb'== (9876..)', memory.read(int(high, 16) - int(low, 16)))\n"
        "   if found: return int(found[1])"),
    "the parent's standard output": "import os\nopen(f'/proc/{os.getppid()}/fd/1', 'w').write('x')\ndef f(x): return 0",
    "every file descriptor": ("import os\nfor fd in range(256):\n try: os.write(fd, b'0' * 32 + b' {\"cases\": [[true, \"\"]]}\\n')\n"
                              " except OSError: pass\ndef f(x): return 0"),
    "patched built-ins": ("import builtins\nbuiltins.isinstance = lambda *a: True\nbuiltins.type = lambda *a: int\n"
                          "builtins.len = lambda *a: 0\nbuiltins.id = lambda *a: 0\ndef f(x): return 0"),
    "patched modules of the harness": ("import sys\nfor n, m in list(sys.modules.items()):\n if 'inside' in n:\n"
                                       "  for k in list(vars(m)):\n   if k[:1] != '_': setattr(m, k, lambda *a, **b: True)\n"
                                       "def f(x): return 0"),
    "an import of the tests": "import tests\ndef f(x): return 987654",
    "exceptions that pretend": "class AssertionError(Exception): pass\ndef f(x): raise AssertionError",
    "a redefined built-in": "def print(*a): pass\ndef isinstance(*a): return True\ndef f(x): return 0",
    "a killed parent": "import os, signal\nos.kill(os.getppid(), signal.SIGTERM)\ndef f(x): return 0",
    "a stopped parent": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\ndef f(x): return 0",
    "an alarm for the parent": "import os, signal\nos.kill(os.getppid(), signal.SIGALRM)\ndef f(x): return 0",
    "a fork": "import os\ndef f(x):\n os.fork()\n return 0",
    "a fork bomb": "import os\nwhile True:\n try: os.fork()\n except OSError: pass",
    "a memory bomb": "x = [bytes(1 << 20) for _ in range(1 << 20)]\ndef f(x): return 0",
    "an endless message": "def f(x): return 'x' * (100 << 20)",
    "a deep value": "def f(x):\n t = ()\n for _ in range(100000): t = (t,)\n return t",
    "an endless iterator": "def f(x):\n while True: yield 1",
    "a hang": "def f(x):\n while True: pass",
    "a hang that ignores signals": ("import signal\nfor n in range(1, 64):\n try: signal.signal(n, signal.SIG_IGN)\n"
                                    " except (OSError, ValueError): pass\ndef f(x):\n while True: pass"),
    "a thread that survives": ("import threading, time\nthreading.Thread(target=time.sleep, args=(100,)).start()\n"
                               "def f(x): return 0"),
    "null bytes": "def f(x): return 0\0",
    "no Unicode": "def f(x): return '\ud800'",
    "garbage on every pipe": ("import os\ndef f(x):\n for fd in range(3, 64):\n  try: os.write(fd, b'\\0' * 64)\n"
                              "  except OSError: pass\n return 0"),
}


SLOW = {"a stopped parent", "a fork bomb", "a hang", "a hang that ignores signals", "an endless message"}


@pytest.mark.parametrize("what", ATTACKS)
def test_no_trick_of_an_answer_passes(scorer: CodeTests, hasty: CodeTests, what: str) -> None:
    score = asserts(hasty if what in SLOW else scorer, ATTACKS[what], "assert f(1) == 987654")
    assert score.value == 0.0, score.reason
    assert score.seconds < (1.0 if what in SLOW else 8.0) + 2.0


@pytest.mark.parametrize("check", ["assert f(1)", "assert 5 in f(1)", "assert f(1) == [5]", "assert not f(1) != 5",
                                   "assert f(1) <= 5", "assert f(1) is True", "assert bool(f(1)) is True",
                                   "assert sorted([f(1), 5]) == [5, 5]", "assert math.isclose(f(1), 5)",
                                   "assert isclose(f(1), 5)", "assert all([f(1)])"])
def test_an_object_of_the_answer_decides_no_check(scorer: CodeTests, check: str) -> None:
    program = (ALWAYS + " def __float__(self): raise TypeError\ndef f(x): return A()\n"
               "class math:\n isclose = staticmethod(lambda *a: True)\nisclose = math.isclose\n"
               "sorted = lambda x: [5, 5]\nbool = all = lambda x: True")
    score = asserts(scorer, program, check)
    assert score.value == 0.0, score.reason


@pytest.mark.parametrize(("tests", "value"), [
    ("assert True", 1.0), ("if f(1) != 2: raise Exception", 0.0),
    ("def check(g):\n    assert g(1) == 1\n    assert g(2) == 2\ncheck(f)", 1.0),
    ("for x in g():\n    assert x == 1", 0.0),                  # no check ran
    ("import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(f(1), 1)\nunittest.main()", 1.0),
    ("import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(f(1), 2)\nunittest.main()", 0.0),
    ("import sys\nassert f(1) == 1\nsys.exit(0)", 1.0), ("import sys\nassert f(1) == 1\nsys.exit(1)", 0.0),
    ("assert t() == true and f(None) == null", 1.0),
])
def test_a_functional_text_passes_whole_or_not(scorer: CodeTests, tests: str, value: float) -> None:
    score = functional(scorer, "def f(x): return x\ndef g(): return []\ndef t(): return True", tests)
    assert score.value == value, score.reason


LINKED = ("from typing import *\nclass ListNode:\n    def __init__(self, val=0, next=None):\n        self.val, self.next = val, next\n"
          "def linked(xs):\n    head = None\n    for x in reversed(xs): head = ListNode(x, head)\n    return head\n"
          "def same(a, b):\n    while a and b:\n        if a.val != b.val: return False\n        a, b = a.next, b.next\n"
          "    return a is None and b is None\n")
REVERSE = ("class Solution:\n    def reverse(self, head: Optional[ListNode]) -> Optional[ListNode]:\n        last = None\n"
           "        while head: head.next, last, head = last, head, head.next\n        return last\n")


@pytest.mark.parametrize(("program", "value"), [
    (REVERSE, 1.0),
    ("class ListNode:\n    def __init__(self, val=0, next=None): self.val, self.next = val, next\n" + REVERSE, 1.0),
    (REVERSE.replace("return last", "return None"), 0.0),
    (REVERSE + "def same(a, b): return True\nSolution.reverse = lambda s, x: None", 0.0),
    ("class ListNode:\n    def __eq__(self, o): return True\nclass Solution:\n    def reverse(self, h): return ListNode()", 0.0),
])
def test_objects_of_classes_that_the_row_defines_travel_both_ways(scorer: CodeTests, program: str, value: float) -> None:
    tests = ("def check(candidate):\n    assert same(candidate(linked(list(range(3000)))), linked(list(range(2999, -1, -1))))\n"
             "check(Solution().reverse)")
    score = functional(scorer, program, tests, prefix=LINKED)
    assert score.value == value, score.reason
