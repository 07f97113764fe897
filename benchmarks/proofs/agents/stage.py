"""Where a kind of environment is played: an interpreter with its packages, its files and servers, and what held.

In: a section of `environment`. Out: a `Player` of it, and notes of what held and what was left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.environments.runner import Environments
from benchmarks import results
from benchmarks.proofs.agents.player import TASK, Player
from broker.processes import spawn
from config.run import Run

START_S = 600.0  # of a child's imports, which are torch's for verl
LISTENS_S = 120.0  # until a server listens


class Missing(Exception):
    """A package can't be installed here; the message says why."""


@dataclass(slots=True)
class KindStage:
    """The place of one kind."""

    folder: Path
    python: Path | None = None  # of its children; None: Millrace's own
    others: Mapping[str, Path] = field(default_factory=dict)  # further interpreters, by their name
    episodes: int = 0
    conversations: int = 0  # of these, by the agents' own count; 0: there is none
    sequences: int = 0  # that they became
    held: dict[str, bool] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # each with its reason

    def file(self, name: str, text: str) -> Path:
        """Write a file that the children find as a module."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def prints(self, name: str, text: str, *words: str, python: Path) -> str:
        """Return what a program prints."""
        command: list[str | Path] = [python, self.file(name, text), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LISTENS_S, check=True)
        return str(done.stdout)

    def holds(self, what: str, part: bool, *parts: bool) -> None:
        """Note whether something holds."""
        self.held[what] = all((part, *parts))

    def leaves_out(self, what: str) -> None:
        """Note what can't be played here, and why; it counts for nothing."""
        self.left_out.append(what)

    @contextlib.contextmanager
    def plays(
        self, section: Mapping[str, Any], *, scorer: str | Mapping[str, Any] = "math"
    ) -> Iterator[Player]:
        """Begin to play in a section, whose task has a scorer of that type, or with that section."""
        here = {"start_deadline_s": START_S, **({"python": str(self.python)} if self.python else {})}
        judge = {"type": scorer} if isinstance(scorer, str) else dict(scorer)
        task = {"scorer": judge, "environment": {**here, **section}}
        run = Run.model_validate(
            {
                "name": "prove-agents",
                "model": {"path": "nobody/nothing"},
                "data": {"train": {"type": "dataset", "path": "rows.jsonl"}},
                "scorers": {"tasks": {TASK: task}},
            }
        )
        before = os.environ.get("PYTHONPATH")
        places = (
            [self.folder] if self.python else [self.folder, results.ROOT]
        )  # another Python finds none of ours
        os.environ["PYTHONPATH"] = os.pathsep.join(map(str, places))
        try:
            with asyncio.Runner() as runner:
                player = Player(runner.run(_made(run)), runner, self._count)
                try:
                    yield player
                finally:
                    runner.run(player.environments.close())
        finally:
            os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)

    @contextlib.contextmanager
    def serves(
        self, *words: str | Path, python: Path | None = None
    ) -> Iterator[tuple[int, Callable[[], None]]]:
        """Run a server with `{port}` among its words. Yields the port, and what kills it."""
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        log = self.folder / f"server-{port}.log"
        with log.open("wb") as output:
            command = [python or self.python or "python3", *(str(word).format(port=port) for word in words)]
            process = spawn(command, cwd=self.folder, stdout=output, stderr=output)
        try:
            _wait_for_port(process, port, log)
            yield port, lambda: _kill(process)
        finally:
            _kill(process)

    def _count(self) -> int:
        self.episodes += 1
        return self.episodes


async def _made(run: Run) -> Environments:
    return Environments(run)


def _wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + LISTENS_S
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as link:
            if link.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise RuntimeError(f"the server did not listen within {LISTENS_S:g} s: {tail}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
