"""A whole run under test: the roles are started by the very commands that a user types, against a real Redis."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from broker.connection import RedisLink
from broker.keys import Keys
from broker.processes import spawn, stop
from learner.reporting.metrics_file import read_metrics
from tests.support.forked_program import fork_module, fork_text
from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tools.audit.command import audit
from tools.audit.sums import Audit

# Groups cost no sampling, every one of them trains, and nothing but training goes on.
PLAIN = (
    "sampling.group_size=2", "learner.filters.zero_variance=keep", "learner.checkpoint.every=0",
    "evaluation.every=0", "data.held_out=", "generators.engine={type: fake, seconds_per_group: 0.2}",
    "scorers.workers=1",
)  # fmt: skip
DEMO = ROOT / "config" / "recipes" / "demo_cpu.yaml"


class Roles:
    """Starts, watches and ends the processes of one run."""

    def __init__(self, folder: Path, redis_url: str, name: str) -> None:
        self.name = name
        self.runs_dir = folder / "runs"
        self.folder = self.runs_dir / name
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.redis = redis.Redis.from_url(redis_url)
        self.keys = Keys(name)
        self._url = redis_url
        self._environment = {**os.environ, "REDIS_URL": redis_url, "OMP_NUM_THREADS": "1"}
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        role: str,
        *words: str,
        log: str = "",
        environment: Mapping[str, str] | None = None,
        command: tuple[str, ...] = (),
        forked: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start `python -m ROLE WORDS`, or another command under that name.

        A forked one needs no time for the imports that this process has done; its command is `python -c SOURCE`.
        """
        path = self.logs / f"{log or role}-{len(self._processes)}.log"
        with path.open("wb") as stream:
            typed = [*(command or (sys.executable, "-m", role)), *words]
            variables = {**self._environment, **(environment or {})}
            if forked:
                start = partial(fork_text, command[-1]) if command else partial(fork_module, role)
                process = start(*words, stdout=stream, stderr=stream, **variables)
            else:
                process = spawn(typed, stdout=stream, stderr=stream, cwd=ROOT, env=variables)
        process.log = path  # type: ignore[attr-defined]
        self._processes.append(process)
        return process

    def learner(self, *words: str, config: Path = DEMO, **options: Any) -> subprocess.Popen[bytes]:
        own = ("--config", str(config), f"name={self.name}", f"runs_dir={self.runs_dir}")
        return self.start("learner", *options.pop("before", ()), *own, *words, **options)

    def generator(self) -> subprocess.Popen[bytes]:
        return self.start("generators", "--run", self.name)

    def scorers(self) -> subprocess.Popen[bytes]:
        return self.start("scorers", "--run", self.name)

    def wait(self, process: subprocess.Popen[bytes], timeout_s: float = 150.0) -> int:
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout_s} s:\n{self.log_of(process)}") from None

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float = 90.0) -> None:
        wait_until(condition, what, within_s=timeout_s, poll_s=0.1, log=self.all_logs)

    def version(self) -> int:
        return int(self.redis.hget(self.keys("run"), "version") or -1)

    def metrics(self) -> list[dict[str, Any]]:
        return read_metrics(self.folder)

    def status(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "status.json").read_text()))

    def audit(self) -> Audit:
        link = RedisLink(self._url, outage_s=10)
        with contextlib.closing(link):
            return audit(link, self.keys, self.folder / "journal")

    def log_of(self, process: subprocess.Popen[bytes]) -> str:
        return str(process.log.read_text(errors="replace")[-6000:])  # type: ignore[attr-defined]

    def all_logs(self) -> str:
        """Return what everybody has said, for a failed test."""
        said = {path.name: path.read_text(errors="replace")[-3000:] for path in self.logs.iterdir()}
        return "\n".join(f"--- {name}\n{text}" for name, text in said.items())

    def end(self) -> None:
        for process in self._processes:
            stop(process, 0)


@pytest.fixture
def roles(tmp_path: Path, redis_url: str, request: pytest.FixtureRequest) -> Iterator[Roles]:
    """Yield the roles of one run on an empty Redis."""
    made = Roles(tmp_path, redis_url, request.node.name.replace("[", "-").replace("]", "")[:40])
    yield made
    made.end()
