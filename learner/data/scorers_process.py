"""Start a program of the scorers or agents for the learner's data, since roles don't import each other.

In: the program, and where its answers go. Out: a process in its own group, which finds this checkout's packages from
any folder. Used by `learner.data.gold`, `learner.data.refused` and `learner.data.reference_episodes`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

_ROOT: Final = Path(__file__).parent.parent.parent


def start(
    words: Sequence[str], answers: IO[bytes] | int, rows: IO[bytes] | int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start `python WORDS`, with `rows` as its standard input and its standard output in `answers`."""
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, *words],
        stdin=rows,
        stdout=answers,
        process_group=0,
        env={**os.environ, "PYTHONPATH": path},
    )
