"""Put one incarnation of the learner together, run it, and leave a reason behind however it ends.

In: a resolved run, and how its policy is loaded. Out: an exit code, `status.json`, and the run's status in Redis, which
tells the other roles to end. Rank 0 runs it. A run that has begun goes on: the newest good checkpoint, then the
journal's later steps, then what Redis has.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.connection import RedisLink
from broker.errors import BrokerUnavailable, Fenced, PipelineError, RunFailed
from broker.joining import reset_run_state
from broker.keys import Keys
from broker.monitoring.heartbeat import Heartbeat
from broker.protocol.run_owner import RunOwner
from broker.protocol.run_state import GO_ON, PAUSE, ask_unless_asked
from config.loading import to_yaml
from config.run import Run
from learner.data.earlier_fingerprint import earlier_fingerprint
from learner.data.held_out import HeldOut, open_held_out
from learner.data.prompts import PromptSource, open_sources
from learner.groups.buffer import GroupBuffer
from learner.groups.evaluation import Evaluation
from learner.groups.feeder import Feeder
from learner.groups.intake import Intake
from learner.groups.retirement import Retirement
from learner.groups.selection import Selection
from learner.groups.while_waiting import KeepAlive, Operator, WhileWaiting
from learner.journal.disk import replace_text
from learner.journal.ledger import Ledger
from learner.journal.writer import FenceTaken, Journal
from learner.policy_version import PolicyVersion
from learner.reporting.generators import as_record
from learner.reporting.latency import lag_outlook
from learner.reporting.metrics import Metrics
from learner.resume.config_changes import check_changes
from learner.resume.history import (
    History,
    NameTaken,
    check_start,
    first_row_of,
    has_begun,
    locked,
    look,
    refuse_living,
)
from learner.resume.recovery import Recovery
from learner.resume.replay import IncarnationSettings, Interrupted, catch_up, kl_after
from learner.status import Status, check_redis, read_status
from learner.trainer import DRAINED, FINISHED, STOPPED, TrainingLoop
from learner.training import checkpoint
from learner.training.checkpoint import Checkpoints, Progress, read_progress
from learner.weight_sync.build import build_transport
from learner.weight_sync.publisher import Publisher

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from broker.messages import ScoredGroup
    from learner.training.backend import TrainingBackend
    from learner.training.batch import Batch

log = logging.getLogger(__name__)

Load = Callable[[], "tuple[PreTrainedTokenizerBase, TrainingBackend]"]

LAST_WORDS_S = 5.0  # to tell Redis why this incarnation ends
BY_SIGNAL = "a signal asked for it"


class Session:
    """What rank 0 holds beside the policy. `open` refuses a taken name before anything heavy is loaded."""

    def __init__(self, run: Run, link: RedisLink) -> None:
        self.run = run
        self.link = link
        self.keys = Keys(run.name)
        self.run_owner = RunOwner(link, self.keys)
        self.status = Status(run, link, self.keys, self.run_owner)
        self.checkpoints = Checkpoints(run)
        self.history = History(Ledger())
        self._held = contextlib.ExitStack()  # the folder's lock, and the ranks' wait
        self._journal: Journal | None = None  # of this incarnation, once it has claimed the run

    def open(self) -> None:
        """Take the run's folder and look what is there.

        Where a run that has begun can't go on, the processes that wait for it hear why; a name that is new stays free.

        Raises:
            What `locked`, `check_redis` and `look` of `learner.resume.history` raise, or RunFailed: the configuration
            may not change so.
        """
        try:
            self._held.enter_context(locked(self.run.folder))
            check_redis(self.run, self.link)
            self.history = look(self.run, self.link, self.keys)
            if self.history.has_begun:
                self.status.go_on()
                self._say_changes()
            reset_run_state(self.link, self.keys)
        except BaseException as error:
            if (
                isinstance(error, PipelineError)
                and not isinstance(error, NameTaken)
                and has_begun(self.run.folder)
            ):
                self._refuse(error)
            self._held.close()
            raise

    def train(self, load: Load, stop: threading.Event) -> int:
        """Load, then train until the last step, a signal or an error. Returns the exit code."""
        heartbeat = Heartbeat(self.link, self.keys, "learner", f"{socket.gethostname()}-{os.getpid()}")
        version = self._version()
        trainer: TrainingLoop | None = None
        policy: TrainingBackend | None = None
        try:
            self._check_start(heartbeat)
            heartbeat.set_state("loading the model")
            tokenizer, policy = load()
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
                return self._end_in_replay(metrics, journal, version)
            version = start.version
            trainer = self._assemble(
                policy,
                journal,
                sources,
                start,
                metrics=metrics,
                stop=stop,
                beat=heartbeat,
                keep_alive=keep_alive,
            )
            self._end(trainer, trainer.train())
        except Fenced as error:  # the run is another learner's now, and so is its status
            log.error("run=%s ended reason=%s", self.run.name, error)  # noqa: TRY400
            return 1
        except PipelineError as error:
            version = trainer.version if trainer else version
            if _is_asked_for(error, stop):
                log.info("run=%s ended status=%s reason=%s", self.run.name, STOPPED, error)
                self._publish_status(STOPPED, BY_SIGNAL, version)
                return 0
            log.error("run=%s failed reason=%s", self.run.name, error)  # noqa: TRY400 - the reason says it all
            self._publish_status("failed", str(error), version)
            return 1
        except Exception as error:
            log.exception("run=%s failed", self.run.name)
            self._publish_status(
                "failed", f"{type(error).__name__}: {error}", trainer.version if trainer else version
            )
            return 1
        finally:
            heartbeat.stop()
            if trainer is not None:
                self._close(trainer)
            if policy is not None:
                policy.close()
            self._held.close()
        return 0

    def _refuse(self, error: PipelineError) -> None:
        """Say why the run does not go on, to everybody who can still be told."""
        self.link.wait_at_most(LAST_WORDS_S)
        try:
            refuse_living(self.run, self.link, self.keys)  # whose status it is
            reset_run_state(self.link, self.keys)
        except NameTaken as taken:
            log.warning("status_not_told error=%s", taken)
            return
        except PipelineError as unreached:  # maybe the very reason: status.json is left
            log.warning("status_not_taken_back error=%s", unreached)
        self.status.go_on()
        version = int(read_status(self.run.folder).get("version", 0))  # nothing of the run has changed
        if _is_asked_for(error, self.link.stop):
            self._publish_status(STOPPED, BY_SIGNAL, version)
        else:
            self._publish_status("failed", str(error), version)

    def _version(self) -> int:
        """Return the optimizer steps done before this incarnation, as far as is known without a policy."""
        if not self.history.has_begun:
            return 0
        return self.history.version or int(read_status(self.run.folder).get("version", 0))

    def _say_changes(self) -> None:
        """Log what changed in the configuration since the last incarnation. Raises RunFailed for a forbidden change."""
        if before := self.history.ledger.incarnations[-1].get("config"):
            for change in check_changes(before, self.run):
                if change.startswith("learner.steps:") and self.run.learner.steps_follow_epochs:
                    continue  # known once the data are read
                log.info("config_changed %s", change)

    def _check_start(self, heartbeat: Heartbeat) -> None:
        """Check the checkpoint that a new run begins from, if it names one. Raises what `check_start` raises."""
        if isinstance(self.run.learner.resume, Path) and not self.history.has_begun:
            heartbeat.set_state("checking the checkpoint to begin from")
            check_start(self.run, self.run.learner.resume)

    def _end_in_replay(self, metrics: Metrics, journal: Journal, version: int) -> int:
        """End after a signal that came while the journal's steps were trained again. Returns the exit code."""
        metrics.close()
        journal.close()
        journal.check_fence()
        self.status.end(STOPPED, BY_SIGNAL, version)
        return 0

    def _end(self, trainer: TrainingLoop, how: str) -> None:
        trainer.metrics.close()  # who hears that the run is finished finds every step's object
        trainer.journal.check_fence()  # status.json is written before Redis is asked whose the run is
        reason = {FINISHED: "", DRAINED: "drained: an operator asked for it", STOPPED: BY_SIGNAL}[how]
        self.status.end(
            FINISHED if how == FINISHED else STOPPED,
            reason,
            trainer.version,
            wanted=GO_ON if how == DRAINED else None,
        )
        log.info("run=%s ended status=%s version=%d", self.run.name, how, trainer.version)

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
        """Set the steps of a run that is to last a number of epochs: so many as they make where nothing is dropped."""
        learner = self.run.learner
        if learner.epochs is None or not learner.steps_follow_epochs:
            return
        steps = self._begins_at() + math.ceil(train.draws(learner.epochs) / learner.groups_per_step)
        log.info("epochs=%d rows=%d steps=%d", learner.epochs, len(train), steps)
        self.run = self.run.model_copy(update={"learner": learner.model_copy(update={"steps": steps})})
        self.status.run = self.run

    def _begins_at(self) -> int:
        """Return the policy version that the run began with."""
        if self.history.ledger.steps:
            return int(self.history.ledger.steps[0]["step"])
        start = self.run.learner.resume
        if self.history.has_begun:
            start = self.history.first_incarnation.get("start") or "never"
        return 0 if start in {"auto", "never"} else read_progress(Path(start)).version

    def _begin_incarnation(self, train: PromptSource) -> Journal:
        """Claim the run and open the journal, whose first record says how this incarnation is configured."""
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
        replace_text(run.folder / "config.yaml", to_yaml(run))
        return journal

    def _claim(self, facts: Mapping[str, Any]) -> Journal:
        """Take the run over by a fence that no other incarnation has: Redis may have forgotten the newest fence."""
        fence = self.history.ledger.fence
        while True:
            fence = self.run_owner.claim(fence)
            if self.history.has_begun:  # Redis may have been started anew since, and nobody saw it
                self.run_owner.rewrite_append_only_file()
            try:
                return Journal(
                    self.run.folder / "journal",
                    fence,
                    run=self.run.name,
                    config=self.run.learner.journal,
                    facts=facts,
                )
            except FenceTaken as error:
                log.warning("claimed again run=%s fence=%d reason=%s", self.run.name, fence, error)

    def _start(
        self,
        policy: TrainingBackend,
        journal: Journal,
        train: PromptSource,
        metrics: Metrics,
        stop: threading.Event,
    ) -> Progress | None:
        """Bring the policy to where the ledger ends; None if a signal came first."""
        facts = journal.ledger.incarnations[0]
        newest = self.checkpoints.newest_good(ledger=journal.ledger) if self.history.has_begun else None
        folder = newest or (Path(facts["start"]) if facts["start"] else None)
        is_checked = newest is not None or not self.history.has_begun
        found = None if folder is None else checkpoint.load(policy, folder, is_checked=is_checked)
        version = 0 if found is None else found.version
        if newest is not None:
            log.info("going_on checkpoint=%s steps_in_journal=%d", newest, len(journal.ledger.steps))
        if (
            folder is not None and newest is None
        ):  # a copy of our own: the other run may remove its checkpoint
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
        run = self.run
        version, (train, held_out) = PolicyVersion(start.version), sources
        evaluation = Evaluation(run, self.run_owner, journal, held_out)
        intake = self._intake(journal, evaluation, version, policy.vocabulary)
        feeder = Feeder(
            run,
            self.run_owner,
            train,
            evaluation,
            version,
            first_row=start.first_row,
            known=journal.has,
            mean_bytes=intake.mean_bytes,
        )
        operator = Operator(self.run_owner, journal, feeder, self._tell_wanted)
        publisher = self._publisher(journal, intake, feeder, keep_alive)
        selection = Selection(
            run,
            intake,
            stop,
            wanted=lambda: operator.wanted,
            has_issued_all=lambda: feeder.has_issued_all,
            while_waiting=WhileWaiting(feeder, publisher, operator, keep_alive),
            set_state=beat.set_state,
            meter=beat.meter,
        )
        recovery = Recovery(run, intake, feeder, publish_status=self.status.begin)
        trainer = TrainingLoop(
            run,
            policy,
            journal=journal,
            intake=intake,
            selection=selection,
            feeder=feeder,
            recovery=recovery,
            checkpoints=self.checkpoints,
            metrics=metrics,
            publisher=publisher,
            start=start,
            version=version,
        )
        publisher.start()
        return trainer

    def _publisher(
        self, journal: Journal, intake: Intake, feeder: Feeder, keep_alive: Callable[[], None]
    ) -> Publisher:
        transport = build_transport(
            self.run, self.link, self.keys, fence=lambda: self.run_owner.fence, mean_bytes=intake.mean_bytes
        )
        return Publisher(
            self.run_owner,
            transport,
            check_fence=journal.check_fence,
            announced=Retirement(self.run_owner, journal.ledger, intake.version, wake=feeder.wake),
            keep_alive=keep_alive,
        )

    def _intake(
        self, journal: Journal, evaluation: Evaluation, version: PolicyVersion, vocabulary: int
    ) -> Intake:
        return Intake(
            self.run,
            self.run_owner,
            journal,
            GroupBuffer(journal),
            evaluation,
            version=version,
            vocabulary=vocabulary,
            advise=self._advise,
        )

    def _advise(self, text: str) -> None:
        if self._journal is not None:
            self._journal.check_fence()  # as in `_end`
        self.status.advise(text)

    def _tell_wanted(self, wanted: str) -> None:
        if self._journal is not None:
            self._journal.check_fence()  # as in `_end`
        self.status.tell_wanted(wanted)

    def _pause(self) -> None:
        """Ask this very run for a pause, as an operator does, unless an operator has asked for something already."""
        ask_unless_asked(self.link, self.keys, PAUSE)

    def _publish_status(self, status: str, reason: str, version: int) -> None:
        """Tell everybody how it ended, as far as Redis can be reached; nobody where a newer learner has the run."""
        self.link.wait_at_most(LAST_WORDS_S)
        try:
            if self._journal is not None:
                self._journal.check_fence()  # as in `_end`
            self.status.end(status, reason, version)
        except PipelineError as error:
            log.warning("status_not_told error=%s", error)

    def _close(self, trainer: TrainingLoop) -> None:
        """Close the files, draw the picture and write the report, which are worth having even of a run that failed.

        Nothing here may hide how the run ended: not a disk that is full, nor a picture that can't be drawn.
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


def _is_asked_for(error: PipelineError, stop: threading.Event) -> bool:
    """Return whether `error` is only that Redis was away when the learner was to stop: the journal has it all."""
    return stop.is_set() and isinstance(error, BrokerUnavailable)
