"""All that a program writes counts, where it can be seen and where it can not: no way holds more than it may write."""

from __future__ import annotations

import pytest

from sandbox.local.sandbox import LocalSandbox
from sandbox.program import Ending
from sandbox.walls.seccomp import Walls
from tests.sandbox.conftest import LIMITS, Run

pytestmark = [pytest.mark.process, pytest.mark.prove(after=3)]

MIB = LIMITS.scratch_bytes >> 20
BEGIN = f"""
import array, ctypes, mmap, os, socket, sys, time
MORE = {4 * MIB}  # files of a mebibyte, more than may be written
BLOCK = b"x" * (1 << 20)
def opened(n):
    return os.open("f%d" % n, os.O_RDWR | os.O_CREAT, 0o600)
def written(n):
    descriptor = opened(n)
    os.write(descriptor, BLOCK)
    return descriptor
"""
END = """
time.sleep(1.0)
print("held")
"""
WAYS = {
    "files": "for n in range(MORE): os.close(written(n))",
    "files without a name": "for n in range(MORE): written(n); os.unlink('f%d' % n)",
    "files that never had a name": 'for n in range(MORE): os.write(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600), BLOCK)',
    "files without a name, in children": """
children = [os.fork() for _ in range(2)]  # four processes
for n in range(MORE // 4):
    name = "f%d-%d" % (os.getpid(), n)
    os.write(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), BLOCK)
    os.unlink(name)
time.sleep(1.0)
for child in children:
    if child and os.waitpid(child, 0)[1]: raise OSError("a child found no room")
""",
    "fallocate": 'libc = ctypes.CDLL(None, use_errno=True)\nfor n in range(MORE):\n    if libc.fallocate(opened(n), 0, ctypes.c_long(0), ctypes.c_long(1 << 20)):\n        raise OSError(ctypes.get_errno(), "fallocate")',
    "fallocate beyond the end of a file": 'libc = ctypes.CDLL(None, use_errno=True)\nfor n in range(MORE):\n    if libc.fallocate(opened(n), 1, ctypes.c_long(0), ctypes.c_long(1 << 20)):\n        raise OSError(ctypes.get_errno(), "fallocate")\n    os.unlink("f%d" % n)',
    "posix_fallocate": "for n in range(MORE): os.posix_fallocate(opened(n), 0, 1 << 20)",
    "maps of files without a name": """
kept = []
for n in range(MORE):
    descriptor = opened(n)
    os.ftruncate(descriptor, 1 << 20)
    kept.append(mmap.mmap(descriptor, 1 << 20))
    kept[-1][:] = BLOCK
    os.close(descriptor)
    os.unlink("f%d" % n)
for descriptor in range(3, 200):
    try: os.close(descriptor)
    except OSError: pass
""",
    "files on their way through a socket": 'ours, theirs = socket.socketpair()\nfor n in range(MORE):\n    descriptor = written(n)\n    os.unlink("f%d" % n)\n    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))])\n    os.close(descriptor)',
    "files of a process that nobody may look into": 'libc = ctypes.CDLL(None, use_errno=True)\nlibc.prctl(4, 0, 0, 0, 0)\nfor n in range(MORE): written(n); os.unlink("f%d" % n)',
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_of_writing_holds_more_than_the_limit(sandbox: LocalSandbox, run: Run, way: str) -> None:
    outcome = run(BEGIN + WAYS[way] + END)
    assert b"held" not in outcome.stdout, outcome
    refused = outcome.exit_code not in (None, 0)  # an error, or a map without room behind it
    assert refused or outcome.ending is Ending.OUTPUT, outcome
    if outcome.ending is Ending.OUTPUT:
        assert sandbox.name == Walls.LANDLOCK
        assert outcome.detail == f"more than {LIMITS.scratch_bytes} bytes of files"


HONEST = {
    "a temporary file": "import tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'x' * (3 << 20)); time.sleep(.1)",
    "many small ones": "for n in range(100): os.write(opened(n), b'x'); os.unlink('f%d' % n)",
    "a map": "d = opened(1); os.ftruncate(d, 1 << 20); m = mmap.mmap(d, 1 << 20); m[0] = 1; os.unlink('f1'); time.sleep(.1)",
    "again and again": "for n in range(MORE * 2): os.close(written(0)); os.unlink('f0')",
    "a socket pair": "a, b = socket.socketpair(); a.sendall(b'x'); b.recv(1)",
    "asyncio": "import asyncio\nasyncio.run(asyncio.sleep(.01))",
    "a pipe of multiprocessing": "import multiprocessing as m\na, b = m.Pipe()\na.send([1]); b.recv()",
}


@pytest.mark.parametrize("what", HONEST)
def test_what_is_no_longer_held_does_not_count(run: Run, what: str) -> None:
    outcome = run(BEGIN + HONEST[what] + "\nprint('done')")
    assert outcome.stdout == b"done\n", outcome


def test_a_large_standard_input_is_no_file_of_the_program(run: Run) -> None:
    outcome = run(
        "import sys, time; time.sleep(.1); print(len(sys.stdin.read()))", "x" * (2 * LIMITS.scratch_bytes)
    )
    assert outcome.stdout == f"{2 * LIMITS.scratch_bytes}\n".encode(), outcome
