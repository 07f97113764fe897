"""A program's `main` in a process that is forked from the test's own: its start takes no time for imports.

In: a `main`, its words and variables. Out: the `Popen` that `python -m` with these words would have given. The fork has
all that this process has imported and patched; where that matters, start a real one.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from broker.processes import die_with_parent

FIRST_FD = 3


def fork(
    main: Callable[[list[str]], int], words: Sequence[str], *, env: Mapping[str, str], stderr: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start `main(words)`, in a process group of its own that ends with this process, as `broker.processes.spawn` does."""
    parent = os.getpid()

    def play() -> None:
        code = 1
        try:
            _begin(parent, env)
            code = main(list(words))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001 - nothing of the test may run here
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    return subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.DEVNULL,
        stderr=stderr,
        process_group=0,
        preexec_fn=play,  # noqa: PLW1509 - which never returns
    )


def _begin(parent: int, env: Mapping[str, str]) -> None:
    """Be a process of its own: with no file but the three, none of the test's handlers, and these variables."""
    die_with_parent(parent)
    os.closerange(FIRST_FD, os.sysconf("SC_OPEN_MAX"))  # Popen takes the end of its pipe for the start
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [
        folder for folder in env.get("PYTHONPATH", "").split(os.pathsep) if folder not in sys.path
    ]
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    logging.getLogger().handlers.clear()
