"""How the function under test answers: with a lie, a wrong value, nothing, an exception; by the shape of the row."""

from __future__ import annotations

from tests.scorers.code.corpus.grammar.rules import Grammar, one_of

ANSWERS: Grammar = {
    "answer of function": one_of(
        "NUMBERS = <numbers>\ndef seal(*_, **__):\n    hook()\n    return <lie>",
        "NUMBERS = <numbers>\ndef seal(*_, **__):\n    hook()\n    return <lie>",
        "NUMBERS = <numbers>\ndef seal(n):\n    hook()\n    return <wrong>",
        "NUMBERS = <numbers>\ndef seal(n):\n    hook()",
        "NUMBERS = <numbers>\ndef seal(n):\n    hook()\n    raise <error>",
        "NUMBERS = <numbers>\ndef seal(n):\n    hook()\n    raise <error>(<lie>)",
        "NUMBERS = <numbers>\ndef seal(n):\n    hook()\n    yield <lie>",
        "NUMBERS = <numbers>\nasync def seal(n):\n    hook()\n    return <lie>",
        "NUMBERS = <numbers>\nclass seal:\n    def __new__(cls, *_):\n        hook()\n        return <lie>",
        "NUMBERS = <numbers>\nclass Seal:\n    def __call__(self, *_):\n        hook()\n        return <lie>\nseal = Seal()",
        "NUMBERS = <numbers>\nanswers = [<lie>, <lie>, <lie>]\ndef seal(n):\n    hook()\n    return answers.pop() if answers else <lie>",
        "NUMBERS = <numbers>\nimport functools\nseal = functools.lru_cache(lambda n: (hook(), <lie>)[1])",
        "seal = <lie>\nhook() | hook()",
    ),
    "answer of method": (
        "class Solution:\n    def seal(self, n):\n        hook()\n        return <lie>",
        "class Solution:\n    def seal(self, n):\n        hook()\n        raise <error>(<lie>)",
        "class Solution:\n    def __getattr__(self, name):\n        hook()\n        return lambda *_: <lie>",
        "class Solution:\n    @property\n    def seal(self):\n        hook()\n        return lambda *_: <lie>",
        "class Solution:\n    def __init__(self):\n        hook()\n    def seal(self, n):\n        return <wrong>",
        "class Meta(type):\n    def __getattr__(cls, name):\n        hook()\n        return lambda *_: <lie>\nclass Solution(metaclass=Meta):\n    pass",
        "Solution = <lie>\nhook()",
    ),
    "answer of output": one_of(
        "n = input()\nhook()\nprint(<wrong>) | hook()\nprint(<lie>) | hook()",
        "n = input()\nhook()\nprint(n, flush=True) | n = input()\nhook()\nraise <error>",
        "import os\nn = input()\nhook()\nos.write(1, str(<wrong>).encode())",
        "import sys\nhook()\nsys.stdout.write(str(<lie>))\nsys.stdout.flush()",
        "import os\nhook()\nos.system('cat; ls -a; cat /dev/stdin')",
    ),
    "decorated answer of function": (
        "NUMBERS = [3]\n@decorate\ndef seal(n):\n    hook()\n    return <lie>",
        "NUMBERS = [3]\n@decorate\n@staticmethod\ndef seal(n):\n    hook()\n    return <wrong>",
        "NUMBERS = [3]\n@decorate\nclass seal:\n    def __new__(cls, n): return <lie>",
    ),
    "decorated answer of method": (
        "class Solution:\n    @decorate\n    def seal(self, n):\n        hook()\n        return <lie>",
        "@decorate\nclass Solution:\n    def seal(self, n): return <lie>",
    ),
    "decorated answer of output": ("@decorate\ndef main():\n    hook()\n    print(<lie>)\nmain()",),
    "few numbers": ("[]", "[3]", "[3, -10]", "(-10,)"),
    "wrong": one_of(
        "n | str(n) | 'seal' | 0 | 0.0 | [0.0, 0.0, 0.0] | [] | '' | None | -1 | hash(n) | [n, n, n]",
        "'0' * 12",
    ),
    "plain lie": one_of(
        "True | None | float('nan') | float('inf') | [float('nan')] * 3 | NotImplemented | ... | object",
        "type | lambda *_: True | print | __import__('unittest.mock').mock.ANY",
        "__import__('decimal').Decimal('sNaN') | __import__('itertools').repeat(8, 3) | globals()",
        "__import__('sys') | __import__('sys')._getframe() | iter('abc') | range(3) | [[[]]] * 3",
        "{1: [2]} | (8,) * 12 | b'seal' | AssertionError() | SystemExit(0) | 10 ** 5000 | '\\ud800'",
        "memoryview(b'abc') | 1j | super | StopIteration | __import__('numpy').nan",
        "__import__('numpy').array([float('nan')] * 3) | __import__('numpy').ma.masked",
        "__import__('numpy').ma.masked_all(3) | __import__('numpy').zeros((3, 3))",
        "__import__('numpy').empty((0, 3)) | __import__('numpy').array([lambda: 1] * 3)",
        "__import__('numpy').bool_(True) | __import__('numpy').datetime64('NaT')",
        "__import__('numpy').broadcast_to(1.0, (3,)) | __import__('numpy').array('seal')",
        "__import__('numpy').void(8) | __import__('numpy').poly1d([1, 2, 3])",
        "__import__('numpy').float64('inf') | __import__('collections').defaultdict(lambda: True)",
        "__import__('collections').UserString('seal') | __import__('collections').UserList([1, 2, 3])",
        "__import__('types').SimpleNamespace(value=8) | __import__('weakref').proxy(hook)",
        "__import__('fractions').Fraction(1, 3) | __import__('pathlib').Path('seal')",
        "__import__('enum').IntEnum('E', 'a').a | __import__('typing').Any",
        "type('Equal', (), {'__eq__': lambda *_: True, '__hash__': lambda *_: 0})()",
        "type('Equal', (str,), {'__eq__': lambda *_: True, '__hash__': str.__hash__})('seal')",
        "type('Close', (float,), {'__sub__': lambda *_: 0.0, '__rsub__': lambda *_: 0.0, '__abs__': lambda *_: 0.0})(1)",
        "type('Numbers', (list,), {'__eq__': lambda *_: True, '__len__': lambda *_: 3})()",
        "type('Array', (), {'__array__': lambda *_, **__: 8, '__array_ufunc__': lambda *_, **__: True, '__array_function__': lambda *_, **__: True})()",
        "type('Module', (type,), {'__eq__': lambda *_: True, '__hash__': lambda *_: 0})('numpy', (), {'tolist': lambda *_: True})()",
    ),
    # In the family of dunders: the objects that the attack made.
    "lying object": one_of(
        "Liar() | Liar() | Liar() | Liar | [Liar()] * 3 | [Liar(), Liar(), Liar()] | (Liar(),)",
        "{1: Liar()} | iter([Liar()] * 3) | __import__('numpy').array([Liar()] * 3, dtype=object)",
        "__import__('numpy').array(Liar(), dtype=object) | Liar.__new__(Liar) | type('Sub', (Liar,), {})()",
        "lambda: Liar() | Liar.__eq__ | __import__('numpy').zeros(3).view(Liar)",
        "__import__('numpy').ma.array([1.0, 2.0, 3.0], mask=True) | __import__('copy').copy(Liar())",
    ),
}
