"""One life of a learner as it is driven: the real `TrainingSession` on the strands of one process.

Session, trainer, intake, selection, journal, recovery, checkpoints and feeder are the product's, unchanged. What stands
in for something is the policy, whose weights are a checksum of all that it was trained on, and the modules `threading`
and `time`; `driven` puts them in place.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import stat
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
import redis

import learner.reporting.curves
from broker.connection import RedisLink
from broker.monitoring.work_meter import WorkMeter
from config.run import Run
from learner import incarnation, session, trainer
from learner.assembly import Claimed
from learner.data.held_out import HeldOut
from learner.data.prompts import PromptRows, PromptSource
from learner.data.row import Row
from learner.groups.returned import Returned
from learner.resume import history
from learner.training.backend import Differences
from learner.training.batch import Batch
from tests.protocol import strands
from tests.protocol.strands import Clock, Process, Threading, park
from tests.support.chain import OneToken, TextWeights, make_held_out
from tests.support.differences import no_differences

T = TypeVar("T")

READS = {"reconcile_view", "ledger_view"}  # scripts that change nothing
FOREVER_S = 1e9
FIVE = {"type": "math", "answer": {"value": "5"}}
ROWS = [
    Row(messages=({"role": "user", "content": str(i)},), task="math", verification_info=FIVE)
    for i in range(10)
]

Seen = Callable[[str, int], None]  # told the name of each command and its learner's fence, 0 for a worker's


class ChainPolicy:
    """A policy whose weights are a checksum of every batch that it was trained on, in order."""

    vocabulary = 1000
    pads = False

    def __init__(self) -> None:
        self.weights = "begin"

    def step(self, batch: Batch, *_: Any, **__: Any) -> dict[str, float]:
        park("step")
        self.weights = f"{zlib.crc32(batch.to_bytes(), zlib.crc32(self.weights.encode())):08x}"
        park("step")
        return {"loss": 0.0, "tokens": float(batch.num_tokens), "entropy": 0.5, "seconds": 0.1}

    def differences(self, batch: Batch) -> Differences:
        park("compare")
        return no_differences(batch)

    def gather_weights(self) -> TextWeights:
        park("gather")
        return TextWeights(self.weights)

    def save_checkpoint(self, folder: Path, state: dict[str, Any]) -> None:
        folder.mkdir(parents=True)
        (folder / "state.json").write_text(json.dumps({"state": state, "weights": self.weights}))
        park("checkpoint")

    def load_checkpoint(self, folder: Path) -> dict[str, Any]:
        content = json.loads((folder / "state.json").read_text())
        self.weights = content["weights"]
        state: dict[str, Any] = content["state"]
        return state

    def save_model(self, folder: Path) -> None:
        folder.mkdir(parents=True)

    def keep_alive(self) -> None: ...

    def close(self) -> None: ...


class WatchedRedisLink(RedisLink):
    """A link that the world watches: it parks before every command, and loses replies when told to.

    Attributes:
        loses: scripts; the next reply of each is lost on its way.
    """

    def __init__(self, url: str, client: redis.Redis, seen: Seen, *, outage_s: float) -> None:
        super().__init__(url, outage_s=outage_s)
        self.client = client
        self.loses: set[str] = set()
        self.fence: Callable[[], int] | None = None  # of the learner whose link it is
        self.losses = 0
        self._seen = seen

    def __call__(self, attempt: Callable[[redis.Redis], T]) -> T:
        def watched(client: redis.Redis) -> T:
            park("command")
            reply = attempt(client)
            if self.fence is None:  # what a learner does beside scripts only reads
                self._seen("command", 0)
            return reply

        return super().__call__(watched)

    def _evaluate(self, client: redis.Redis, name: str, *args: Any, **options: Any) -> Any:
        park(name)
        reply = super()._evaluate(client, name, *args, **options)
        if name not in READS:
            self._seen(name, self.fence() if self.fence else 0)
        if name in self.loses:
            self.loses.remove(name)
            self.losses += 1
            raise redis.ConnectionError("the reply was lost")
        return reply


class DrivenRedis(redis.Redis):
    """A client whose blocking reads take no real time: where nothing has come, the caller parks."""

    clock: Clock

    def execute_command(self, *args: Any, **options: Any) -> Any:
        at = next((at for at, word in enumerate(args) if word in ("BLOCK", b"BLOCK")), None)
        if args[0] in {"XREAD", "XREADGROUP"} and at is not None:
            reply = super().execute_command(*args[:at], *args[at + 2 :], **options)  # type: ignore[no-untyped-call]
            if not reply:
                self.clock.advance(int(args[at + 1]) / 1000)
                park("wait")
            return reply
        return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]


class Life(Process):
    """One life of the learner, parked before its first line."""

    def __init__(self, run: Run, link: WatchedRedisLink) -> None:
        super().__init__()
        self.link = link
        self.max_lag = run.learner.max_lag
        link.fence = lambda: self.fence
        self.session = session.TrainingSession(run, link)
        self.policy = ChainPolicy()
        self.failure = ""
        self.is_killed = False
        self.loop = self.start("learner", self._run)

    @property
    def fence(self) -> int:
        """0 until it has claimed the run."""
        return self.session.run_owner.fence

    @property
    def has_recovered(self) -> bool:
        return any(strand.name == "feeder" for strand in self.strands)

    def kill(self) -> None:
        """As kill -9 does: it has not ended by itself."""
        self.is_killed = True
        super().kill()

    def until_it_waits(self, at_most: int = 400) -> None:
        """Let all its strands go on in turn until each of them has waited twice."""
        waits: Counter[str] = Counter()
        for _ in range(at_most):
            for strand in list(self.strands):
                waits[strand.name] += strand.advance() in {"wait", "end"}
            if min(waits[strand.name] for strand in self.strands) >= 2 or not self.is_running:
                return

    def _run(self) -> int:
        tokenizer: Any = OneToken()
        policy: Any = self.policy
        self.session.open()
        return self.session.train(lambda: (tokenizer, policy), self.link.stop)


class Disk:
    """What of the journal is on disk, and what a power cut may take: the end that no fsync has seen."""

    def __init__(self) -> None:
        self._synced: dict[str, int] = {}
        self._real = os.fsync

    def fsync(self, descriptor: int) -> None:
        """Park, then note how long the file is. The real call costs time and shows nothing here."""
        if strands.current() is None:
            return
        park("fsync")
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            self._synced[str(Path(f"/proc/self/fd/{descriptor}").readlink())] = found.st_size

    def cut(self, journal: Path, share: float) -> bool:
        """Cut the power: only a share of what was not synced stays. Return whether anything went."""
        has_lost = False
        for file in journal.glob("*"):
            size, synced = file.stat().st_size, self._synced.get(str(file), 0)
            kept = synced + int((size - synced) * share)
            os.truncate(file, kept)
            has_lost |= kept < size
        return has_lost


class _Failures(logging.Handler):
    """Why a session ended: what it writes to its log."""

    def emit(self, record: logging.LogRecord) -> None:
        strand = strands.current()
        if strand is not None and isinstance(strand.process, Life) and record.levelno >= logging.ERROR:
            strand.process.failure = record.getMessage()
            if record.exc_info and record.exc_info[1]:
                strand.process.failure += f": {record.exc_info[1]!r}"


def drive(monkeypatch: pytest.MonkeyPatch) -> tuple[Clock, Disk]:
    """Put the stand-ins in place for the learners that are made from now on."""
    clock, disk = Clock(), Disk()
    threads = Threading(clock)
    for name, module in sys.modules.copy().items():
        if name.startswith(("learner.", "broker.")):
            for attribute, real, ours in (("threading", threading, threads), ("time", time, clock)):
                if getattr(module, attribute, None) is real:
                    monkeypatch.setattr(module, attribute, ours)
    for takes_clock in (Claimed, RedisLink):
        defaults: Any = takes_clock.__init__.__kwdefaults__
        monkeypatch.setitem(defaults, "clock", clock.monotonic)
    monkeypatch.setattr(os, "fsync", disk.fsync)
    tokenizer: Any = OneToken()

    def heartbeat(*_: Any, **__: Any) -> SimpleNamespace:
        return SimpleNamespace(set_state=lambda *_: None, stop=lambda: None, meter=WorkMeter())

    def sources(run: Run, *_: Any, **__: Any) -> PromptSource:
        return PromptSource(run, [PromptRows.of_rows(ROWS)], "f", tokenizer, shuffle=False)

    monkeypatch.setattr(incarnation, "Heartbeat", heartbeat)

    def held_out(run: Run, *_: Any) -> HeldOut | None:
        return make_held_out(run) if run.evaluation.every else None

    monkeypatch.setattr(session, "open_sources", sources)
    monkeypatch.setattr(session, "open_held_out", held_out)
    monkeypatch.setattr(incarnation, "locked", lambda _: contextlib.nullcontext())  # on another machine
    monkeypatch.setattr(incarnation, "check_redis", lambda *_: None)
    monkeypatch.setattr(history, "refuse_living", lambda *_: None)
    monkeypatch.setattr(learner.reporting.curves, "draw", lambda _: None)
    monkeypatch.setattr(trainer, "load_ahead", lambda: None)
    monkeypatch.setattr(Returned, "refuse_endless", lambda _: None)  # deaths in a row are meant here
    _hear_failures(monkeypatch)
    return clock, disk


def _hear_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the logs say nothing but why a session ended."""
    for role in ("learner", "broker"):
        monkeypatch.setattr(logging.getLogger(role), "level", logging.CRITICAL)
    for owner in ("learner.session", "learner.incarnation"):
        for name, value in (("handlers", [_Failures()]), ("level", logging.ERROR), ("propagate", False)):
            monkeypatch.setattr(logging.getLogger(owner), name, value)
