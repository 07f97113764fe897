"""Children that end with their parent, as `broker.processes.spawn` starts them, without a copy of the test's process.

In: a test of what starts processes. Out: they are started by vfork and `setpriv --pdeathsig`, in 2 ms of a processor. A
fork of a process that has imported the tests takes 40 ms: all its page tables are copied for a few system calls.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.environments import processes as environments
from broker import processes

SETPRIV = shutil.which("setpriv")
spawn = processes.spawn


def by_setpriv(
    args: Sequence[str | Path], *, death_signal: signal.Signals = signal.SIGKILL, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a program that is there from the main thread; leave every other call to `spawn` itself."""
    words = list(map(str, args))
    variables = os.environ if options.get("env") is None else options["env"]
    is_there = shutil.which(words[0], path=variables.get("PATH")) is not None
    in_main = threading.current_thread() is threading.main_thread()
    if SETPRIV is None or not (is_there and in_main) or options.get("executable") is not None:
        return spawn(args, death_signal=death_signal, **options)
    command = [SETPRIV, "--pdeathsig", death_signal.name.removeprefix("SIG"), "--", *words]
    return subprocess.Popen(command, process_group=0, **{"stdin": subprocess.DEVNULL, **options})


@pytest.fixture(autouse=True)
def _spawned_by_setpriv(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (processes, environments):
        monkeypatch.setattr(module, "spawn", by_setpriv)
