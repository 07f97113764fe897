"""`millrace top` names what holds a run up: real roles around a fake engine, a sleeping scorer and a sleeping policy.

Each part takes seconds where it is the slow one and next to nothing where it is not, so that a busy machine changes no
verdict.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.connection import RedisLink
from broker.joining import Joined, join
from broker.monitoring.heartbeat import Heartbeat
from broker.processes import spawn, stop
from config.generators import ScriptedEngineConfig
from config.learner import LearnerConfig
from config.run import Run
from generators.engines.scripted import ScriptedEngine
from generators.worker import ROLE, Generator
from learner.session import Session
from learner.training.batch import Batch
from tests.conftest import ROOT
from tests.support.chain import FilePolicy, OneToken
from tools.main import main

pytestmark = pytest.mark.process

QUICK_S = 0.01
LOOK_S = 1.2
TURNS_S = 4.0  # a look at a run that does one thing after the other: several turns, or it sees half of one
PATIENCE_S = 60.0


class PacedPolicy(FilePolicy):
    """A step takes so many seconds."""

    seconds = QUICK_S
    vocabulary = 256  # the fake engine speaks in bytes

    def step(self, batch: Batch, settings: LearnerConfig | None = None) -> dict[str, float]:
        time.sleep(self.seconds)
        return super().step(batch, settings)


class Paced:
    """A run whose learner and generator live in threads, and whose parts can be made slow."""

    def __init__(self, name: str, folder: Path, url: str, *, max_lag: int) -> None:
        self.file = folder / f"{name}.seconds"
        self.file.write_text(str(QUICK_S))
        scorer = {
            "type": "custom",
            "queue": "light",
            "import_path": "tests.support.paced_scorer:Paced",
            "options": {"file": str(self.file)},
        }
        self.run = Run.model_validate(
            {
                "name": name,
                "runs_dir": folder / "runs",
                "model": {"path": "nowhere"},
                "data": {"train": {"type": "procedural"}},
                "sampling": {"group_size": 1},
                "generators": {"engine": {"type": "fake"}, "groups_in_flight": 4},
                "scorers": {"workers": 1, "tasks": {"math": {"scorer": scorer}}},
                "learner": {
                    "steps": 10_000,
                    "groups_per_step": 4,
                    "max_lag": max_lag,
                    "samples_every": 0,
                    "filters": {"zero_variance": "keep"},
                    "checkpoint": {"every": 0},
                },
            }
        )
        self.policy = PacedPolicy()
        self.engine = ScriptedEngine(self.run, ScriptedEngineConfig())
        self._links = [RedisLink(url, outage_s=10) for _ in range(2)]
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._train, self._sample)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def pace(self, *, engine: float = QUICK_S, scorer: float = QUICK_S, step: float = QUICK_S) -> None:
        """Seconds of a group in the engine, of a group in the scorer, of a step."""
        self.engine._config = ScriptedEngineConfig(seconds_per_group=engine)
        self.file.write_text(str(scorer))
        self.policy.seconds = step

    def end(self) -> None:
        """Stop, and wait for it."""
        self.pace()
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(60)
        for link in self._links:
            link.close()

    def _train(self) -> None:
        session = Session(self.run, self._links[0])
        session.open()
        policy: Any = self.policy
        tokenizer: Any = OneToken()
        session.train(lambda: (tokenizer, policy), self._stop)

    def _sample(self) -> None:
        joined = join(self.run.name, self.run.runs_dir, self._stop)
        assert joined is not None
        heartbeat = Heartbeat(self._links[1], joined.keys, ROLE, "g")
        generator = Generator(Joined(joined.run, self._links[1], joined.keys), self.engine, "g", self._stop)
        try:
            asyncio.run(generator.run(heartbeat))
        finally:
            heartbeat.stop()


@pytest.fixture
def runs(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Paced, Paced]]:
    """One with room for five steps' groups, and one with room for one's; a pool of scorers for both."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setitem(
        sys.modules, "learner.reporting.curves", types.SimpleNamespace(draw=lambda _: None)
    )  # no matplotlib
    wide, narrow = (
        Paced("wide", tmp_path, redis_url, max_lag=4),
        Paced("narrow", tmp_path, redis_url, max_lag=0),
    )
    with (tmp_path / "scorers.log").open("wb") as log:
        pool = spawn(
            [sys.executable, "-m", "scorers", "--run", "wide,narrow"],
            stderr=log,
            cwd=ROOT,
            env={**os.environ, "REDIS_URL": redis_url},
        )
    try:
        yield wide, narrow
    finally:
        wide.end()
        narrow.end()
        stop(pool, 0)


def look(name: str, capsys: pytest.CaptureFixture[str], seconds: float) -> dict[str, Any]:
    """Return the verdict of `millrace top NAME --once --json` on so many seconds; none on a run that has not begun."""
    capsys.readouterr()
    code = main(["top", name, "--once", "--json", "--every", str(seconds)])
    printed = capsys.readouterr()
    if code != 0:
        assert "no learner has begun it" in printed.err
        return {"bottleneck": None, "text": "it has not begun"}
    found: dict[str, Any] = json.loads(printed.out)["verdict"]
    return found


def settled(
    name: str, bottleneck: str, capsys: pytest.CaptureFixture[str], *, look_s: float = LOOK_S
) -> dict[str, Any]:
    """Return the verdict, once it has been `bottleneck` twice in a row."""
    deadline, said, row = time.monotonic() + PATIENCE_S, [], 0
    while row < 2:
        verdict = look(name, capsys, look_s)
        said.append(verdict["text"])
        row = row + 1 if verdict["bottleneck"] == bottleneck else 0
        assert time.monotonic() < deadline, "\n".join(said)
    return verdict


@pytest.mark.prove
def test_top_names_the_right_bottleneck_in_each_of_four_made_situations(
    runs: tuple[Paced, Paced], capsys: pytest.CaptureFixture[str]
) -> None:
    wide, narrow = runs
    wide.pace(scorer=0.5)
    wide.start()
    slow_scorers = settled("wide", "scorers", capsys)
    assert slow_scorers["gain"] > 0.5, "a second one beside the first"
    assert slow_scorers["knob"] == {}

    wide.pace(engine=1.0)
    slow_generators = settled("wide", "generators", capsys)
    assert slow_generators["gain"] > 0.5
    assert slow_generators["knob"] == {}

    wide.pace(step=1.5)
    slow_learner = settled("wide", "learner", capsys)
    assert slow_learner["knob"] == {"learner.ranks": 2}
    wide.end()

    narrow.pace(engine=0.5, step=0.5)
    narrow.start()
    no_room = settled("narrow", "budget", capsys, look_s=TURNS_S)
    assert no_room["knob"] == {"learner.max_lag": 1}
    assert no_room["gain"] > 0.5, "sampling and training at the same time"
