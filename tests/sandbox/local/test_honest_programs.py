"""What honest programs do works behind every kind of walls."""

from __future__ import annotations

import pytest

from sandbox.limits import Limits
from sandbox.local.sandbox import LocalSandbox
from sandbox.program import Ending, Language, Program, SandboxMissing
from tests.sandbox.conftest import LIMITS, Run

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

ROOMY = Limits(wall_s=10.0)

# Each prints 42.
PROGRAMS = {
    "input": "print(sum(int(input()) for _ in range(2)))",
    "the buffer of standard input": "import sys; print(len(sys.stdin.buffer.read()) * 7)",
    "open(0)": "print(len(open(0).read()) * 7)",
    "/dev/stdin": "print(len(open('/dev/stdin').read()) * 7)",
    "threads": "import threading\nx = []\nts = [threading.Thread(target=x.append, args=(i,)) for i in range(8)]\n[t.start() for t in ts]; [t.join() for t in ts]; print(sum(x) + 14)",
    "deep recursion": "import sys; sys.setrecursionlimit(10**6)\nf = lambda n: 42 if n == 0 else f(n - 1)\nprint(f(20000))",
    "a large stack": "import sys, threading; sys.setrecursionlimit(10**6); threading.stack_size(128 << 20)\nimport functools\n@functools.lru_cache(None)\ndef f(n): return 42 if n == 0 else f(n - 1)\nt = threading.Thread(target=lambda: print(f(20000))); t.start(); t.join()",
    "a raised stack limit": "import resource; resource.setrlimit(resource.RLIMIT_STACK, (1 << 28, resource.getrlimit(resource.RLIMIT_STACK)[1])); print(42)",
    "itself in a subprocess": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(42)'], capture_output=True, text=True).stdout.strip())",
    "multiprocessing": "import multiprocessing as m\ndef f(c): c.send(42)\nif __name__ == '__main__':\n  a, b = m.Pipe(); p = m.Process(target=f, args=(b,)); p.start(); print(a.recv()); p.join()",
    "asyncio": "import asyncio\nasync def f(): await asyncio.sleep(0); return 42\nprint(asyncio.run(f()))",
    "scratch files": "import os, tempfile\nopen('a', 'w').write('42'); os.rename('a', 'b'); print(open('b').read())\nwith tempfile.TemporaryDirectory() as d: open(d + '/x', 'w').close()",
    "a neighbour": "import neighbour; print(neighbour.ANSWER)",
    "exit": "print(42); exit(0)",
    "a signal to itself": "import os, signal; signal.signal(signal.SIGTERM, lambda *_: print(42))\nos.kill(os.getpid(), signal.SIGTERM)",
    "an alarm": "import signal; signal.signal(signal.SIGALRM, lambda *_: print(42))\nsignal.setitimer(signal.ITIMER_REAL, .01); signal.pause()",
    "no memory between runs": "import os; print(42 + len(os.listdir('.'))); open('left', 'w').close()",
    "its folder and home": "import os; print(42 * (os.getcwd() == os.environ['HOME']))",
}
NUMBERS = "19\n23\n"


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_an_honest_program_runs(source: str, run: Run) -> None:
    outcome = run(source, NUMBERS, ROOMY, neighbour="ANSWER = 42")
    assert (outcome.stdout, outcome.exit_code) == (b"42\n", 0), outcome.stderr.decode()


def test_no_input_is_the_end_of_a_file(run: Run) -> None:
    assert run("import sys; print(repr(sys.stdin.read()))").stdout == b"''\n"


def test_multiprocessing_has_its_semaphores_in_namespaces(sandbox: LocalSandbox, run: Run) -> None:
    if sandbox.name != "bubblewrap":
        pytest.skip("Landlock can't give a /dev/shm of one's own: docs/decisions/0009")
    outcome = run(
        "import multiprocessing as m\nif __name__ == '__main__':\n"
        "  with m.Pool(2) as p: print(sum(p.map(abs, range(9))))",
        limits=ROOMY,
    )
    assert outcome.stdout == b"36\n", outcome.stderr


def test_the_environment_is_empty_but_for_what_is_named(run: Run) -> None:
    named = (
        "HOME LANG OPENBLAS_NUM_THREADS PATH PWD PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONINTMAXSTRDIGITS"
    )
    assert set(run("import os; print(*os.environ)").stdout.decode().split()) <= set(named.split())


@pytest.mark.parametrize(
    ("source", "ending", "exit_code"),
    [
        ("exit(3)", Ending.EXITED, 3),
        ("import os; os.abort()", Ending.SIGNALLED, -6),
        ("import ctypes; ctypes.string_at(0)", Ending.SIGNALLED, -11),
        ("import os; os.kill(os.getpid(), 15)", Ending.SIGNALLED, -15),
        ("raise ValueError", Ending.EXITED, 1),
    ],
)
def test_an_ending_is_told(source: str, ending: Ending, exit_code: int, run: Run) -> None:
    outcome = run(source)
    assert (outcome.ending, outcome.exit_code) == (ending, exit_code), outcome


