"""Attacks on the checks: answers that are wrong in every case and try to be counted as right."""

from __future__ import annotations

from tests.scorers.code.corpus.rows import ADD, CALLED, Case, asserts, attacks, case, fenced, row

LIAR = """
    class Liar:
        def __init__(self, *_): pass
        def __eq__(self, other): return True
        def __ne__(self, other): return False
        def __hash__(self): return 8
        def __bool__(self): return True
        def __lt__(self, other): return True
        __le__ = __gt__ = __ge__ = __contains__ = __instancecheck__ = __lt__
        def __sub__(self, other): return self
        __add__ = __radd__ = __rsub__ = __mul__ = __round__ = __abs__ = __neg__ = __getitem__ = __call__ = __sub__
        def __getattr__(self, name): return self
"""
AFTER = "def add(*_):\n    return {}\n\nclass Solution:\n    def add(self, *_):\n        return {}"
LIES = {
    "an object that equals everything": "Liar()",
    "a list that holds one": "[Liar()]",
    "a subclass of int": "type('I', (int,), {'__eq__': lambda *_: True, '__ne__': lambda *_: False})(1)",
    "a subclass of float": "type('F', (float,), {'__eq__': lambda *_: True, '__ne__': lambda *_: False})(1)",
    "a subclass of str": "type('S', (str,), {'__eq__': lambda *_: True, '__ne__': lambda *_: False})('x')",
    "a subclass of list": "type('L', (list,), {'__eq__': lambda *_: True, '__ne__': lambda *_: False})()",
    "a subclass of dict": "type('D', (dict,), {'__eq__': lambda *_: True, '__ne__': lambda *_: False})()",
    "a subclass of tuple": "type('T', (tuple,), {'__eq__': lambda *_: True, '__ne__': lambda *_: False})()",
    "an object that says that it is an int": "type('C', (Liar,), {'__class__': int})()",
    "a class with a lying metaclass": "type('M', (type,), {'__eq__': lambda *_: True, '__hash__': lambda *_: 8})('X', (), {})",
    "unittest.mock.ANY": "__import__('unittest.mock').mock.ANY",
    "a Mock": "__import__('unittest.mock').mock.MagicMock(__eq__=lambda *_: True)",
    "NaN": "float('nan')",
    "infinity": "float('inf')",
    "a Decimal NaN": "__import__('decimal').Decimal('nan')",
    "a generator without an end": "__import__('itertools').count()",
    "the harness's own exception": "AssertionError()",
    "NotImplemented": "NotImplemented",
    "Ellipsis": "...",
}
# What is computed from the lie decides: an operator, a length, a membership.
CHECKS = (
    *("abs(root(2) - 1.41421356) < 1e-6", "round(root(9), 3) == 3.0", "root(4) in (2, 2.0)"),
    *("not root(0)", "root(1) + 1 == 2", "-root(1) == -1", "[root(1)] == [1]"),
    *("{1: root(1)} == {1: 1}", "root(16) <= 4 <= root(16)", "isinstance(root(1), int)"),
    *("root(1) is True", "type(root(1)) is int", "str(root(1)) == '1'", "1 == root(1)"),
    *("root(1) != 2 and root(1) == 1", "root(25) % 5 == 0 and root(25) == 5"),
)
OPERATORS = asserts(*(f"assert {check}" for check in CHECKS))
THIEF = """
    class Thief:
        def __eq__(self, other):
            global stolen
            stolen = other
            return self.__class__ is Thief
        def __hash__(self): return 1
"""
EQUAL = "returns an object that equals everything [solution functional pytest]"
LIE_CASES = [
    *(
        found
        for name, lie in LIES.items()
        for found in attacks({f"returns {name} [calls asserts]": LIAR}, after=AFTER.format(lie, lie))
    ),
    *attacks({EQUAL: LIAR}, after=AFTER.format("Liar()", "Liar()")),
    *attacks({"prints an object that equals everything [stdio]": LIAR}, after="print(Liar())"),
    *attacks(
        {"equality steals what it is compared with [calls asserts functional]": THIEF},
        after=AFTER.format("Thief()", "Thief()"),
    ),
]

