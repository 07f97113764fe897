"""A run's folder, as the learner leaves it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.connection import RedisLink
from broker.keys import Keys
from config.loading import build_run
from config.run import Run
from tests.support.chain import Chain
from tests.support.chain import make_run as make_chain_run
from tests.support.row_worker_here import scored_here
from tests.support.spawned_by_setpriv import _spawned_by_setpriv
from tests.support.told import Capsys, Millrace, Patch, Told, told
from tools.audit import command

__all__ = ["_spawned_by_setpriv", "scored_here"]

LeaveRun = Callable[..., Path]
MakeRun = Callable[..., Run]


@pytest.fixture
def millrace(capsys: Capsys) -> Millrace:
    """Return a function that calls `millrace` with words and returns what it answered."""

    def call(*words: object) -> Told:
        return told(capsys, *words)

    return call


@pytest.fixture
def at_redis(redis_url: str, monkeypatch: Patch) -> str:
    """Have every verb use the tests' empty Redis."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    return redis_url


@pytest.fixture
def runs_dir(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def leave_run(runs_dir: Path) -> LeaveRun:
    def leave(
        name: str, status: str, *, version: int = 2, steps: int = 2, reason: str = "", at: float = 0.0
    ) -> Path:
        folder = runs_dir / name
        folder.mkdir()
        found: dict[str, object] = {"name": name, "status": status, "reason": reason, "at": at}
        found |= {"version": version, "steps": steps}
        (folder / "status.json").write_text(json.dumps(found))
        keys = ("step", "reward_mean", "lag_mean", "lag_max", "evaluations")
        rounds = [
            {"version": number, "pass_rate": rate, "samples": 8} for number, rate in ((0, 0.125), (2, 0.875))
        ]
        lines = [
            dict(zip(keys, values, strict=True))
            for values in ((1, 0.25, 0.0, 0, rounds[:1]), (2, 0.75, 0.5, 1, rounds[1:]))
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    return leave


@pytest.fixture
def make_run(runs_dir: Path) -> MakeRun:
    def make(name: str = "demo", **sections: object) -> Run:
        plain = {"model": {"path": "tiny"}, "data": {"train": {"type": "procedural"}}}
        return build_run([("a test", {"name": name, "runs_dir": str(runs_dir), **plain, **sections})])

    return make


@pytest.fixture
def chain(tmp_path: Path, link: RedisLink, keys: Keys, monkeypatch: Patch) -> Iterator[Chain]:
    """Yield a learner's end of a run on an empty Redis; the audit's looks follow each other at once."""
    monkeypatch.setattr(command, "PAUSE_S", 0.0)
    chain = Chain(make_chain_run(tmp_path), link, keys)
    yield chain
    chain.journal.close()
