"""Roles of a run as processes that are forked from one that has their libraries: a start takes no time for imports.

In: a module and its words, a folder, variables. Out: the process that `python -m MODULE WORDS` would be, with a log.
Only the imports are shared. They take some seconds of a processor for each role, which a test of a dozen short runs
can't spend. The learner's ranks of a plan (`policy_workshop`) start in the same way.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

END_S = 20.0
LOOK_S = 0.2

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.support.imported_beforehand"])


class ForkedRoles:
    """Starts roles in one folder.

    Args:
        folder: where they run.
        variables: all of their environment.
        logs: where their logs lie; None: in `folder`.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str], logs: Path | None = None) -> None:
        self._folder = folder
        self._logs = logs or folder
        self._variables = dict(variables)
        self._processes: dict[str, BaseProcess] = {}

    def start(self, module: str, *words: str, name: str, **variables: str) -> None:
        """Start a module's `main(words)`.

        Args:
            module: the one that `python -m` would run.
            words: its arguments.
            name: what the process is called here.
            variables: more of its environment.
        """
        log = log_of(self._logs, name)
        log.touch()  # there to be read, however early the process ends
        process = _context.Process(
            target=_play, args=(module, words, self._folder, log, self._variables | variables), name=name
        )
        process.start()
        self._processes[name] = process

    def wait(self, name: str, timeout_s: float) -> None:
        """Wait until a process has ended, and ended well.

        Raises:
            RuntimeError: this process or another one failed, or it goes on; the message has the end of each log.
        """
        last = time.monotonic() + timeout_s
        while (code := self._processes[name].exitcode) is None and time.monotonic() < last:
            self._processes[name].join(LOOK_S)
            if any(process.exitcode for process in self._processes.values()):
                break
        if code != 0:
            logs = "".join(f"\n{one}:\n{self.logged(one)[-3000:]}" for one in self._processes)
            raise RuntimeError(
                f"the {name} was to end within {timeout_s:.0f} s; exit codes {self._codes()}{logs}"
            )

    def _codes(self) -> dict[str, int | None]:
        return {name: process.exitcode for name, process in self._processes.items()}

    def logged(self, name: str) -> str:
        return log_of(self._logs, name).read_text(encoding="utf-8")

    def end(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.join(END_S)
            if process.exitcode is None:
                process.kill()


@contextmanager
def forked_roles(
    folder: Path, variables: Mapping[str, str], logs: Path | None = None
) -> Iterator[ForkedRoles]:
    """Yield roles to start, and end them afterwards. Arguments as of `ForkedRoles`."""
    roles = ForkedRoles(folder, variables, logs)
    try:
        yield roles
    finally:
        roles.end()


def log_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.log"


def _play(module: str, words: Sequence[str], folder: Path, log: Path, variables: Mapping[str, str]) -> None:
    """Be a role, in the new process."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    with log.open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.path.insert(0, str(folder))
    sys.argv = [module, *words]
    sys.exit(importlib.import_module(module).main(list(words)))
