"""Own a run for the life of one process: take the run, and record a reason however the process ends.

In: a resolved run. Out: an exit code, `status.json`, and the run's status in Redis, which tells the other roles to end.
Used by rank 0 of a learner (`learner.session`) and by the collector in its place (`learner.collect.session`). The
folder's lock, the fence and the heartbeat ensure that a run has one such process at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from broker.connection import RedisLink
from broker.errors import BrokerUnavailable, Fenced, PipelineError
from broker.joining import announce_coming, reset_run_state
from broker.keys import Keys
from broker.monitoring.heartbeat import Heartbeat
from broker.protocol.run_owner import RunOwner
from broker.protocol.run_state import GO_ON
from config.run import Run
from learner.journal.ledger import Ledger
from learner.journal.writer import FenceTaken, Journal
from learner.resume.config_changes import check_changes
from learner.resume.history import TRAINS, History, NameTaken, has_begun, locked, look, refuse_living
from learner.status import Status, check_redis, read_status

log = logging.getLogger(__name__)

LAST_WORDS_S = 5.0  # to write to Redis why this incarnation ends
BY_SIGNAL = "a signal asked for it"
FINISHED, DRAINED, STOPPED = "finished", "drained", "stopped"


class Incarnation:
    """The owner of a run, while its process lives. `open` refuses a taken name before anything else is read.

    Attributes:
        purpose: of the run, one of `learner.resume.history`.
        version: optimizer steps done before this incarnation, if known.
    """

    purpose = TRAINS

    def __init__(self, run: Run, link: RedisLink) -> None:
        self.run = run
        self.link = link
        self.keys = Keys(run.name)
        self.run_owner = RunOwner(link, self.keys)
        self.status = Status(run, link, self.keys, self.run_owner)
        self.history = History(Ledger())
        self.version = 0
        self._held = contextlib.ExitStack()  # the folder's lock, and the ranks' wait
        self._journal: Journal | None = None  # of this incarnation, once it has claimed the run

    def open(self) -> None:
        """Take the run's folder and read its state.

        Where a begun run can't continue, waiting processes get the reason; a new name stays free.

        Raises:
            Errors of `locked`, `check_redis` and `look` of `learner.resume.history`, or RunFailed: the configuration
            may not change like this.
        """
        try:
            self._held.enter_context(locked(self.run.folder))
            check_redis(self.run, self.link)
            self.history = look(self.run, self.link, self.keys, purpose=self.purpose)
            if self.history.has_begun:
                self.status.go_on()
                self._say_changes()
            reset_run_state(self.link, self.keys)
            announce_coming(self.link, self.keys, self.run)
        except BaseException as error:
            if (
                isinstance(error, PipelineError)
                and not isinstance(error, NameTaken)
                and has_begun(self.run.folder)
            ):
                self._refuse(error)
            self._held.close()
            raise

    def _carry_out(
        self, work: Callable[[Heartbeat], None], stop: threading.Event, *, end: Callable[[], None]
    ) -> int:
        """Do the process's work, and publish how it ended unless `work` does. Returns the exit code.

        Args:
            work: receives the heartbeat, for its state.
            stop: set by a signal.
            end: frees the resources of `work`, however it ended.
        """
        heartbeat = Heartbeat(self.link, self.keys, "learner", f"{socket.gethostname()}-{os.getpid()}")
        try:
            work(heartbeat)
        except Fenced as error:  # another learner owns the run and its status now
            log.error("run=%s ended reason=%s", self.run.name, error)  # noqa: TRY400
            return 1
        except PipelineError as error:
            if _is_asked_for(error, stop):
                log.info("run=%s ended status=%s reason=%s", self.run.name, STOPPED, error)
                self._publish_status(STOPPED, BY_SIGNAL, self._reached())
                return 0
            log.error("run=%s failed reason=%s", self.run.name, error)  # noqa: TRY400 - the reason says it all
            self._publish_status("failed", str(error), self._reached())
            return 1
        except Exception as error:
            log.exception("run=%s failed", self.run.name)
            self._publish_status("failed", f"{type(error).__name__}: {error}", self._reached())
            return 1
        finally:
            heartbeat.stop()
            end()
            self._held.close()
        return 0

    def _end(self, how: str) -> None:
        """Publish that the run is finished, drained or stopped."""
        if self._journal is not None:
            self._journal.check_fence()  # status.json is written before Redis is asked who owns the run
        reason = {FINISHED: "", DRAINED: "drained: an operator asked for it", STOPPED: BY_SIGNAL}[how]
        self.status.end(
            FINISHED if how == FINISHED else STOPPED,
            reason,
            self._reached(),
            wanted=GO_ON if how == DRAINED else None,
        )
        log.info("run=%s ended status=%s version=%d", self.run.name, how, self._reached())

    def _reached(self) -> int:
        """Return the optimizer steps done so far."""
        return self.version

    def _refuse(self, error: PipelineError) -> None:
        """Report why the run does not continue, to everybody reachable."""
        self.link.wait_at_most(LAST_WORDS_S)
        try:
            refuse_living(self.run, self.link, self.keys)  # which owns the status
            reset_run_state(self.link, self.keys)
        except NameTaken as taken:
            log.warning("status_not_told error=%s", taken)
            return
        except PipelineError as unreached:  # possibly the very reason: status.json remains
            log.warning("status_not_taken_back error=%s", unreached)
        self.status.go_on()
        version = int(read_status(self.run.folder).get("version", 0))  # nothing of the run has changed
        if _is_asked_for(error, self.link.stop):
            self._publish_status(STOPPED, BY_SIGNAL, version)
        else:
            self._publish_status("failed", str(error), version)

    def _known_version(self) -> int:
        """Return the optimizer steps done before this incarnation, as far as known without a policy."""
        if not self.history.has_begun:
            return 0
        return self.history.version or int(read_status(self.run.folder).get("version", 0))

    def _say_changes(self) -> None:
        """Log the changes of the configuration since the last incarnation. Raises RunFailed for a forbidden one."""
        if before := self.history.ledger.incarnations[-1].get("config"):
            for change in self._changes(before):
                log.info("config_changed %s", change)

    def _changes(self, before: str) -> list[str]:
        """Return a line for each change since the configuration `before`. Raises RunFailed for a forbidden change."""
        return [
            change
            for change in check_changes(before, self.run)
            if not (
                change.startswith("learner.steps:") and self.run.learner.steps_follow_epochs
            )  # data decide
        ]

    def _claim(self, facts: Mapping[str, Any]) -> Journal:
        """Claim the run with a fence that no other incarnation has: Redis may have lost the newest fence."""
        fence = self.history.ledger.fence
        while True:
            fence = self.run_owner.claim(fence)
            if self.history.has_begun:  # Redis may have been restarted since, unnoticed
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

    def _advise(self, text: str) -> None:
        if self._journal is not None:
            self._journal.check_fence()  # as in `_end`
        self.status.advise(text)

    def _tell_wanted(self, wanted: str) -> None:
        if self._journal is not None:
            self._journal.check_fence()  # as in `_end`
        self.status.tell_wanted(wanted)

    def _publish_status(self, status: str, reason: str, version: int) -> None:
        """Publish how it ended, if Redis can be reached; not where a newer learner owns the run."""
        self.link.wait_at_most(LAST_WORDS_S)
        try:
            if self._journal is not None:
                self._journal.check_fence()  # as in `_end`
            self.status.end(status, reason, version)
        except PipelineError as error:
            log.warning("status_not_told error=%s", error)


def _is_asked_for(error: PipelineError, stop: threading.Event) -> bool:
    """Return whether `error` is only that Redis was away when asked to stop: the journal has everything."""
    return stop.is_set() and isinstance(error, BrokerUnavailable)
