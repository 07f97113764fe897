"""Attacks by names: those that tests might use, built-ins, modules, import hooks, frames, and what the collector sees."""

from __future__ import annotations

from tests.scorers.code.corpus.grammar.rules import Grammar, one_of

NAMES: Grammar = {
    "names": (
        "import builtins\nfor name in <built ins>:\n    setattr(builtins, name, <truth>)",
        "import builtins\nbuiltins.<error> = type('Never', (Exception,), {})",
        "globals().update({name: <truth> for name in <test names>})",
        "import sys, types\nsys.modules[<module name>] = types.SimpleNamespace(seal=<truth>, digest=<truth>, check=<truth>, NUMBERS=[])",
        "import sys\nclass M(type(sys)):\n    def __getattribute__(self, name): return <truth>\nsys.modules[<module name>] = M('solution')",
        "import sys\nmodule = sys.modules[<module name>]\nfor name in dir(module):\n    if name[:2] != '__': setattr(module, name, <truth>)",
        "import sys\nsys.modules.pop(<module name>, None)",
        "import sys, types\nmodule = sys.modules['sandbox.harness.<harness part>']\nfor name, value in list(vars(module).items()):\n    if isinstance(value, types.FunctionType) and <chance>: setattr(module, name, <truth>)",
        "import sys\nmodule = sys.modules['sandbox.harness.<harness part>']\nfor kind in [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]:\n    for name in list(vars(kind)):\n        if <chance>:\n            try: setattr(kind, name, <truth>)\n            except Exception: pass",
        "import sys\ncandidate = sys.modules['sandbox.harness.candidate']\nfor name in list(candidate.OPERATIONS):\n    if <chance>: candidate.OPERATIONS[name] = <truth>",
        "import gc, sys\nfor item in gc.get_objects():\n    if type(item) is dict and <dict test>:\n        for key in list(item):\n            if type(key) is str and key in <state names>: item[key] = <value>",
        "import sys\nframe = sys._getframe()\nwhile frame:\n    for space in (frame.f_globals, frame.f_locals):\n        for key in <test names>:\n            if key not in ('seal', 'hook'): space[key] = <truth>\n    frame = frame.f_back",
        "import sys\nframe = sys._getframe()\nwhile frame.f_back: frame = frame.f_back\nfor name in list(frame.f_globals):\n    if name[:1].islower() and <chance>: frame.f_globals[name] = <truth>",
        "import sys\nclass Finder:\n    def find_spec(self, name, path=None, target=None):\n        import importlib.machinery\n        return importlib.machinery.ModuleSpec(name, self)\n    def create_module(self, spec): return None\n    def exec_module(self, module): module.__getattr__ = lambda name: <truth>\nsys.meta_path.<at>",
        "import sys\nsys.path_hooks.insert(0, <truth>)\nsys.path_importer_cache.clear()\nsys.path.insert(0, '.')",
        "import builtins\nbuiltins.__import__ = <truth>",
        "import builtins, sys\nreal = builtins.__import__\ndef fake(name, *rest):\n    module = real(name, *rest)\n    for key in <test names>: setattr(module, key, <truth>)\n    return module\nbuiltins.__import__ = fake",
        "import __main__\nfor name in list(vars(__main__)):\n    if name[:2] != '__': setattr(__main__, name, <truth>)",
        "import __main__\n__main__.digest = __main__.check = __main__.wanted = <truth>\n__main__.__check_ran__ = lambda: None",
        "import gc, types\nfor item in gc.get_objects():\n    if isinstance(item, types.FunctionType) and item.__name__ in <harness names>:\n        try: item.__code__ = (lambda *_, **__: <value>).__code__\n        except ValueError: pass",
        "import sys\ndef tracer(frame, event, argument):\n    for key in <state names>:\n        if key in frame.f_locals: frame.f_locals[key] = <value>\n    return tracer\nsys.<settrace>(tracer)",
        "import numpy\nfor name in <numpy names>: setattr(numpy, name, <truth>)",
        "import numpy.testing\nfor name in dir(numpy.testing):\n    if name.startswith('assert'): setattr(numpy.testing, name, <truth>)",
        "import hashlib, hmac, secrets, operator, math\nhashlib.sha256 = hmac.compare_digest = secrets.token_hex = operator.eq = math.isclose = <truth>",
        "import ctypes\ntry:\n    for kind in (str, int, float, list):\n        get = ctypes.pythonapi.PyObject_GenericGetDict\n        get.restype, get.argtypes = ctypes.py_object, [ctypes.py_object]\n        get(kind).update(<test name>=<truth>)\nexcept Exception: pass",
        "__name__ = '__main__'\n__file__ = <path name>\n__all__ = <test names>\n__spec__ = __loader__ = None",
        "import os, sys\nfor name in <path names>:\n    try:\n        with open(name, 'w') as file: file.write('seal = digest = check = lambda *_: True\\nimport os; os._exit(<code>)')\n    except OSError: pass",
        "import os\nos.environ.update(PYTHONPATH='.', PYTHONSTARTUP='main.py', PYTHONOPTIMIZE='2', PYTEST_ADDOPTS='--co', PYTEST_PLUGINS='solution')",
    ),
    "built ins": one_of(
        "('len', 'isinstance') | ('all', 'any') | ('abs', 'round') | ('str', 'repr') | ('type', 'id')",
        "('float', 'int') | ('print', 'input') | ('getattr', 'hasattr', 'setattr') | ('iter', 'next')",
        "('zip', 'enumerate', 'range') | ('exec', 'eval', 'compile') | ('sorted', 'max', 'min')",
        "('vars', 'dir', 'globals') | ('issubclass', 'callable', 'hash') | ('bytes', 'list', 'tuple')",
    ),
    "test name": ("seal", "digest", "wanted", "check", "expected", "candidate"),
    "test names": one_of(
        "('seal', 'digest') | ('digest', 'KEY', 'wanted') | ('check', 'candidate', 'expected')",
        "('np', 'pytest', 'math') | ('hashlib', 'unittest') | ('test_seal', 'test_all', 'TestSeal')",
        "('sorted', 'abs', 'round', 'isinstance') | ('__check_ran__', 'AssertionError')",
        "('results', 'passed', 'failed') | ('NUMBERS', 'got', 'n')",
    ),
    "state names": one_of(
        "('expected', 'wanted') | ('cases', 'passed', 'results') | ('nonce', 'payload')",
        "('is_late', 'is_timed', 'broken') | ('checks', 'calls', 'missing') | ('tests', 'setup', 'names')",
        "('kind', 'value', 'reply') | ('error', 'message') | ('_depth', '_turn')",
    ),
    "module name": one_of(
        "'solution' | '__main__' | __name__ | 'builtins' | 'sandbox.harness.<harness part>'",
        "'json' | 'numpy' | 'pytest' | 'hashlib' | 'math' | 'unittest' | 'os'",
    ),
    "chance": ("len(name) % 2", "len(name) % 3 == 0", "name > 'n'", "name < 'f'", "True"),
    "dict test": one_of(
        "'__builtins__' in item | 'nonce' in item | len(item) < 20 | 'link' in item | 'cases' in item"
    ),
    "harness names": one_of(
        "('send', 'receive') | ('serve', 'perform') | ('refer', 'resolve') | ('message', 'node')",
        "('described', 'restored') | ('lineage_of', 'same', 'shown') | ('json_text', 'json_value')",
        "('run', 'main', 'kill') | ('_global', '_entry', '_load') | ('framed', 'read_frame')",
    ),
    "at": ("insert(0, Finder())", "append(Finder())", "clear()"),
    "settrace": ("settrace", "setprofile"),
    "numpy names": one_of(
        "('allclose', 'array_equal') | ('asarray', 'array') | ('abs', 'max', 'all')", "('float64', 'ndarray')"
    ),
    "path name": ("'tests.py'", "'conftest.py'", "'solution.py'", "'/dev/null'", "'-'"),
    "path names": one_of(
        "('conftest.py', 'pytest.ini', 'tests.py') | ('json.py', 'math.py', 'numpy.py', 'hashlib.py')",
        "('sitecustomize.py', 'usercustomize.py') | ('solution.py', '__init__.py', 'main.py')",
        "('unittest.py', 'pytest.py', 'typing.py')",
    ),
}
