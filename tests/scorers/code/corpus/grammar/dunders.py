"""Attacks by special methods: a class whose objects lie, to Python and to numpy.

Here the attack is the class; what the function answers with is one of its objects.
"""

from __future__ import annotations

from tests.scorers.code.corpus.grammar.rules import Grammar, one_of

DUNDERS: Grammar = {
    "dunders": ("<liar>", "<liar>\n<second liar>", "<liar>\nimport gc\ngc.collect()"),
    "liar": one_of(
        "class Liar<base>:\n    <methods>",
        "class Meta(type):\n    <methods>\nclass Liar(metaclass=Meta):\n    <methods>",
        "class Liar<numpy base>:\n    <numpy methods>\n    <methods> | class Liar:\n    <numpy methods>",
        "class Liar:\n    def __getattr__(self, name): return <truth>\n    <methods>",
        "class Liar:\n    def __getattribute__(self, name):\n        <side>\n        return object.__getattribute__(self, name)\n    <methods>",
        "def stolen(self, *others):\n    stolen.seen = others\n    <side>\n    return others[0] if others else self\nclass Liar:\n    __eq__ = __sub__ = __rsub__ = __radd__ = __contains__ = __format__ = stolen\n    <methods>",
        "class Liar:\n    pass\nfor name in <protocol>:\n    setattr(Liar, name, <method value>)\ndef again(self): return stolen\nstolen = <truth>",
    ),
    "second liar": (
        "class Other(Liar):\n    <methods>\ntry: Liar.__class__ = Other\nexcept TypeError: pass",
        "Liar.__module__, Liar.__name__, Liar.__qualname__ = <disguise>",
        "Liar.__reduce__ = lambda self: (print, ('passed',))\nLiar.__del__ = lambda self: None",
        "Liar.__instancecheck__ = Liar.__subclasscheck__ = lambda *_: True",
        "made = [Liar.__new__(Liar) for _ in range(<few>)]",
    ),
    "base": (
        "",
        *one_of(
            "(int) | (float) | (str) | (list) | (dict) | (tuple) | (set) | (bytes) | (complex) | (Exception)",
            "(type) | (frozenset) | (bytearray)",
        ),
    ),
    "numpy base": one_of(
        "(__import__('numpy').ndarray) | (__import__('numpy').float64) | (__import__('numpy').str_)",
        "(__import__('numpy').ma.MaskedArray) | (__import__('numpy').generic)",
        "(__import__('numpy').lib.mixins.NDArrayOperatorsMixin) | (__import__('numpy').matrix)",
    ),
    "methods": one_of(
        "<method> | <method>\n<method> | <method>\n<method>\n<method>",
        "<method>\n<method>\n<method>\n<method>\n<method>",
    ),
    "method": one_of(
        "__eq__ = lambda *_: True\n__hash__ = lambda *_: <small>\n__ne__ = lambda *_: False",
        "def __eq__(self, other):\n    <side>\n    return <answer of a method>",
        "__bool__ = lambda self, *_: <answer of a method> | __len__ = lambda self, *_: <answer of a method>",
        "__class__ = <class> | __class__ = property(lambda self: <class>)",
        "__iter__ = lambda self: iter(<items>)",
        "def __iter__(self):\n    yield <value>\n    <side>\n    yield self",
        "__getitem__ = lambda self, key: <answer of a method>",
        "__contains__ = __lt__ = __le__ = __gt__ = __ge__ = lambda *_: True",
        "__sub__ = __rsub__ = __add__ = __radd__ = __mul__ = __rmul__ = lambda self, other: <answer of a method>",
        "__abs__ = __neg__ = __pos__ = __invert__ = lambda self: <answer of a method>",
        "__round__ = __trunc__ = __floor__ = __ceil__ = lambda self, *_: <answer of a method>",
        "__float__ = lambda self: <answer of a method>",
        "__int__ = __index__ = lambda self: <answer of a method>",
        "__complex__ = __bytes__ = __fspath__ = lambda self: <answer of a method>",
        "__str__ = lambda self: <answer of a method>",
        "__repr__ = __format__ = lambda self, *_: <answer of a method>",
        "def __repr__(self):\n    <side>\n    return <answer of a method>",
        "__reduce__ = __reduce_ex__ = lambda self, *_: (<class>, ())",
        "__instancecheck__ = __subclasscheck__ = lambda *_: True",
        "__getattr__ = lambda self, name: <answer of a method> | __dict__ = <value> | __slots__ = ()",
        "__call__ = lambda self, *_, **__: <answer of a method>",
        "__enter__ = __exit__ = __await__ = lambda self, *_: <answer of a method>",
        "__hash__ = lambda self: <answer of a method> | def __del__(self):\n    <side>",
        "__get__ = __set__ = lambda self, *_: <answer of a method>",
        "__init_subclass__ = __set_name__ = __prepare__ = classmethod(lambda *_, **__: {})",
        "__mro_entries__ = lambda self, bases: (object,) | __next__ = lambda self: <answer of a method>",
        "__dir__ = lambda self: <items> | __name__ = __module__ = __doc__ = <disguise word>",
        "__length_hint__ = __missing__ = __reversed__ = lambda self, *_: <answer of a method>",
        "items = keys = values = lambda self: <items>",
        "tolist = item = lambda self, *_: <answer of a method>",
        "__annotations__ = {'return': '__import__(\"os\")._exit(<code>)'}",
        "__wrapped__ = __func__ = __self__ = property(lambda self: self)",
        "__matmul__ = __and__ = __or__ = __xor__ = __mod__ = __floordiv__ = __truediv__ = lambda self, other: other",
        "__rand__ = __ror__ = __rxor__ = __rmod__ = __rtruediv__ = __rpow__ = __pow__ = lambda self, other: <answer of a method>",
    ),
    "numpy methods": one_of(
        "<numpy method> | <numpy method>\n<numpy method> | <numpy method>\n<numpy method>\n<numpy method>"
    ),
    "numpy method": one_of(
        "__array_interface__ = {'shape': (3,), 'typestr': '<type string>', 'version': 3, 'data': (id(object()), True)}",
        "__array_interface__ = {'shape': (<small>,), 'typestr': '<type string>', 'version': 3, 'data': bytes(24)}",
        "__array_interface__ = property(lambda self: {'shape': (), 'typestr': '<type string>', 'version': 3, 'data': (id(self), False)})",
        "__array_struct__ = property(lambda self: self)",
        "__array_ufunc__ = lambda self, ufunc, method, *inputs, **named: <answer of a method>",
        "__array_ufunc__ = None",
        "__array_function__ = lambda self, function, types, arguments, named: <answer of a method>",
        "__array__ = lambda self, *_, **__: <array> | __array_priority__ = 10 ** 9",
        "__array_wrap__ = __array_prepare__ = lambda self, *_, **__: <answer of a method>",
        "__array_finalize__ = lambda self, other: None | __array_namespace__ = lambda self, **_: self",
        "__dlpack__ = __dlpack_device__ = lambda self, **_: (1, 0)",
        "__buffer__ = lambda self, flags: memoryview(bytes(24))",
        "shape, dtype, ndim, size = (3,), 'f8', 1, 3 | shape = property(lambda self: (3,))",
        "dtype = property(lambda self: self)",
        "__module__ = 'numpy'\ntolist = lambda self: <answer of a method>",
        "all = any = max = min = sum = mean = astype = view = reshape = lambda self, *_, **__: <answer of a method>",
    ),
    "type string": ("|u1", "<f8", "|O", ">i4", "|V8", "<U12", "<M8[s]"),
    "array": one_of(
        "__import__('numpy').zeros(3) | __import__('numpy').full(3, None)",
        "__import__('numpy').ma.masked_all(3) | __import__('numpy').array([float('nan')] * 3)",
        "__import__('numpy').empty((0, 3)) | self | 3",
    ),
    "answer of a method": one_of(
        "True | self | <value> | <value> | <small> | _[-1] if '_' in locals() and _ else self",
        "NotImplemented | type(self)() | (yield) | Liar | 8 | (1).__class__ | globals()",
        "[self, self, self] | (self,) | 1 / 0 | __import__('sys').exit(<code>) | Liar.nothing",
    ),
    "items": ("[]", "[self] * 3", "(1, 2, 3)", "{}", "'abc'", "[('a', self)]", "[float('nan')] * 3"),
    "class": one_of(
        "int | float | str | list | bool | type | type(None) | AssertionError | object | Exception"
    ),
    "disguise": one_of(
        "'builtins', 'str', 'str' | 'numpy', 'ndarray', 'ndarray' | 'decimal', 'Decimal', 'Decimal'",
        "'fractions', 'Fraction', 'Fraction' | 'collections', 'deque', 'deque' | 'datetime', 'date', 'date'",
        "'datetime', 'timedelta', 'timedelta' | 'collections', 'OrderedDict', 'OrderedDict'",
        "'__main__', 'TestSeal', 'TestSeal' | 'unittest.case', 'SkipTest', 'SkipTest'",
    ),
    "disguise word": one_of(
        "'numpy' | 'seal' | 'builtins' | 'str' | '_pytest.outcomes' | property(lambda self: self)",
        "'\\ud800' | 'x' * 99999 | 8",
    ),
    "protocol": one_of(
        "('__eq__', '__ne__', '__hash__') | ('__array__', '__float__', '__len__')",
        "('__iter__', '__getitem__', '__len__') | ('__sub__', '__rsub__', '__abs__')",
        "('__index__', '__int__', '__float__') | ('__enter__', '__exit__', '__call__')",
        "('__array_ufunc__', '__array_function__', '__array_priority__')",
        "('__str__', '__repr__', '__format__')",
    ),
    "method value": one_of(
        "<truth> | None | property(<truth>) | classmethod(<truth>) | staticmethod(<truth>) | type", "print"
    ),
    "side": one_of(
        "pass | <any attack> | globals().update(seal=<truth>) | raise <error>",
        "import sys\nsys.setrecursionlimit(50) | import gc\ngc.collect() | import os\nos._exit(<code>)",
        "import threading\nthreading.Thread(target=print).start() | self.__dict__.clear()",
        "type(self).__eq__ = <truth>",
    ),
}
