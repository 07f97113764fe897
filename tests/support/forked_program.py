"""A program of the project as a child of the test that needs no time for imports: it is forked from the test's process.

In: what to call, and the words, the folder and the output of the child. Out: the `Popen` that `python -c TEXT WORDS`
would give, with its exit code, its signals and its pipes. For what a process does with signals, files, locks and other
processes; what it imports is the test's. Nothing that was open or put off in the test is in the child.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from broker.processes import die_with_parent
from tests.support.paths import ROOT

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)


def fork_text(source: str, /, *words: object, **options: Any) -> subprocess.Popen[Any]:
    """Start `python -c SOURCE WORDS`. Options as of `fork_program`."""
    return fork_program(
        lambda: exec(compile(source, "<text>", "exec"), {"__name__": "__main__"}), *words, **options
    )


def fork_verb(*words: object, **options: Any) -> subprocess.Popen[Any]:
    """Start `millrace WORDS`. Options as of `fork_program`."""
    from tools.main import main

    return fork_program(lambda: main(list(map(str, words))), "millrace", **options)


def fork_module(module: str, *words: object, **options: Any) -> subprocess.Popen[Any]:
    """Start `python -m MODULE WORDS`. Options as of `fork_program`."""
    return fork_text(
        f"import runpy\nrunpy.run_module({module!r}, run_name='__main__', alter_sys=True)", *words, **options
    )


def fork_main(
    main: Callable[[list[str]], int], words: Sequence[str], *, env: Mapping[str, str], stderr: IO[bytes]
) -> subprocess.Popen[Any]:
    """Start `main(words)` in this process' folder, with these variables and no others."""

    def program() -> int:
        os.environ.clear()
        os.environ.update(env)
        folders = env.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:0] = [folder for folder in folders if folder not in sys.path]
        return main(list(words))

    return fork_program(program, *words, cwd=Path.cwd(), stderr=stderr)


def fork_program(
    program: Callable[[], object],
    /,
    *words: object,
    cwd: Path = ROOT,
    stdin: int | IO[Any] | None = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    text: bool = False,
    **variables: str,
) -> subprocess.Popen[Any]:
    """Start a function in a fork of this process.

    Args:
        program: what it does; its exit code is what this returns, or exits with.
        words: its `sys.argv` behind the first.
        cwd: the folder that it works in.
        stdin, stdout, stderr, text: as of `Popen`.
        variables: more of its environment.
    """
    assert threading.current_thread() is threading.main_thread(), (
        "another thread may hold what the fork wants"
    )
    parent = os.getpid()
    return subprocess.Popen(
        ["/bin/false"],  # is never come to
        preexec_fn=lambda: _be(program, ["-c", *map(str, words)], variables, parent),  # noqa: PLW1509 - it is the child itself
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=text,
        process_group=0,
        restore_signals=False,  # Python ignores SIGPIPE
    )


def _be(
    program: Callable[[], object], argv: Sequence[str], variables: dict[str, str], parent: int
) -> NoReturn:
    """Be the program, in the child."""
    code: object = 1
    try:
        die_with_parent(parent)
        gc.freeze()  # what the test has open is closed by number alone
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        for number in HANDLED:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        logging.root.handlers.clear()
        os.environ.update(variables)
        sys.argv[:] = argv
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        code = program()
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            sys.stderr.write(f"{code}\n")
            code = 1
    except BaseException:  # noqa: BLE001 - what a process says at its end
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)
