"""Select the groups of a step: the oldest first, and only if the rest can still keep their lag.

In: the groups that intake holds. Out: exactly `groups_per_step` groups per step. Runs in rank 0's own thread; while it
waits it reports for whom, and checks every second that this learner still owns the run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from broker.errors import RunFailed
from broker.keys import EPISODES, PROMPTS, ROLLOUTS
from broker.messages import ScoredGroup
from broker.monitoring.work_meter import WorkMeter
from broker.protocol.run_state import DRAIN, PAUSE
from learner.groups.intake import Intake
from learner.groups.lag import lag_of
from learner.groups.reconciliation import Reconciliation

log = logging.getLogger(__name__)

BLOCK_S = 0.5  # of a read while too few groups have come
ROUND_BLOCK_S = 0.2  # while a round is awaited
CHECK_EVERY_S = 1.0
ALIVE_EVERY_S = 10.0
SAY_EVERY_S = 10.0


class Beat(Protocol):
    """Tells others what the learner does: `broker.monitoring.heartbeat.Heartbeat`."""

    meter: WorkMeter

    def set_state(self, state: str) -> None:
        """Set what the learner does or waits for, with for whom."""
        ...


class Duties(Protocol):
    """What a wait has to look after, about every second: `learner.groups.while_waiting.WhileWaiting`."""

    @property
    def wanted(self) -> str:
        """The operator's request: DRAIN, PAUSE or GO_ON of `broker.protocol.run_state`."""
        ...

    @property
    def has_issued_all(self) -> bool:
        """Whether no group is left to issue: the epochs are over."""
        ...

    def __call__(self) -> None:
        """Do what is due. Raises what ends the run: a failed feeder, a lost fence."""
        ...


