"""Assemble and run one incarnation of the learner, and record a reason however it ends.

In: a resolved run, and how its policy is loaded. Out: an exit code, `status.json`, and the run's status in Redis, which
tells the other roles to end. Rank 0 runs it. A restarted run continues: from the newest good checkpoint, then the
journal's later steps, then the groups in Redis.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.connection import RedisLink
from broker.errors import RunFailed
from broker.monitoring.heartbeat import Heartbeat
from broker.protocol.run_state import PAUSE, ask_unless_asked
from config.loading import to_yaml
from config.run import Run
from learner.assembly import Claimed, Listeners, assemble, make_intake
from learner.data.earlier_fingerprint import earlier_fingerprint
from learner.data.held_out import HeldOut, open_held_out
from learner.data.prompts import PromptSource, open_sources
from learner.groups.arrival_statistics import ArrivalCounter
from learner.groups.filters import Filters
from learner.groups.first_look import FirstLook
from learner.groups.while_waiting import KeepAlive
from learner.incarnation import BY_SIGNAL, STOPPED, Incarnation
from learner.journal.disk import replace_text
from learner.journal.writer import Journal
from learner.policy_version import PolicyVersion
from learner.reporting.generators import as_record
from learner.reporting.latency import lag_outlook
from learner.reporting.metrics import Metrics
from learner.resume.history import check_start, first_row_of
from learner.resume.replay import IncarnationSettings, Interrupted, catch_up, kl_after
from learner.trainer import TrainingLoop
from learner.training import checkpoint
from learner.training.checkpoint import Checkpoints, Progress, read_progress

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from broker.messages import ScoredGroup
    from learner.training.backend import TrainingBackend
    from learner.training.batch import Batch

log = logging.getLogger(__name__)

Load = Callable[[], "tuple[PreTrainedTokenizerBase, TrainingBackend]"]


class TrainingSession(Incarnation):
    """The objects of rank 0, except the policy."""

    def __init__(self, run: Run, link: RedisLink) -> None:
        super().__init__(run, link)
        self.checkpoints = Checkpoints(run)
        self._trainer: TrainingLoop | None = None
        self._policy: TrainingBackend | None = None

    def train(self, load: Load, stop: threading.Event) -> int:
        """Load, then train until the last step, a signal or an error. Returns the exit code."""
        self.version = self._known_version()
        return self._carry_out(lambda heartbeat: self._train(load, stop, heartbeat), stop, end=self._free)

    def _train(self, load: Load, stop: threading.Event, heartbeat: Heartbeat) -> None:
        self._check_start(heartbeat)
        heartbeat.set_state("loading the model")
        tokenizer, policy = load()
        self._policy = policy
        keep_alive = KeepAlive(policy)
        self._held.enter_context(self.link.while_waiting(keep_alive))
        heartbeat.set_state("reading the data")
        sources = self._sources(tokenizer)
        journal = self._journal = self._begin_incarnation(sources[0])
        heartbeat.set_state("training the journal's steps since the last checkpoint")
        heartbeat.meter.hold(1.0)
        metrics = Metrics(self.run, advise=self._advise, pause=self._pause)
        metrics.recall(journal.ledger.evaluations)
        start = self._start(policy, journal, sources[0], metrics, stop)
        if start is None:
            self._end_in_replay(metrics, journal)
            return
        self.version = start.version
        trainer = self._trainer = self._assemble(
            policy, journal, sources, start, metrics=metrics, stop=stop, beat=heartbeat, keep_alive=keep_alive
        )
        how = trainer.train()
        metrics.close()  # a process that reads `finished` then finds every step's record
        self._end(how)

    def _reached(self) -> int:
        return self._trainer.version if self._trainer else self.version

    def _check_start(self, heartbeat: Heartbeat) -> None:
        """Check the checkpoint that a new run begins from, if it names one. Raises the errors of `check_start`."""
        if isinstance(self.run.learner.resume, Path) and not self.history.has_begun:
            heartbeat.set_state("checking the checkpoint to begin from")
            check_start(self.run, self.run.learner.resume)

    def _end_in_replay(self, metrics: Metrics, journal: Journal) -> None:
        """End after a signal that came during the replay."""
        metrics.close()
        journal.close()
        journal.check_fence()
        self.status.end(STOPPED, BY_SIGNAL, self.version)

    def _sources(self, tokenizer: PreTrainedTokenizerBase) -> tuple[PromptSource, HeldOut | None]:
        data = self.run.data
        train = open_sources(self.run, data.train_sources, tokenizer, shuffle=data.shuffle)
        held_out = open_held_out(self.run, tokenizer)
        log.info(
            "data train=%d held_out=%d fingerprint=%s", len(train), len(held_out or ()), train.fingerprint
        )
        self._count_steps(train)
        log.info("lag %s", lag_outlook(self.run))
        return train, held_out

    def _count_steps(self, train: PromptSource) -> None:
        """Set the steps of a run configured by epochs: as many as they make where no group is dropped."""
        learner = self.run.learner
        if learner.epochs is None or not learner.steps_follow_epochs:
            return
        steps = self._begins_at() + math.ceil(train.draws(learner.epochs) / learner.groups_per_step)
        log.info("epochs=%d rows=%d steps=%d", learner.epochs, len(train), steps)
        update = {"learner": learner.model_copy(update={"steps": steps})}
        self.run, self.status.run = (
            self.run.model_copy(update=update),
            self.status.run.model_copy(update=update),
        )

    def _begins_at(self) -> int:
        """Return the policy version that the run began with."""
        if self.history.ledger.steps:
            return int(self.history.ledger.steps[0]["step"])
        start = self.run.learner.resume
        if self.history.has_begun:
            start = self.history.first_incarnation.get("start") or "never"
        return 0 if start in {"auto", "never"} else read_progress(Path(start)).version

    def _begin_incarnation(self, train: PromptSource) -> Journal:
        """Claim the run and open the journal, whose first record has this incarnation's configuration."""
        run, first = self.run, self.history.first_incarnation
        known = first.get("fingerprint", train.fingerprint)
        if known != train.fingerprint and known != earlier_fingerprint(run, len(train)):
            raise RunFailed(
                f"the data of run {run.name} are not those it began with (fingerprint {train.fingerprint}, "
                f"then {known}): its groups' numbers would mean other rows. Bring them back, or begin a "
                "new run from a checkpoint: name=... learner.resume=FOLDER"
            )
        first_row = first.get("first_row", 0)
        start = first.get("start")
        if not self.history.has_begun and isinstance(run.learner.resume, Path):
            start = str(run.learner.resume.absolute())
            first_row = first_row_of(run.learner.resume, train.fingerprint)
        journal = self._claim(
            {"config": to_yaml(run), "fingerprint": train.fingerprint, "first_row": first_row, "start": start}
        )
        file = run.folder / "config.yaml"
        try:
            replace_text(file, to_yaml(run))
        except OSError as error:
            raise RunFailed(
                f"{file} can't be written: {error.strerror}. Make room there, and start again"
            ) from error
        return journal

    def _start(
        self,
        policy: TrainingBackend,
        journal: Journal,
        train: PromptSource,
        metrics: Metrics,
        stop: threading.Event,
    ) -> Progress | None:
        """Bring the policy to the ledger's end; None if a signal came first."""
        facts = journal.ledger.incarnations[0]
        newest = self.checkpoints.newest_good(ledger=journal.ledger) if self.history.has_begun else None
        folder = newest or (Path(facts["start"]) if facts["start"] else None)
        is_checked = newest is not None or not self.history.has_begun
        found = None if folder is None else checkpoint.load(policy, folder, is_checked=is_checked)
        version = 0 if found is None else found.version
        if newest is not None:
            log.info("going_on checkpoint=%s steps_in_journal=%d", newest, len(journal.ledger.steps))
        if folder is not None and newest is None:  # copied: the other run may remove its checkpoint
            self.checkpoints.save(
                policy, Progress(version=version, first_row=facts["first_row"], fingerprint=train.fingerprint)
            )
        kl = None if found is None or newest is None else found.kl
        recorded = IncarnationSettings(self.run, journal.ledger)

        def report(
            record: Mapping[str, Any],
            groups: Sequence[ScoredGroup],
            batch: Batch,
            stepped: Mapping[str, float],
        ) -> None:
            nonlocal kl
            metrics.replayed(record, groups, batch, as_record(stepped, batch))
            kl = kl_after(recorded.of(record).objective.kl, record, batch, stepped)

        try:
            version = catch_up(
                self.run,
                policy,
                journal.folder,
                journal.ledger,
                version,
                report=report,
                is_stopped=stop.is_set,
            )
        except Interrupted as error:
            log.info("run=%s ended status=%s reason=%s", self.run.name, STOPPED, error)
            return None
        return Progress(version=version, first_row=facts["first_row"], fingerprint=train.fingerprint, kl=kl)

    def _assemble(
        self,
        policy: TrainingBackend,
        journal: Journal,
        sources: tuple[PromptSource, HeldOut | None],
        start: Progress,
        *,
        metrics: Metrics,
        stop: threading.Event,
        beat: Heartbeat,
        keep_alive: Callable[[], None],
    ) -> TrainingLoop:
        claimed = Claimed(
            run=self.run,
            run_owner=self.run_owner,
            journal=journal,
            version=PolicyVersion(start.version),
            stop=stop,
            beat=beat,
        )
        train, held_out = sources
        arrivals = ArrivalCounter()
        filters = Filters(self.run.learner, arrivals, advise=self._advise)
        first_look = FirstLook(self.run, policy, journal, claimed.version, began=time.time())
        intake = make_intake(
            claimed, held_out, filters, arrivals, vocabulary=policy.vocabulary, first_look=first_look
        )
        listeners = Listeners(
            publish_status=self.status.begin,
            tell_lost=self.status.tell_lost,
            tell_wanted=self._tell_wanted,
            keep_alive=keep_alive,
        )
        parts = assemble(
            claimed, train, intake, policy, listeners, first_row=start.first_row, away_s=self.status.away_s
        )
        parts.publisher.start()
        return TrainingLoop(
            parts, policy, filters, checkpoints=self.checkpoints, metrics=metrics, start=start
        )

    def _pause(self) -> None:
        """Pause this run, as an operator would, unless an operator has already requested something."""
        ask_unless_asked(self.link, self.keys, PAUSE)

    def _free(self) -> None:
        if self._trainer is not None:
            self._close(self._trainer)
        if self._policy is not None:
            self._policy.close()

    def _close(self, trainer: TrainingLoop) -> None:
        """Close the files, draw the picture and write the report, also for a run that failed.

        Nothing here may hide how the run ended: neither a full disk, nor a picture that can't be drawn.
        """
        trainer.feeder.stop()
        trainer.publisher.close()
        trainer.journal.close()
        try:
            trainer.metrics.close()
            from learner.reporting.curves import draw

            draw(self.run.folder)
        except Exception:
            log.exception("curves_not_drawn")
        try:
            from learner.reporting.report.page import write_report

            write_report(self.run.folder)
        except Exception:
            log.exception("report_not_written")