def test_nobody_can_end_as_if_killed(run: Run) -> None:
    outcome = run("import os; os._exit(137)")  # what bubblewrap says of a killed program
    assert outcome.ending in (Ending.EXITED, Ending.SIGNALLED)


@pytest.mark.parametrize("content", [b"x" * 5_000_000, b"\0" * 1000, b"\xff\xfe\xc0\x80" * 100])
def test_output_is_bytes_and_complete(content: bytes, run: Run) -> None:
    outcome = run(
        "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d); sys.stderr.buffer.write(d)",
        content,
    )
    assert (outcome.stdout, outcome.stderr) == (content, content)


def test_standard_input_can_be_emptied_by_who_has_read_it(run: Run) -> None:
    outcome = run(
        "import os; print(len(os.read(0, 99))); os.ftruncate(0, 0)\n"
        "try: print(open('/dev/stdin').read())\nexcept OSError: print()",
        "a secret",
    )
    assert outcome.stdout == b"8\n\n", outcome.stderr


CPP = b"""#include <iostream>
int f(int n) { volatile char x[64]; x[0] = 1; return n ? x[0] + f(n - 1) : 0; }
int main() { int n; std::cin >> n; std::cout << f(n) << std::endl; }
"""


def test_cpp_is_compiled_once_and_run(sandbox: LocalSandbox) -> None:
    need(sandbox, Language.CPP)
    with sandbox.prepare(Program(language=Language.CPP, source=CPP)) as prepared:
        assert prepared.failure is None
        assert [prepared.run(str(n).encode(), LIMITS).stdout for n in (21, 100_000)] == [b"21\n", b"100000\n"]


@pytest.mark.parametrize(
    "source",
    [
        b"int main() { return x; }",
        b'#include "/etc/passwd"\nint main() {}',
        b'#include "/dev/stdin"\nthis is no C++',
    ],
)
def test_what_the_compiler_refuses_is_a_failure_with_its_words(source: bytes, sandbox: LocalSandbox) -> None:
    need(sandbox, Language.CPP)
    with sandbox.prepare(Program(language=Language.CPP, source=source)) as prepared:
        assert prepared.failure is not None
        assert prepared.failure.exit_code == 1
        assert b"error" in prepared.failure.stderr
        assert b"root:" not in prepared.failure.stderr


def test_javascript_runs(sandbox: LocalSandbox) -> None:
    need(sandbox, Language.JAVASCRIPT)
    source = (
        b"console.log(require('fs').readFileSync('/dev/stdin', 'utf8').split(' ').reduce((a, b) => +a + +b));"
    )
    with sandbox.prepare(Program(language=Language.JAVASCRIPT, source=source)) as prepared:
        outcome = prepared.run(b"19 23", ROOMY)
    assert (outcome.stdout, outcome.exit_code) == (b"42\n", 0), outcome.stderr


def test_a_bomb_of_memory_in_javascript_ends(sandbox: LocalSandbox) -> None:
    need(sandbox, Language.JAVASCRIPT)
    source = b"const x = []; while (true) x.push(Buffer.alloc(1 << 24, 1));"
    with sandbox.prepare(Program(language=Language.JAVASCRIPT, source=source)) as prepared:
        outcome = prepared.run(limits=Limits(wall_s=20.0, memory_bytes=256 << 20))
    assert outcome.ending is Ending.MEMORY, outcome


def need(sandbox: LocalSandbox, language: Language) -> None:
    if language not in sandbox.languages:
        pytest.skip(f"this machine has nothing for {language.value}")


def test_the_packages_are_importable(sandbox: LocalSandbox) -> None:
    source = (
        b"import os, pytest, sys; here = os.path.dirname(os.path.abspath(__file__))\n"
        b"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', here + '/test_it.py', '--rootdir', here]))"
    )
    files = {"test_it.py": b"def test_it():\n    assert 1 + 1 == 2\n"}
    program = Program(language=Language.PYTHON, source=source, files=files)
    with sandbox.prepare(program) as prepared:
        outcome = prepared.run(limits=ROOMY)
    assert b"1 passed" in outcome.stdout, outcome
    with sandbox.prepare(Program(language=Language.PYTHON, source=b"import pydantic")) as prepared:
        assert b"ModuleNotFoundError" in prepared.run(limits=ROOMY).stderr, "ours, and none of theirs"


def test_a_package_that_is_not_installed_is_named(sandbox: LocalSandbox) -> None:
    with (
        pytest.raises(SandboxMissing, match="no-such-package"),
        sandbox.prepare(Program(language=Language.PYTHON, source=b"", alone=("no-such-package",))),
    ):
        pass


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", ""])
def test_a_file_can_t_lie_elsewhere(name: str, sandbox: LocalSandbox) -> None:
    with (
        pytest.raises(ValueError, match="beside"),
        sandbox.prepare(Program(language=Language.PYTHON, source=b"", files={name: b""})),
    ):
        pass
