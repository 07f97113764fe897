"""Choose what a step trains on: the oldest groups first, and only if the rest can still keep their lag.

In: what intake holds. Out: exactly `groups_per_step` groups a step. Runs in rank 0's own thread; while it waits it says
for whom, and looks every second whether the run is still its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from broker.errors import RunFailed
from broker.group_ids import order_of
from broker.keys import PROMPTS, ROLLOUTS
from broker.messages import ScoredGroup
from broker.monitoring.work_meter import WorkMeter
from broker.protocol.run_state import DRAIN, PAUSE
from config.run import Run
from learner.groups.evaluation import Round
from learner.groups.intake import Intake

log = logging.getLogger(__name__)

CHECK_EVERY_S = 1.0
ALIVE_EVERY_S = 10.0
SAY_EVERY_S = 10.0


class Collector:
    """Takes groups for a step, and commits them after it.

    Args:
        tend: called about every second while waiting; raises what ends the run (a failed feeder, a lost fence).
        say: told what it waits for, for the heartbeat.
        meter: told when it waits, and for what kind of thing.
    """

    def __init__(
        self,
        run: Run,
        intake: Intake,
        stop: threading.Event,
        *,
        tend: Callable[[], None],
        say: Callable[[str], None],
        meter: WorkMeter | None = None,
    ) -> None:
        self.run = run
        self.intake = intake
        self.meter = meter or WorkMeter()
        self.late_wait_s = 0.0  # time spent with enough groups that may not be taken yet
        self.late = 0  # groups trained beyond max_lag, as learner.late_groups=train allows
        self.breaches = 0  # and without its leave: must stay 0
        self.wanted = ""  # what the operator asked for: broker.protocol.run_state
        self._stop = stop
        self._tend = tend
        self._say = say
        self._checked = 0.0
        self._looked = 0.0
        self._asked = -ALIVE_EVERY_S
        self._nobody = ""  # who is not there, though work waits for him
        self._look_every_s = min(5.0, max(0.5, run.learner.group_deadline_s / 20))

    @property
    def is_stopped(self) -> bool:
        """Whether a signal asked for the end."""
        return self._stop.is_set()

    def has_drained(self) -> bool:
        """Whether a drain has come to its end: an operator wants it, nothing is out, and no signal came first."""
        return not self.is_stopped and self._is_the_rest(())

    def hear(self) -> None:
        """What an operator asked for while no learner ran: before anything is let in."""
        self._tend()

    def take(self, version: int) -> list[ScoredGroup] | None:
        """`groups_per_step` groups that policy version `version` may train on.

        While the run is drained the last ones, however few. None once stop was asked for, or nothing is left of a run
        that is drained.
        """
        since = said = time.monotonic()
        while self.intake.read(block_s=0):  # all that has come: what has no variance gives its slot back now
            pass
        self.look_after()
        while not self._stop.is_set():
            self.intake.drop_late()
            chosen = self._oldest()
            enough = len(chosen) == self.run.learner.groups_per_step or self._is_the_rest(chosen)
            if self.wanted != PAUSE and enough and (not chosen or self._rest_can_make_it(version, chosen)):
                self._say(f"training step {version + 1}")
                self.meter.hold(1.0)
                return self._checked_lag(version, chosen) or None
            started = time.monotonic()
            self.meter.hold(
                0.0,
                "operator" if self.wanted == PAUSE else "late" if enough else "groups",
                kept=len(self.intake.held),
            )
            self.intake.read(block_s=0.5)
            if enough and self.wanted != PAUSE:
                self.late_wait_s += time.monotonic() - started
            self.look_after()
            waited = time.monotonic() - since
            what = self._waiting_for(waited, enough=enough)
            self._say(what)
            if time.monotonic() - said > SAY_EVERY_S:
                log.info("waiting %s", what)
                said = time.monotonic()
        return None

    def _is_the_rest(self, chosen: Sequence[ScoredGroup]) -> bool:
        """Whether the run is drained, and nothing is out but what is chosen."""
        if self.wanted != DRAIN:
            return False
        return self.intake.run_owner.slot_count() == len(chosen)

    def commit(self, groups: Sequence[ScoredGroup]) -> None:
        """Free the slots of groups whose step stands in the journal and whose weights are announced."""
        ids = [group.group_id for group in groups]
        for group_id in ids:
            self.intake.held.pop(group_id, None)
        self.intake.run_owner.retire(ids)

    def wait_for_round(self, version: int, ask: Callable[[int], None]) -> None:
        """Read until the evaluation round of `version` is whole, or given up at its deadline, or stop is asked for."""
        since = said = time.monotonic()
        while not self._stop.is_set():
            current = self.intake.rounds.open.get(version)
            if current is None or current.has_ended:
                break
            self.meter.hold(0.0, "operator" if self.wanted == PAUSE else "round", kept=len(self.intake.held))
            self.intake.read(block_s=0.2)
            self.look_after()
            if (
                self.overdue(current) and self.wanted != PAUSE
            ):  # who paused may have stopped the generators, too
                if current.asked_again:
                    current.is_given_up = True
                else:
                    self.ask_again(current, ask)
            what = (
                f"{time.monotonic() - since:.0f} s: evaluation of version {version}, {len(current.missing)} groups "
                f"missing{self._who_is_missing()}"
            )
            if self.wanted == PAUSE:
                what += f"; training is paused by the operator: millrace resume {self.run.name}"
            self._say(what)
            if time.monotonic() - said > SAY_EVERY_S:
                log.info("waiting %s", what)
                said = time.monotonic()
        self.meter.hold(1.0)

    def ask_again(self, current: Round, ask: Callable[[int], None]) -> None:
        """What is missing of a round, and in no stream any more, is issued again; its deadline begins anew."""
        log.warning(
            "evaluation_late version=%d missing=%d deadline_s=%.0f",
            current.version,
            len(current.missing),
            self.run.evaluation.deadline_s,
        )
        current.asked_again = True
        current.since = time.monotonic()
        ask(current.version)

    def overdue(self, current: Round) -> bool:
        """Whether a round is past its deadline."""
        return time.monotonic() - current.since > self.run.evaluation.deadline_s

    def look_after(self) -> None:
        """What has to be looked at now and then while waiting."""
        now = time.monotonic()
        if now - self._checked > CHECK_EVERY_S:
            self._checked = now
            self.intake.run_owner.check()
            self._tend()
        if now - self._looked > self._look_every_s:
            self._looked = now
            self.intake.look_around(is_paused=self.wanted == PAUSE)

    def _oldest(self) -> list[ScoredGroup]:
        """Up to a step's groups with the oldest floors; the ledger is asked again."""
        held = self.intake.held
        for group_id in [group_id for group_id in held if self.intake.journal.has(group_id)]:
            del held[group_id]
        ready = sorted(
            held.values(), key=lambda group: (group.rollout.prompt.floor, *order_of(group.group_id))
        )
        return ready[: self.run.learner.groups_per_step]

    def _rest_can_make_it(self, version: int, chosen: Sequence[ScoredGroup]) -> bool:
        if self.run.learner.late_groups != "wait":
            return True
        return rest_can_make_it(
            version,
            list(self.intake.run_owner.slots().values()),
            [group.rollout.prompt.floor for group in chosen],
            groups_per_step=self.run.learner.groups_per_step,
            max_lag=self.run.learner.max_lag,
        )

    def _checked_lag(self, version: int, chosen: list[ScoredGroup]) -> list[ScoredGroup]:
        for group in chosen:
            lag = version - group.rollout.min_version
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
        if self.wanted == PAUSE:
            return f"{waited:.0f} s: the operator, who paused the run: millrace resume {self.run.name}"
        survey, size = self.intake.survey, self.run.learner.groups_per_step
        places = ", ".join(f"{count} in {stream}" for stream, count in survey.places.items() if count)
        reason = " (older groups must come first, for max_lag)" if enough else ""
        return (
            f"{waited:.0f} s: {min(len(self.intake.held), size)} of {size} groups{reason}; "
            f"out: {places or 'none'}; oldest {survey.oldest_s:.0f} s{self._memory()}{self._who_is_missing()}"
        )

    def _memory(self) -> str:
        """What waits because Redis is full."""
        missing, stuck = self.intake.time.missing_mib, self.intake.survey.places.get(ROLLOUTS, 0)
        return (
            f"; redis is full: {stuck} groups in rollouts wait for {missing} MiB of memory" if missing else ""
        )

    def _who_is_missing(self) -> str:
        """Which role has work and nobody to do it, and how one is started."""
        if time.monotonic() - self._asked >= ALIVE_EVERY_S:
            self._asked = time.monotonic()
            run_owner = self.intake.run_owner
            depths = run_owner.depths()
            self._nobody = "".join(
                f"; no {role} is alive: python -m {role}s --run {self.run.name}"
                for stream, role in ((PROMPTS, "generator"), (ROLLOUTS, "scorer"))
                if depths[stream] and not run_owner.processes(role)
            )
        return self._nobody


def rest_can_make_it(
    version: int, slots: Sequence[int], chosen: Sequence[int], *, groups_per_step: int, max_lag: int
) -> bool:
    """Whether every group that a step at `version` leaves behind can still be trained within its lag.

    A floor f is a deadline, version f + max_lag, and a step has room for `groups_per_step`: up to each deadline, no
    more may be due than the steps until then can take.

    Args:
        slots: floors of all groups in flight, the chosen ones among them.
        chosen: floors of the groups that the step would take.
    """
    return all(
        sum(floor <= oldest for floor in slots) - sum(floor <= oldest for floor in chosen)
        <= (oldest + max_lag - version) * groups_per_step
        for oldest in range(version - max_lag, version + 1)
    )