class Selection:
    """Take groups for a step.

    Args:
        duties: done while it waits.
        stop: set by a signal.
        beat: hears what the learner waits for, and measures the waits by what is waited for.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        intake: Intake,
        reconciliation: Reconciliation,
        duties: Duties,
        stop: threading.Event,
        beat: Beat,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run = intake.run
        self.intake = intake
        self.buffer = intake.buffer
        self.outcomes = intake.outcomes
        self.evaluation = intake.evaluation
        self.meter = beat.meter
        self.late_wait_s = 0.0  # time with enough groups of which some may not be taken yet
        self.late = 0  # groups trained beyond max_lag, as learner.late_groups=train allows
        self.breaches = 0  # and trained beyond it without permission: must stay 0
        self._reconciliation = reconciliation
        self._duties = duties
        self._stop = stop
        self._set_state = beat.set_state
        self._clock = clock
        self._checked = 0.0
        self._looked = 0.0
        self._asked = -ALIVE_EVERY_S
        self._nobody = ""  # the role without a process, though work waits for it
        self._look_every_s = min(5.0, max(0.5, self.run.deadlines[0] / 20))

    @property
    def is_stopped(self) -> bool:
        """Return whether a signal requested the end."""
        return self._stop.is_set()

    def has_run_dry(self) -> bool:
        """Return whether nothing is in flight or left to issue: an operator drained the run, or its epochs are over.

        False after a signal, which ends the run first.
        """
        return not self.is_stopped and self._is_the_rest(())

    def has_drained(self) -> bool:
        """Return whether the run has run dry at an operator's request."""
        return self._duties.wanted == DRAIN and self.has_run_dry()

    @property
    def is_paused(self) -> bool:
        """Return whether the operator has paused the run."""
        return self._duties.wanted == PAUSE

    def poll_operator(self) -> None:
        """Obey requests that an operator made while no learner ran; called before any group is issued."""
        self._duties()

    def take(self, version: int) -> list[ScoredGroup] | None:
        """Return `groups_per_step` groups that policy version `version` may train on.

        At the end of a drained run or of its epochs, the last groups are returned, even if fewer. The result is None
        once stop was requested, or once nothing is left of such a run.
        """
        since = said = self._clock()
        while self.intake.read(block_s=0):  # all that has come: groups without variance free their slots now
            pass
        self.poll()
        while not self._stop.is_set():
            self._drop_late(version)
            chosen = self._oldest()
            enough = len(chosen) == self.run.learner.groups_per_step or self._is_the_rest(chosen)
            if not self.is_paused and enough and (not chosen or self._rest_can_make_it(version, chosen)):
                self._set_state(f"training step {version + 1}")
                self.meter.hold(1.0)
                return self._checked_lag(version, chosen) or None
            started = self._clock()
            self.meter.hold(
                0.0, "operator" if self.is_paused else "late" if enough else "groups", kept=len(self.buffer)
            )
            self.intake.read(block_s=BLOCK_S)
            if enough and not self.is_paused:
                self.late_wait_s += self._clock() - started
            self.poll()
            waited = self._clock() - since
            what = self._waiting_for(waited, enough=enough)
            self._set_state(what)
            if self._clock() - said > SAY_EVERY_S:
                log.info("waiting %s", what)
                said = self._clock()
        return None

    def _is_the_rest(self, chosen: Sequence[ScoredGroup]) -> bool:
        """Return whether no more groups will be issued and only the chosen ones are in flight."""
        if self._duties.wanted != DRAIN and not self._duties.has_issued_all:
            return False
        return len(self.outcomes.open_floors()) == len(chosen)

    def wait_for_round(self, version: int) -> None:
        """Read until the evaluation round of `version` is complete, past its deadline, or stop is requested."""
        since = said = self._clock()
        while not self._stop.is_set():
            current = self.evaluation.rounds.open.get(version)
            if current is None or current.has_ended:
                break
            self.meter.hold(0.0, "operator" if self.is_paused else "round", kept=len(self.buffer))
            self.intake.read(block_s=ROUND_BLOCK_S)
            self.poll()
            if not self.is_paused:  # an operator who paused the run may have stopped the generators, too
                self.evaluation.enforce_deadline(current)
            what = (
                f"{self._clock() - since:.0f} s: evaluation of version {version}, {len(current.missing)} groups "
                f"missing{self.who_is_missing()}"
            )
            if self.is_paused:
                what += f"; training is paused by the operator: millrace resume {self.run.name}"
            self._set_state(what)
            if self._clock() - said > SAY_EVERY_S:
                log.info("waiting %s", what)
                said = self._clock()
        self.meter.hold(1.0)

    def poll(self) -> None:
        """Do the periodic work of a wait: check the fence, poll the operator, reconcile with Redis."""
        now = self._clock()
        if now - self._checked > CHECK_EVERY_S:
            self._checked = now
            self.intake.run_owner.check()
            self._duties()
        if now - self._looked > self._look_every_s:
            self._looked = now
            self._reconciliation.look(is_paused=self.is_paused)

    def _drop_late(self, version: int) -> None:
        """Drop what is too old: where `late_groups` says so, or because it was issued while its step got its groups."""
        self.outcomes.drop_late()
        self.outcomes.drop_expired(version)

    def _oldest(self) -> list[ScoredGroup]:
        """Return up to a step's groups with the oldest floors."""
        return self.buffer.oldest(self.run.learner.groups_per_step)

    def _rest_can_make_it(self, version: int, chosen: Sequence[ScoredGroup]) -> bool:
        """Return whether the groups that the step leaves behind can train in time, but for its surplus."""
        learner = self.run.learner
        if learner.late_groups != "wait" or (learner.max_lag and version + 1 == learner.steps):
            return True  # the last step makes no group late: what it leaves behind is over
        floors = self.outcomes.open_floors()
        surplus = self.outcomes.surplus(floors, version)
        floors = {group_id: floor for group_id, floor in floors.items() if group_id not in surplus}
        taken = [floors[group.group_id] for group in chosen if group.group_id in floors]
        return self.outcomes.lag.rest_can_make_it(version, floors.values(), taken)

    def _checked_lag(self, version: int, chosen: list[ScoredGroup]) -> list[ScoredGroup]:
        for group in chosen:
            lag = lag_of(group, version)
            if lag > self.run.learner.max_lag and self.run.learner.late_groups == "train":
                self.late += 1
            elif not 0 <= lag <= self.run.learner.max_lag:
                self.breaches += 1
                log.error(
                    "lag_breach group=%s lag=%d max_lag=%d floor=%d",
                    group.group_id,
                    lag,
                    self.run.learner.max_lag,
                    group.rollout.prompt.floor,
                )
        if len({group.group_id for group in chosen}) != len(chosen):
            raise RunFailed("a batch holds one group twice: this is a bug, please report it")
        return chosen

    def _waiting_for(self, waited: float, *, enough: bool) -> str:
        if self.is_paused:
            return f"{waited:.0f} s: the operator, who paused the run: millrace resume {self.run.name}"
        reconciled, size = self._reconciliation.latest, self.run.learner.groups_per_step
        places = ", ".join(f"{count} in {stream}" for stream, count in reconciled.places.items() if count)
        reason = " (older groups must come first, for max_lag)" if enough else ""
        return (
            f"{waited:.0f} s: {min(len(self.buffer), size)} of {size} groups{reason}; "
            f"out: {places or 'none'}; oldest {reconciled.oldest_s:.0f} s{self.memory_note()}{self.who_is_missing()}"
        )

    def memory_note(self) -> str:
        """Say what waits because Redis is full; "" for nothing."""
        found = self._reconciliation
        missing, stuck = found.time.missing_mib, found.latest.places.get(ROLLOUTS, 0)
        return (
            f"; redis is full: {stuck} groups in rollouts wait for {missing} MiB of memory" if missing else ""
        )

    def who_is_missing(self) -> str:
        """Name the role that has work and no process, and how to start one."""
        if self._clock() - self._asked >= ALIVE_EVERY_S:
            self._asked = self._clock()
            run_owner = self.intake.run_owner
            depths = run_owner.depths()
            self._nobody = "".join(
                f"; no {role} is alive: python -m {role}s --run {self.run.name}"
                for stream, role in ((PROMPTS, "generator"), (EPISODES, "agent"), (ROLLOUTS, "scorer"))
                if depths[stream] and not run_owner.processes(role)
            )
        return self._nobody
