"""A fresh clone and somebody who types there what the pages have.

In: a command, as a page has it. Out: what it said, and that its exit code was 0; anything else raises `Failed`. Used by
`benchmarks.pages.proof`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import results
from benchmarks.pages.pages import Line
from benchmarks.pages.terminal import NotSaid, watch
from broker import processes

WAIT_S = 300.0
GRACE_S = 60.0
POLL_S = 0.2
LAST_CHARS = 400


class Failed(Exception):
    """A command did not do what its page says."""


class PageSession:
    """A fresh clone in which a person types commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "millrace"
        subprocess.run(["git", "clone", "--quiet", results.ROOT, self.folder], check=True)
        (self.folder / ".venv").symlink_to(results.ROOT / ".venv")
        for file in self.folder.glob("*/*"):
            os.utime(file, (0, 0))  # older than the environment, or make would install it again
        os.utime(self.folder / "pyproject.toml", (0, 0))
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MILLRACE_", "REDIS_URL"))
        }
        self.environment = kept | {
            "PATH": f"{results.ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self._logs = folder / "logs"
        self._logs.mkdir()
        self.typed: list[tuple[str, float]] = []  # the page's line, and how long it took

    def types(self, line: str, *, says: str = "", within: str = ".", **swaps: str) -> str:
        """Type one command to its end, and return its output.

        Args:
            line: as the page has it.
            says: what must be in its output.
            within: the folder of the clone that it is typed in.
            swaps: words of the page that stand for others.
        Raises:
            Failed: its exit code is not 0, or it says something else.
        """
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", _with(line, swaps)],
            cwd=self.folder / within,
            env=self.environment,
            check=False,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=WAIT_S * 2,
        )
        if done.returncode or says not in done.stdout:
            raise Failed(f"{line}: exit code {done.returncode}, said: {done.stdout[-LAST_CHARS:]}")
        self._note(line, began)
        return done.stdout

    @contextlib.contextmanager
    def keeps(self, line: str, *, until: Callable[[], object], ends: bool = False) -> Iterator[Path]:
        """Run a command that goes on from when `until` is true to the end of the block; yield its log.

        Args:
            ends: it ends by itself; else it gets a SIGTERM.
        Raises:
            Failed: it ends before, or not with 0.
        """
        began = time.monotonic()
        typed = Line(Path(), line)
        log = self._logs / f"{len(list(self._logs.iterdir()))}.log"
        with log.open("wb") as stream:
            process = processes.spawn(
                [self._program(typed.words), *typed.words[1:]],
                cwd=self.folder,
                env=self.environment | typed.variables,
                stdout=stream,
                stderr=stream,
            )
        try:
            wait_until(line, lambda: processes.has_ended(process) or until())
            if not ends and processes.has_ended(process):
                raise Failed(f"{line}: it ended at once, and said: {_end_of(log)}")
            yield log
            if not ends:
                process.terminate()
            if not processes.wait(process, WAIT_S if ends else GRACE_S):
                raise Failed(f"{line}: it does not end; it said: {_end_of(log)}")
        finally:
            code = processes.stop(process, 0)
        if code:
            raise Failed(f"{line}: exit code {code}, said: {_end_of(log)}")
        self._note(line, began)

    def watches(self, line: str, pattern: str, answer: str = "", **swaps: str) -> None:
        """Watch a command at a terminal until it has said `pattern`; then type `answer` or Ctrl-C. Raises Failed."""
        began = time.monotonic()
        words = Line(Path(), _with(line, swaps)).words
        try:
            _, code = watch(
                [self._program(words), *words[1:]],
                pattern,
                cwd=self.folder,
                env=self.environment,
                at_most_s=WAIT_S,
                answer=answer,
            )
        except NotSaid as error:
            raise Failed(f"{line}: {error}") from None
        if code:
            raise Failed(f"{line}: exit code {code} after {answer or 'Ctrl-C'}")
        self._note(line, began)

    def steps(self, run: str) -> int:
        """Return how many steps a run has trained."""
        file = self.folder / "runs" / run / "metrics.jsonl"
        return sum('"step"' in line for line in file.read_text().splitlines()) if file.exists() else 0

    def _program(self, words: Sequence[str]) -> str:
        return shutil.which(words[0], path=self.environment["PATH"]) or words[0]

    def _note(self, line: str, began: float) -> None:
        self.typed.append((line, time.monotonic() - began))
        sys.stdout.write(f"{self.typed[-1][1]:6.1f} s  {line}\n")
        sys.stdout.flush()


def listens(port: int) -> bool:
    """Tell whether a process listens on this port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def wait_until(what: str, condition: Callable[[], object]) -> None:
    """Wait until the condition holds. Raises Failed, which names it."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {WAIT_S:.0f} s")
        time.sleep(POLL_S)


def _with(line: str, swaps: Mapping[str, str]) -> str:
    command = Line(Path(), line).command
    for word, other in swaps.items():
        command = re.sub(rf"\b{word}\b", other, command)
    return command


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-LAST_CHARS:]
