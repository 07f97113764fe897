"""Answers that try to get `assert f(1) == 987654` to pass without knowing the number: data for `test_harness`."""

from __future__ import annotations

from tests.support.sandbox.programs import named

ALWAYS = r"""
class A:
 __hash__ = object.__hash__
 def __eq__(self, o): return True
 def __ne__(self, o): return False
 def __bool__(self): return True
 def __contains__(self, o): return True
 def __lt__(self, o): return True
 __le__ = __gt__ = __ge__ = __lt__
"""
# A class that equals everything stands where ALWAYS does.
_PROGRAMS = r"""
### nothing
pass
### sys.exit(0) at load
import sys; sys.exit(0)
### sys.exit(0) when called
import sys
def f(x): sys.exit(0)
### os._exit(0) at load
import os; os._exit(0)
### os._exit(0) when called
import os
def f(x): os._exit(0)
### SystemExit when called
def f(x): raise SystemExit(0)
### KeyboardInterrupt when called
def f(x): raise KeyboardInterrupt
### a skipped test
import unittest
def f(x): raise unittest.SkipTest('x')
### atexit
import atexit, os
atexit.register(lambda: os._exit(0))
def f(x): return None
### an object that equals everything
ALWAYS
def f(x): return A()
### an integer that equals everything
class A(int):
 def __eq__(self, o): return True
def f(x): return A(5)
### a list that equals everything
class A(list):
 def __eq__(self, o): return True
def f(x): return A()
### a text that equals everything
class A(str):
 def __eq__(self, o): return True
def f(x): return A()
### a class as the function
ALWAYS
 def __new__(cls, *a): return object.__new__(cls)
 def __init__(self, x): pass
f = A
### frames
import sys
def f(x):
 frame = sys._getframe()
 while frame:
  for v in list(frame.f_locals.values()):
   if isinstance(v, int) and v % 1000000 // 10 == 98765: return v
  frame = frame.f_back
### the garbage collector's objects
import gc
def f(x):
 for o in gc.get_objects():
  for v in (o if isinstance(o, (list, tuple)) else []):
   if type(v) is int and v % 1000000 // 10 == 98765: return v
### standard input
import sys, os
def f(x): return int(re.findall(b'9876..', os.read(0, 1 << 20))[0])
import re
### /dev/stdin
import re
def f(x): return int(re.findall('9876..', open('/dev/stdin').read())[0])
### the memory of the process that checks
import os, re
def f(x):
 for line in open(f'/proc/{os.getppid()}/maps'):
  low, high = line.split()[0].split('-')
  with open(f'/proc/{os.getppid()}/mem', 'rb') as memory:
   memory.seek(int(low, 16))
   found = re.search(rb'== (9876..)', memory.read(int(high, 16) - int(low, 16)))
   if found: return int(found[1])
### the parent's standard output
import os
open(f'/proc/{os.getppid()}/fd/1', 'w').write('x')
def f(x): return 0
### every file descriptor
import os
for fd in range(256):
 try: os.write(fd, b'0' * 32 + b' {"cases": [[true, ""]]}\n')
 except OSError: pass
def f(x): return 0
### patched built-ins
import builtins
builtins.isinstance = lambda *a: True
builtins.type = lambda *a: int
builtins.len = lambda *a: 0
builtins.id = lambda *a: 0
def f(x): return 0
### patched modules of the harness
import sys
for n, m in list(sys.modules.items()):
 if 'inside' in n:
  for k in list(vars(m)):
   if k[:1] != '_': setattr(m, k, lambda *a, **b: True)
def f(x): return 0
### an import of the tests
import tests
def f(x): return 987654
### exceptions that pretend
class AssertionError(Exception): pass
def f(x): raise AssertionError
### a redefined built-in
def print(*a): pass
def isinstance(*a): return True
def f(x): return 0
### a killed parent
import os, signal
os.kill(os.getppid(), signal.SIGTERM)
def f(x): return 0
### a stopped parent
import os, signal
os.kill(os.getppid(), signal.SIGSTOP)
def f(x): return 0
### an alarm for the parent
import os, signal
os.kill(os.getppid(), signal.SIGALRM)
def f(x): return 0
### a fork
import os
def f(x):
 os.fork()
 return 0
### a fork bomb
import os
while True:
 try: os.fork()
 except OSError: pass
### a memory bomb
x = [bytes(1 << 20) for _ in range(1 << 20)]
def f(x): return 0
### an endless message
def f(x): return 'x' * (100 << 20)
### a deep value
def f(x):
 t = ()
 for _ in range(100000): t = (t,)
 return t
### an endless iterator
def f(x):
 while True: yield 1
### a hang
def f(x):
 while True: pass
### a hang that ignores signals
import signal
for n in range(1, 64):
 try: signal.signal(n, signal.SIG_IGN)
 except (OSError, ValueError): pass
def f(x):
 while True: pass
### a thread that survives
import threading, time
threading.Thread(target=time.sleep, args=(100,)).start()
def f(x): return 0
### garbage on every pipe
import os
def f(x):
 for fd in range(3, 64):
  try: os.write(fd, b'\0' * 64)
  except OSError: pass
 return 0
"""
ATTACKS = {name: program.replace("\nALWAYS", ALWAYS) for name, program in named(_PROGRAMS).items()} | {
    "null bytes": "def f(x): return 0\0",
    "no Unicode": "def f(x): return '\ud800'",
}
