"""Attacks by ends: exits of every kind, exceptions that pose as others, other programs, threads and children that go on."""

from __future__ import annotations

from tests.scorers.code.corpus.grammar.rules import Grammar, one_of

EXITS: Grammar = {
    "exits": one_of(
        "<end> | <end late> | import atexit, os\natexit.register(<callable end>)\n<end>",
        "import sys\nsys.excepthook = sys.unraisablehook = lambda *_: <end expression>\n<end>",
        "import threading\nthreading.excepthook = lambda *_: <end expression>\nthreading.Thread(target=lambda: 1 / 0).start()",
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(<moment>), <end expression>), daemon=<yes or no>).start()",
        "import os, time\nif os.fork() == 0:\n    time.sleep(<moment>)\n    os._exit(<code>)",
        "import os\nos.fork() | import os\nif os.fork(): os._exit(<code>)",
        "import os\nfor _ in range(<forks>):\n    try: os.fork()\n    except OSError: pass",
        "import os, time\nfor _ in range(<forks>):\n    if os.fork() == 0:\n        time.sleep(<moment>)\n        os._exit(<code>)",
        "import threading, time\nfor _ in range(<few>): threading.Thread(target=time.sleep, args=(<moment>,)).start()",
        "import os\ntry: os.exec<program>\nexcept OSError: pass",
        "import subprocess, sys\ntry: subprocess.run(<command>, timeout=0.3)\nexcept Exception: pass",
        "import subprocess, sys\ntry: subprocess.Popen(<command>, start_new_session=<yes or no>)\nexcept Exception: pass",
        "import os\nos.system(<shell>)",
        "import os\ntry: os.posix_spawn('/bin/sh', ['sh', '-c', <shell>], {})\nexcept OSError: pass",
        "def never():\n    try: yield\n    finally: <end>\nkept = never()\nnext(kept)\nkept.<close>",
        "import contextlib\nwith contextlib.ExitStack() as stack:\n    stack.callback(lambda: <end expression>)",
        "import sys\nsys.exit = exit = quit = lambda *_: None\n<end>",
        "import os\nos._exit = lambda *_: None\n<end>",
        "import multiprocessing\ntry: multiprocessing.Process(target=print).start()\nexcept Exception: pass",
        "import ctypes\nctypes.CDLL(None).<library end> | import sys\nsys.setrecursionlimit(<recursion>)",
        "import sys, threading\nthreading.stack_size(32768)\nsys.setswitchinterval(1e-6)",
        "import asyncio\nasync def ended(): <end>\ntry: asyncio.run(ended())\nexcept Exception: pass",
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (<megabytes> << 20, resource.getrlimit(resource.RLIMIT_AS)[1]))",
        "import gc\ngc.set_threshold(1)\ngc.freeze() | hoard = bytearray(<megabytes> << 20)",
    ),
    "end": one_of(
        "raise SystemExit(<code>) | import sys; sys.exit(<code>) | import os; os._exit(<code>)",
        "raise <error> | raise <error>(<value>)",
        "raise type('Passed', (<base error>,), {'code': <code>, '__str__': <truth>, 'args': <value>})()",
        "raise type('Silent', (<base error>,), {'__str__': lambda s: 1 / 0, '__repr__': lambda s: 1 / 0})()",
        "raise type('<exception word>', (<base error>,), {'__module__': '<module word>', '__qualname__': '<exception word>'})(<value>)",
        "raise <error> from <error>() | import os; os.abort() | exit(<code>)",
        "raise BaseExceptionGroup('all', [<error>(), SystemExit(0)])",
        "import unittest; raise unittest.SkipTest('no')",
        "import signal; signal.raise_signal(signal.SIGTERM)",
        "import concurrent.futures; raise concurrent.futures.CancelledError | import bdb; raise bdb.BdbQuit",
        "import threading; threading._shutdown = None; raise SystemExit | import sys; sys.modules.clear()",
    ),
    "end late": (
        "import atexit, os\natexit.register(os._exit, <code>)",
        "import atexit\natexit.register(print, <proof>)",
        "import atexit, sys\natexit.register(sys.stdout.close)",
        "import threading, os\nthreading._register_atexit(os._exit, <code>)",
        "class Last:\n    def __del__(self): <end>\nlast = Last()",
        "class Last:\n    def __del__(self): <end>\nLast()",
        "import weakref\nclass Last: pass\nlast = Last()\nweakref.finalize(last, lambda: <end expression>)",
        "import os, sys\nos.register_at_fork(after_in_child=lambda: os._exit(<code>))",
    ),
    "end expression": one_of(
        "__import__('os')._exit(<code>) | __import__('sys').exit(<code>) | (_ for _ in ()).throw(<error>)",
        "print(<proof>) | __import__('os').abort() | __import__('os').write(1, b'passed')",
    ),
    "callable end": one_of(
        "os._exit, <code> | print, <proof> | os.abort | lambda: (_ for _ in ()).throw(<error>)"
    ),
    "base error": one_of(
        "BaseException | Exception | AssertionError | SystemExit | KeyboardInterrupt | StopIteration",
        "GeneratorExit | Warning | OSError | KeyError",
    ),
    "exception word": one_of(
        "Skipped | SkipTest | Exit | XFailed | Passed | Failed | Stopped | Gone | OutOfTime | UnfitForTests"
    ),
    "module word": one_of(
        "_pytest.outcomes | unittest.case | builtins | pytest | sandbox.harness.cases",
        "sandbox.harness.pipe | __main__",
    ),
    "forks": ("1", "2", "3", "4", "5"),
    "program": one_of(
        "v('/bin/true', ['true']) | v('/bin/echo', ['echo', 'passed']) | vp('sh', ['sh', '-c', <shell>])",
        "v(__import__('sys').executable, ['python3', '-c', 'print(8)'])",
        "ve('/bin/cat', ['cat', '/dev/null'], {}) | v('/bin/sh', ['sh', '-c', 'kill -STOP 0'])",
        "v('/bin/false', ['false'])",
    ),
    "command": one_of(
        "['true'] | ['sh', '-c', <shell>] | [sys.executable, '-c', 'print(8)'] | ['kill', '-TERM', '-1']",
        "['timeout', '1', 'true']",
    ),
    "shell": one_of(
        "'exit <code>' | 'echo passed' | 'kill -TERM $PPID' | 'sleep 0.1 &' | '(sleep 0.2; echo passed) &'",
        "'exec >&-; true' | 'printf 1 >&3; printf 1 >&4; printf 1 >&5' | 'cat /proc/$PPID/environ'",
        "'nohup sleep 0.3 >/dev/null 2>&1 &' | 'trap : TERM; kill -TERM 0' | 'ulimit -n 3; true'",
    ),
    "close": ("close()", "throw(<error>)", "send(None)", "gi_frame.clear()"),
    "library end": one_of(
        "_exit(<code>) | exit(<code>) | abort() | _Exit(<code>) | quick_exit(<code>) | pthread_exit(0)",
        "syscall(231, <code>) | syscall(60, <code>)",
    ),
    "recursion": ("20", "60", "10 ** 6"),
    "megabytes": ("64", "200", "300"),
}
