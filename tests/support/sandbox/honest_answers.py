"""Right answers with their tests, of every kind that may meet the harness: data for `test_harness`."""

from __future__ import annotations

from tests.support.sandbox.programs import named

# The program, and after each line of dashes one test.
HONEST = named(r"""
### a number
def f(x): return x + 1
---
assert f(1) == 2
### floats
def f(): return [float('inf'), -0.0, 1e300]
---
assert f() == [float('inf'), 0.0, 1e300]
### not a number
def f(): return float('nan')
---
assert f() != f()
### a complex number
def f(): return 1 - 2j
---
assert f() == complex(1, -2)
### a huge integer
def f(n): return 7 ** n
---
assert f(5000) == 7 ** 5000
---
assert f(2) == 49
### text with lone surrogates
def f(s): return s + '\ud800'
---
assert f('\udfff\0') == '\udfff\0\ud800'
### bytes
def f(b): return bytes(b) + bytearray(b'\xff')
---
assert f(bytearray(b'a')) == b'a\xff'
### tuples, not lists
def f(): return ((1, 2), [3])
---
assert f() == ((1, 2), [3])
---
assert f() != [(1, 2), [3]]
### sets
def f(x): return {frozenset(x)}
---
assert f({1, 2}) == {frozenset({1, 2})}
### dictionaries with any key
def f(): return {(1, 'a'): {None: True}, 2.5: b''}
---
assert f() == {(1, 'a'): {None: True}, 2.5: b''}
### a Counter
from collections import Counter
def f(s): return Counter(s)
---
assert f('aab') == {'a': 2, 'b': 1}
### a defaultdict
from collections import defaultdict
def f():
 d = defaultdict(list)
 d[1].append(2)
 return d
---
assert f() == {1: [2]}
### a deque
from collections import deque
def f(): return deque([1, 2], maxlen=2)
---
from collections import deque
assert f() == deque([1, 2])
### a named tuple
from collections import namedtuple
P = namedtuple('P', 'x y')
def f(): return P(1, 2)
---
assert f() == (1, 2)
### a range and a slice
def f(r): return r[::2], slice(1)
---
assert f(range(5)) == (range(0, 5, 2), slice(1))
### fractions and decimals
from fractions import Fraction as F
from decimal import Decimal as D
def f(): return F(1, 3) + F(1, 6), D('0.10')
---
from fractions import Fraction
from decimal import Decimal
assert f() == (Fraction(1, 2), Decimal('0.1'))
### dates
import datetime as d
def f(x): return x + d.timedelta(days=1), d.time(1, 2)
---
import datetime
assert f(datetime.date(2024, 2, 28)) == (datetime.date(2024, 2, 29), datetime.time(1, 2))
### a type as an argument
def f(xs, t): return [x for x in xs if type(x) != t]
---
assert f([1, 'a', 2.5], str) == [1, 2.5]
### sorting in place
def f(xs): xs.sort()
---
xs = [3, 1, 2]
assert f(xs) is None and xs == [1, 2, 3]
### changes in nested containers
def f(d): d['a'].append(2); d['b'] = {1}; return d['a']
---
d = {'a': [1]}
r = f(d)
assert d == {'a': [1, 2], 'b': {1}} and r is d['a']
### a list in itself
def f(x): x.append(x); return x
---
x = [1]
assert f(x) is x and x[1] is x
### a callback
def f(g, xs): return [g(x) for x in xs]
---
seen = []
assert f(lambda x: seen.append(x) or x * 2, [1, 2]) == [2, 4] and seen == [1, 2]
---
assert f(abs, [-1]) == [1]
---
assert f(str.upper, ['a']) == ['A']
### a callback that raises
def f(g):
 try: g()
 except KeyError as e: return e.args[0]
---
def g(): raise KeyError('k')
assert f(g) == 'k'
### a decorator
def twice(g): return lambda x: g(g(x))
---
assert twice(lambda x: x + 1)(1) == 3
### an iterator as an argument
def f(it): return sum(it)
---
assert f(iter([1, 2])) == 3
---
assert f(x for x in range(4)) == 6
### a generator
def f(n):
 for i in range(n): yield [i]
---
assert list(f(3)) == [[0], [1], [2]]
---
g = f(2)
assert next(g) == [0] and list(g) == [[1]]
### map, zip and dict views
def f(): return map(str, [1]), zip('a', [2]), {3: 4}.items()
---
a, b, c = f()
assert list(a) == ['1'] and list(b) == [('a', 2)] and list(c) == [(3, 4)]
### recursion
import sys
sys.setrecursionlimit(20000)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
---
assert f(10000) == 10000
### threads
from concurrent.futures import ThreadPoolExecutor as T
def f(n):
 with T(4) as pool: return list(pool.map(lambda x: x * x, range(n)))
---
assert f(4) == [0, 1, 4, 9]
### coroutines
import asyncio
async def f(x):
 await asyncio.sleep(0)
 return x + 1
---
import asyncio
assert asyncio.run(f(1)) == 2
### a class
class Stack:
 def __init__(self): self.items = []
 def push(self, x): self.items.append(x); return self
 def __len__(self): return len(self.items)
 def __getitem__(self, i): return self.items[i]
 def __str__(self): return f'S{self.items}'
 def __iter__(self): return iter(self.items)
---
s = Stack().push(1).push([2])
assert len(s) == 2 and s[1] == [2] and str(s) == 'S[1, [2]]' and list(s) == s.items == [1, [2]]
assert isinstance(s, Stack) and 1 in s and 3 not in s
### objects handed back
class Pair:
 def __init__(self, a, b): self.a, self.b = a, b
def f(ps): return sum(p.a * p.b for p in ps)
---
assert f([Pair(1, 2), Pair(3, 4)]) == 14
### attributes set by the tests
class Node:
 def __init__(self, v): self.v, self.next = v, None
def f(n): return n.v + (f(n.next) if n.next else 0)
---
n = Node(1)
n.next = Node(2)
assert f(n) == 3 and n.next is n.next
### arithmetic
class V:
 def __init__(self, x): self.x = x
 def __add__(self, o): return V(self.x + o.x)
 def __rmul__(self, k): return V(k * self.x)
---
assert (V(1) + 2 * V(3)).x == 7
### a dataclass
from dataclasses import dataclass
@dataclass
class P:
 x: int
def f(): return P(3)
---
assert f().x == 3 and repr(f()) == 'P(x=3)'
### a context manager
from contextlib import contextmanager
log = []
@contextmanager
def f():
 yield 5
def g(): return 1
---
with f() as x:
    assert x == 5 and g() == 1
### an exception
def f(x):
 if x < 0: raise ValueError('negative')
 return x
---
try:
    f(-1)
except ValueError as e:
    assert str(e) == 'negative'
else:
    assert False
### an exception of its own
class Base(KeyError): pass
class Mine(Base):
 def __init__(self, code): super().__init__('m', code); self.code = code
def f(): raise Mine(7)
---
try:
    f()
except Base as e:
    assert isinstance(e, KeyError) and e.code == 7 and type(e).__name__ == 'Mine'
else:
    assert False
### an exception of the standard library
import json
def f(s): return json.loads(s)
---
import json
try:
    f('{')
except json.JSONDecodeError as e:
    assert e.pos == 1
else:
    assert False
### constants and modules of its own
import math
LIMIT = {'a': [1]}
def f(x): return math.floor(x)
---
assert f(2.5) == math.floor(2.9) and LIMIT == {'a': [1]}
### a name that is built in
def sum(a, b): return a * b
---
assert sum(2, 4) == 8
### printing
def f():
 print('x' * 10000)
 return 1
---
assert f() == 1
### a main part that reads
def f(): return 1
if __name__ == '__main__': print(input())
---
assert f() == 1
### pickling its own classes
import pickle
class A:
 x = 1
def f(): return pickle.loads(pickle.dumps(A())).x
---
assert f() == 1
### keyword arguments
def f(a, *b, c=1, **d): return a, b, c, d
---
assert f(1, 2, c=3, e=4) == (1, (2,), 3, {'e': 4})
""")
