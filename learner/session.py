"""Put one life of the learner together, run it, and leave a reason behind however it ends.

In: a resolved run, and how its policy is loaded. Out: an exit code, `status.json`, and the run's status in Redis, which
tells the other roles to end. Rank 0 runs it.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from broker.alive import Heartbeat
from broker.connection import Link
from broker.errors import Fenced, PipelineError, RunFailed
from broker.keys import Keys
from broker.ownership import Ownership
from config.loading import to_yaml
from config.run import Run
from learner import checkpoint
from learner.checkpoint import Progress
from learner.collector import Collector
from learner.evaluation import Rounds
from learner.feeder import Feeder
from learner.intake import Intake
from learner.journal import Journal
from learner.ledger import read_ledger
from learner.metrics import Metrics
from learner.prompts import PromptSource, open_source
from learner.status import Status, check_redis
from learner.trainer import Trainer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from learner.policy import Policy

log = logging.getLogger(__name__)

Load = Callable[[], "tuple[PreTrainedTokenizerBase, Policy]"]

KEEP_ALIVE_S = 30.0


class Session:
    """What rank 0 holds beside the policy. `open` refuses a taken name before anything heavy is loaded."""

    def __init__(self, run: Run, link: Link) -> None:
        self.run = run
        self.link = link
        self.keys = Keys(run.name)
        self.status = Status(run, link, self.keys)
        self.ownership = Ownership(link, self.keys)

    def open(self) -> None:
        """Raises what `Status.open` and `check_redis` raise."""
        check_redis(self.run, self.link)
        self.status.open()

    def train(self, load: Load, stop: threading.Event) -> int:
        """Load, then train until the last step, a signal or an error. Returns the exit code."""
        heartbeat = Heartbeat(self.link, self.keys, "learner", f"{socket.gethostname()}-{os.getpid()}")
        version = 0
        trainer: Trainer | None = None
        policy: Policy | None = None
        try:
            heartbeat.say("loading the model")
            tokenizer, policy = load()
            heartbeat.say("reading the data")
            train, held_out = self._sources(tokenizer)
            start = self._start(policy, train)
            version = start.version
            trainer = self._assemble(policy, train, held_out, start, stop=stop, heartbeat=heartbeat)
            finished = trainer.train()
            version = trainer.version
            trainer.metrics.close()         # who hears that the run is finished finds every step's object
            self.status.end("finished" if finished else "stopped", "" if finished else "a signal asked for it", version)
            log.info("run=%s ended status=%s version=%d", self.run.name, "finished" if finished else "stopped", version)
        except Fenced as error:             # the run is another learner's now, and so is its status
            log.error("run=%s ended reason=%s", self.run.name, error)       # noqa: TRY400
            return 1
        except PipelineError as error:
            log.error("run=%s failed reason=%s", self.run.name, error)      # noqa: TRY400 - the reason says it all
            self._fail(str(error), trainer.version if trainer else version)
            return 1
        except Exception as error:
            log.exception("run=%s failed", self.run.name)
            self._fail(f"{type(error).__name__}: {error}", trainer.version if trainer else version)
            return 1
        finally:
            heartbeat.stop()
            if trainer is not None:
                self._close(trainer)
            if policy is not None:
                policy.close()
        return 0

    def _sources(self, tokenizer: PreTrainedTokenizerBase) -> tuple[PromptSource, PromptSource | None]:
        data = self.run.data
        train = open_source(self.run, data.train, tokenizer, shuffle=data.shuffle)
        held_out = None
        if data.held_out is not None and self.run.evaluation.every:
            held_out = open_source(self.run, data.held_out, tokenizer, shuffle=False)
        log.info("data train=%d held_out=%d fingerprint=%s", len(train), len(held_out or ()), train.fingerprint)
        return train, held_out

    def _start(self, policy: Policy, train: PromptSource) -> Progress:
        if not isinstance(self.run.learner.resume, Path):
            return Progress(version=0, first_row=0, fingerprint=train.fingerprint)
        start = checkpoint.load(policy, self.run.learner.resume)
        if start.fingerprint != train.fingerprint:
            log.warning("data_changed checkpoint=%s now=%s: the order of rows begins anew", start.fingerprint,
                        train.fingerprint)
            start = Progress(version=start.version, first_row=0, fingerprint=train.fingerprint)
        if start.version >= self.run.learner.steps:
            raise RunFailed(f"learner.resume={self.run.learner.resume} stands at step {start.version}, and "
                            f"learner.steps={self.run.learner.steps} are no more than that")
        return start

    def _assemble(self, policy: Policy, train: PromptSource, held_out: PromptSource | None, start: Progress, *,
                  stop: threading.Event, heartbeat: Heartbeat) -> Trainer:
        run = self.run
        folder = run.folder / "journal"
        fence = self.ownership.claim(read_ledger(folder).fence)
        ledger = Journal(folder, fence, run=run.name)
        (run.folder / "config.yaml").write_text(to_yaml(run))
        self.status.begin(start.version)
        intake = Intake(run, self.ownership, ledger, Rounds())
        feeder = Feeder(run, self.ownership, train, held_out, first_row=start.first_row, known=ledger.has,
                        mean_bytes=intake.mean_bytes)
        collector = Collector(run, intake, stop, tend=_Tending(policy, feeder), say=heartbeat.say)
        return Trainer(run, policy, ownership=self.ownership, ledger=ledger, intake=intake, collector=collector,
                       feeder=feeder, metrics=Metrics(run), start=start)

    def _fail(self, reason: str, version: int) -> None:
        """Tell everybody why, as far as Redis can still be reached."""
        self.link.outage_s = 5.0
        try:
            self.status.end("failed", reason, version)
        except PipelineError as error:
            log.warning("status_not_told error=%s", error)

    def _close(self, trainer: Trainer) -> None:
        """Close the files and draw the picture, which is worth having even of a run that failed.

        Nothing here may hide how the run ended: not a disk that is full, nor a picture that can't be drawn.
        """
        trainer.feeder.stop()
        trainer.journal.close()
        try:
            trainer.metrics.close()
            from learner.curves import draw
            draw(self.run.folder)
        except Exception:
            log.exception("curves_not_drawn")


class _Tending:
    """What the collector does while it waits: notice a dead feeder, keep the other ranks' wait alive."""

    def __init__(self, policy: Policy, feeder: Feeder) -> None:
        self._policy = policy
        self._feeder = feeder
        self._last = time.monotonic()

    def __call__(self) -> None:
        if self._feeder.failure is not None:
            raise self._feeder.failure
        if time.monotonic() - self._last > KEEP_ALIVE_S:
            self._last = time.monotonic()
            self._policy.keep_alive()
