"""Put together the parts of one learner: those of a run that trains, of one that only collects, and of tests.

In: a claimed run, its prompts, what admits returned groups, and the weights to publish. Out: `Parts`, of which nothing
runs yet: the caller starts the publisher and the feeder, and stops them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from broker.protocol.run_owner import RunOwner
from config.run import Run
from learner.data.held_out import HeldOut
from learner.groups.arrival_statistics import ArrivalCounter
from learner.groups.buffer import GroupBuffer
from learner.groups.evaluation import Evaluation
from learner.groups.feeder import Feeder, Prompts
from learner.groups.intake import Admission, FirstLookAt, Intake
from learner.groups.outcomes import Outcomes
from learner.groups.reconciliation import Reconciliation
from learner.groups.retirement import Retirement
from learner.groups.returned import Returned
from learner.groups.selection import Beat, Selection
from learner.groups.while_waiting import Operator, WhileWaiting
from learner.groups.working_time import WorkingTime
from learner.journal.writer import Journal
from learner.policy_version import PolicyVersion
from learner.resume.recovery import Recovery
from learner.weight_sync.build import build_transport
from learner.weight_sync.publisher import Publisher
from learner.weight_sync.transport import WeightSource, WeightTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What a process has claimed and works for.

    Attributes:
        version: the learner's policy version.
        stop: set by a signal.
        beat: hears what the learner waits for.
        clock: seconds, monotonic.
    """

    run: Run
    run_owner: RunOwner
    journal: Journal
    version: PolicyVersion
    stop: threading.Event
    beat: Beat
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Who hears of the run's state, for `status.json` and Redis.

    Attributes:
        publish_status: receives the version, and writes the status and the configuration to Redis.
        tell_lost: receives the seconds in which no process could work.
        tell_wanted: receives an operator's request when it changes.
        keep_alive: called about once a second while rank 0 waits.
    """

    publish_status: Callable[[int], None]
    tell_lost: Callable[[float], None] = lambda _: None
    tell_wanted: Callable[[str], None] = lambda _: None
    keep_alive: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of one learner, in the order of a group's way."""

    claimed: Claimed
    feeder: Feeder
    intake: Intake
    reconciliation: Reconciliation
    selection: Selection
    publisher: Publisher
    recovery: Recovery


def assemble(
    claimed: Claimed,
    prompts: Prompts,
    intake: Intake,
    weights: WeightSource,
    listeners: Listeners,
    *,
    first_row: int = 0,
    away_s: float = 0.0,
    transport: WeightTransport | None = None,
) -> Parts:
    """Put the parts together around an `intake`.

    Args:
        prompts: to issue, from row `first_row`.
        weights: of the learner, for the generators.
        away_s: seconds that the run had no learner before this one.
        transport: of the weights; None: the run's own.
    """
    run_owner, version = claimed.run_owner, claimed.version
    working_time = WorkingTime(run_owner, claimed.clock, away_s=away_s)
    reconciliation = Reconciliation(intake, working_time, tell_lost=listeners.tell_lost)
    feeder = Feeder(
        claimed.run,
        run_owner,
        prompts,
        intake.evaluation,
        version,
        first_row=first_row,
        known=claimed.journal.has,
        mean_bytes=intake.returned.mean_bytes,
        kept_share=intake.admission.kept_share,
        held=lambda: len(intake.buffer),
        clock=claimed.clock,
    )
    publisher = _publisher(claimed, intake, feeder, listeners, transport)
    operator = Operator(run_owner, claimed.journal, feeder, listeners.tell_wanted)
    duties = WhileWaiting(feeder, publisher, operator, listeners.keep_alive)
    selection = Selection(intake, reconciliation, duties, claimed.stop, claimed.beat, clock=claimed.clock)
    publish_status = listeners.publish_status
    recovery = Recovery(
        intake, reconciliation, feeder, publisher, weights, version=version, publish_status=publish_status
    )
    return Parts(
        claimed=claimed,
        feeder=feeder,
        intake=intake,
        reconciliation=reconciliation,
        selection=selection,
        publisher=publisher,
        recovery=recovery,
    )


def make_intake(
    claimed: Claimed,
    held_out: HeldOut | None,
    admission: Admission,
    arrivals: ArrivalCounter,
    *,
    vocabulary: float = math.inf,
    first_look: FirstLookAt = lambda _: {},
) -> Intake:
    """Put together what takes in the groups that return.

    Args:
        held_out: for evaluation rounds; None for none.
        admission: decides which returned groups are held.
        arrivals: counts the ends of groups.
        vocabulary: number of the policy's tokens.
        first_look: see `Intake`.
    """
    run, run_owner, journal = claimed.run, claimed.run_owner, claimed.journal
    buffer = GroupBuffer(journal)
    return Intake(
        Evaluation(run, run_owner, journal, held_out),
        Outcomes(run, run_owner, journal, buffer, version=claimed.version, arrivals=arrivals),
        admission,
        Returned(run),
        version=claimed.version,
        vocabulary=vocabulary,
        first_look=first_look,
    )


def _publisher(
    claimed: Claimed, intake: Intake, feeder: Feeder, listeners: Listeners, transport: WeightTransport | None
) -> Publisher:
    run_owner, journal = claimed.run_owner, claimed.journal
    return Publisher(
        run_owner,
        transport
        or build_transport(
            claimed.run,
            run_owner.link,
            run_owner.keys,
            fence=lambda: run_owner.fence,
            mean_bytes=intake.returned.mean_bytes,
        ),
        check_fence=journal.check_fence,
        announced=Retirement(run_owner, journal.ledger, claimed.version, wake=feeder.wake),
        keep_alive=listeners.keep_alive,
    )