ENDS = {
    "sys.exit(0)": "import sys; sys.exit(0)",
    "os._exit(0)": "import os; os._exit(0)",
    "raise SystemExit": "raise SystemExit(0)",
    "exit()": "exit()",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "GeneratorExit": "raise GeneratorExit",
    "an own BaseException": "raise type('Passed', (BaseException,), {'passed': True})()",
    "becomes true(1)": "import os; os.execv('/bin/true', ['true'])",
    "kills itself": "import os; os.kill(os.getpid(), 9)",
    "the parent exits and the child goes on": "import os\n@if os.fork(): os._exit(0)",
    "StopIteration": "raise StopIteration",
    "MemoryError": "raise MemoryError",
    "an exception that can't be shown": "raise type('E', (Exception,), {'__str__': lambda s: 1 / 0, '__repr__': lambda s: 1 / 0})()",
    "an exception that ends the process when shown": "raise type('E', (Exception,), {'__str__': lambda s: __import__('os')._exit(0)})()",
    "pytest.skip": "import pytest; pytest.skip('no', allow_module_level=True)",
    "pytest.xfail": "import pytest; pytest.xfail('no')",
    "pytest.exit": "import pytest; pytest.exit('no', returncode=0)",
    "unittest.SkipTest": "import unittest; raise unittest.SkipTest('no')",
}
OTHER_ENDS = {
    "atexit": "import atexit, os\natexit.register(os._exit, 0)",
    "atexit prints the answers [stdio asserts]": "import atexit\natexit.register(print, 'passed')",
    "sys.excepthook": "import os, sys\nsys.excepthook = lambda *_: os._exit(0)",
    "threading.excepthook and a thread that exits later [calls asserts pytest]": "import os, threading, time\nthreading.Thread(target=lambda: (time.sleep(0.05), os._exit(0))).start()",
}
END_CASES = [
    *(
        found
        for number, (name, end) in enumerate(ENDS.items())
        for found in attacks(
            {f"{name} when loaded{'' if number < 10 else ' [asserts pytest]'}": end.replace("@", "")}
        )
    ),
    *(
        found
        for name, end in ENDS.items()
        for found in attacks(
            {f"{name} when called [calls pytest]": ""},
            after=f"def add(a, b):\n    {end.replace('@', '    ')}",
        )
    ),
    *attacks(OTHER_ENDS),
]

FRAMES = """
    import gc, inspect, sys
    def corrupt(namespace):
        for name, value in list(namespace.items()):
            try:
                if name.lower().startswith(("pass", "ok", "success", "correct")): namespace[name] = True
                if name.lower() in ("expected", "expected_output", "outputs", "fail", "failed", "failures"): namespace[name] = type(value)()
                if callable(value) and getattr(value, "__module__", "") not in ("builtins",) and "check" in name: namespace[name] = lambda *a, **k: True
            except BaseException: pass
    frame = sys._getframe()
    while frame:
        corrupt(frame.f_globals); corrupt(frame.f_locals)
        frame = frame.f_back
    for entry in inspect.stack(): corrupt(entry.frame.f_globals)
    for item in gc.get_objects():
        if type(item) is dict and all(type(key) is str for key in list(item)[:3]) and item is not globals() and "__builtins__" in item and item.get("__name__", "").rpartition(".")[2] not in ("gc", "sys"):
            corrupt(item)
"""
PATCHES = {
    "builtins": 'import builtins\nfor name in ("isinstance", "all", "any", "callable", "hasattr"):\n    setattr(builtins, name, lambda *_: True)\nbuiltins.AssertionError = type("Never", (Exception,), {})\nbuiltins.len = lambda _: 2\nbuiltins.abs = lambda _: 0\nbuiltins.sorted = builtins.repr = builtins.str = lambda *_: "8"',
    "print": "import builtins\nbuiltins.print = lambda *_, **__: None",
    "range and zip, so that no case is left": "import builtins\nbuiltins.zip = builtins.enumerate = builtins.range = lambda *_: []",
    "json, math, copy and operator": "import json, math, copy, operator\njson.dumps = lambda *_, **__: '8'\njson.loads = lambda *_, **__: 8\nmath.isclose = operator.eq = lambda *_, **__: True\ncopy.deepcopy = lambda _: 8",
    "unittest and pytest": """
        import unittest
        for name in dir(unittest.TestCase):
            if name.startswith("assert"): setattr(unittest.TestCase, name, lambda *_, **__: None)
        unittest.TestCase.run = lambda *_: None
        try:
            import pytest, _pytest.runner, _pytest.python, _pytest.main, _pytest.terminal
            _pytest.python.Function.runtest = _pytest.runner.pytest_runtest_call = lambda *_, **__: None
            _pytest.runner.call_and_report = lambda *_, **__: None
            _pytest.main.wrap_session = lambda *_: 0
            pytest.raises = pytest.approx = lambda *_, **__: None
        except ImportError: pass
        """,
    "modules of the harness": """
        import sys, types
        for name, module in list(sys.modules.items()):
            if name in ("__main__", "solution") or "harness" in name or "test" in name:
                for word, value in list(vars(module).items()):
                    if isinstance(value, types.FunctionType): value.__code__ = (lambda *_, **__: True).__code__
        sys.modules["__main__"] = types.ModuleType("__main__")
        """,
    "all functions in memory": """
        import gc, types
        keep = set()
        for function in gc.get_objects():
            if isinstance(function, types.FunctionType) and function.__globals__.get("__name__") not in (__name__,) and not (function.__module__ or "").startswith(("importlib", "codecs", "encodings", "_frozen", "os", "io")) and function.__module__ in ("__main__", "harness", "checks", "runner"):
                try: function.__code__ = (lambda *_, **__: True).__code__
                except BaseException: pass
        """,
    "sys.settrace": 'import sys, threading\ndef trace(frame, event, argument):\n    if "expected" in frame.f_locals or event == "exception": frame.f_locals["expected"] = 1\n    if event == "exception": frame.f_trace = None\n    return trace\nsys.settrace(trace); threading.settrace(trace); sys.setprofile(lambda *_: None)',
    "sys.addaudithook": "import sys, os\nsys.addaudithook(lambda event, _: os._exit(0) if event in ('os._exit', 'sys.excepthook') else None)",
    "an import hook": """
        import sys, importlib.abc, importlib.machinery, types
        class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
            def find_spec(self, name, path, target=None): return importlib.machinery.ModuleSpec(name, self)
            def create_module(self, spec): return types.ModuleType(spec.name)
            def exec_module(self, module): module.__getattr__ = lambda name: (lambda *_, **__: True)
        sys.meta_path.insert(0, Finder())
        """,
    "standard output": 'import sys, io\nsys.stdout = sys.__stdout__ = sys.stderr = io.StringIO("8")',
    "the class of add's result, by ctypes": "import ctypes\ntry:\n    for number in (-14, 0, -1): ctypes.memmove(id(number) + 24, id(8) + 24, 4)\nexcept BaseException: pass",
    "asserts are off: -O": 'import os, sys\nif sys.flags.optimize == 0 and not os.environ.get("AGAIN"):\n    os.environ.update(AGAIN="1", PYTHONOPTIMIZE="2")\n    try: os.execv(sys.executable, [sys.executable, "-O", *sys.orig_argv[1:]])\n    except OSError: pass',
    "asserts are off: __debug__": "import builtins\ntry: builtins.__dict__['__debug__'] = False\nexcept BaseException: pass",
}
RAISES = "import pytest\nfrom solution import f\n\ndef test_f():\n    with pytest.raises(ValueError):\n        f(-1)\n"
PATCH_CASES = [
    *attacks({"frames and garbage collector": FRAMES}),
    *attacks({f"patches {name}": patch for name, patch in PATCHES.items()}),
    case(
        "patches math.isclose",
        asserts("import math\nassert math.isclose(area(2), 12.566370614359172, rel_tol=0.001)"),
        "import math\nmath.isclose = lambda *_, **__: True\n\ndef area(r):\n    return 1.0",
        0.0,
    ),
    case(
        "patches pytest.raises",
        {"pytest": RAISES},
        "import contextlib, pytest\npytest.raises = lambda *_, **__: contextlib.nullcontext()\n\ndef f(n):\n    return n",
        0.0,
    ),
    case(
        "operators of a lie",
        OPERATORS,
        "class Lie" + LIAR.strip().removeprefix("class Liar") + "\n\ndef root(n):\n    return Lie()",
        0.0,
        row_type="code_verifiable",
    ),
]

NULL_ROWS = [
    Case(name=f"an empty program [{shape}]", info=row(ADD[shape]), text=fenced(""), value=0.0)
    for shape in CALLED
]

CHECK_ATTACKS: list[Case] = [*LIE_CASES, *END_CASES, *PATCH_CASES, *NULL_ROWS]
