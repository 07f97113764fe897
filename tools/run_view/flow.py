"""Compute the flow of a run: what changed between two snapshots.

In: two `Snapshot`s some seconds apart. Out: a `Flow`: each role's share of time at work, what it waited for otherwise,
its groups per second, and how trained groups spent their time. Every process's sums use its own clock
(`broker.monitoring.work_meter`), so that snapshots and machines may be late. Reads nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.monitoring.snapshot import Process, Snapshot
from broker.monitoring.work_meter import WAITS
from config.run import Run
from tools.run_view.bottleneck import Budget, ProcessStage

GENERATORS, AGENTS, SCORERS, LEARNER = "generators", "agents", "scorers", "learner"
# Role -> stage, in a group's order.
STAGES = {"generator": GENERATORS, "agent": AGENTS, "scorer": SCORERS, "learner": LEARNER}
AGES = ("prompts", "sampling", "rollouts", "scoring", "scored")  # the parts of a group's time, in order
FEW = 3  # with fewer steps between two snapshots, a learner's rate comes from its mean step

Sums = Mapping[str, float]  # the sums of a `WorkMeter`, or their change


@dataclass(frozen=True, slots=True, kw_only=True)
class Works:
    """All processes of one stage: their share of time at work, and their output."""

    stage: str  # GENERATORS | AGENTS | SCORERS | LEARNER
    queues: tuple[str, ...] = ()  # the queues that these scorers serve, where others serve different ones
    workers: int  # processes; for the learner its ranks
    utilisation: float  # share of time at work, the mean over processes
    in_hand: float  # groups being worked on, on average; groups of episodes count for the agents alone
    kept: float = 0.0  # groups that the learner holds until others arrive, on average
    groups_a_second: float
    seconds_each: float  # seconds of a process per group, of the learner per step; 0 before the first
    tokens_a_second: float = 0.0
    turns_a_second: float = 0.0  # of episodes: sampled by generators, or received by agents
    # Shares of time, by what the processes waited for.
    waits: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the stage, with its queues where other scorers serve different ones."""
        return f"{self.stage} of {','.join(self.queues)}" if self.queues else self.stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The activity of a run between two snapshots."""

    seconds: float
    works: tuple[Works, ...]
    ages: Mapping[str, float]  # mean seconds of a trained group, by AGES; empty before the first
    shares: Mapping[str, float]  # each process's share of time at work, by ROLE:ID

    def of(self, stage: str) -> Works | None:
        """Return the first entry of a stage; None where none of its processes has begun."""
        return next((works for works in self.works if works.stage == stage), None)


@dataclass(frozen=True, slots=True)
class _Member:
    """A process, and its change between two snapshots."""

    process: Process
    change: Sums

    @property
    def share(self) -> float:
        """The share of time at work. A process without a newer heartbeat is assumed unchanged."""
        if self.change["up_s"] <= 0:
            return 0.0 if self.process.sums.get("idle_s") else 1.0
        return min(1.0, self.change.get("busy_s", 0.0) / self.change["up_s"])

    def per_second(self, unit: str) -> float:
        return self.change.get(unit, 0.0) / self.change["up_s"] if self.change["up_s"] > 0 else 0.0


def flow(before: Snapshot, now: Snapshot) -> Flow:
    """Return the flow between two snapshots."""
    known = {(process.role, process.id): process.sums for process in before.processes}
    members = [
        _Member(process, _change(known.get((process.role, process.id), {}), process.sums))
        for process in now.processes
        if process.role in STAGES and process.sums
    ]
    works = [
        _works(stage, pool, now, queues)
        for role, stage in STAGES.items()
        for queues, pool in _pools([member for member in members if member.process.role == role])
    ]
    return Flow(
        seconds=max(0.0, now.at - before.at),
        works=tuple(works),
        ages=_ages([member for member in members if member.process.role == "learner"]),
        shares={f"{member.process.role}:{member.process.id}": member.share for member in members},
    )


def stages_of(found: Flow) -> list[ProcessStage]:
    """Return the stages for `find_bottleneck`."""
    return [
        ProcessStage(
            name=works.name,
            workers=works.workers,
            utilisation=works.utilisation,
            in_hand=works.in_hand,
            is_shared=works.stage == LEARNER,
        )
        for works in found.works
    ]


def budget_of(found: Flow, now: Snapshot) -> Budget | None:
    """Return the slots for `find_bottleneck`; None where they are unknown or the last steps need no more."""
    if now.run is None or not 0 < now.bound == now.run.budget:
        return None
    raised = now.run.model_copy(
        update={
            "learner": now.run.learner.model_copy(
                update={key.removeprefix("learner."): value for key, value in next_budget(now.run).items()}
            )
        }
    )
    return Budget(bound=now.bound, raised=raised.budget, kept=sum(works.kept for works in found.works))


def next_budget(run: Run) -> dict[str, int]:
    """Return settings with room for one more step's groups: the limits of the budget, in the order to raise them."""
    learner = run.learner
    most = (learner.max_lag + 1) * learner.groups_per_step
    more = {"learner.max_lag": learner.max_lag + 1} if run.budget == most else {}
    if learner.groups_in_flight is not None and learner.groups_in_flight <= most:
        more["learner.groups_in_flight"] = (
            run.budget + learner.groups_per_step if more else min(most, run.budget + learner.groups_per_step)
        )
    return more


def _pools(members: Sequence[_Member]) -> list[tuple[tuple[str, ...], list[_Member]]]:
    """Group processes by the queues they serve; without names where all serve the same."""
    kinds = sorted({member.process.queues for member in members})
    return [
        (queues if len(kinds) > 1 else (), [member for member in members if member.process.queues == queues])
        for queues in kinds
    ]


def _change(before: Sums, now: Sums) -> Sums:
    """Return the growth of sums; the whole sums where a process restarted under the same name."""
    is_same = now["up_s"] >= before.get("up_s", 0.0)
    return {name: value - (before.get(name, 0.0) if is_same else 0.0) for name, value in now.items()}


def _works(stage: str, pool: Sequence[_Member], now: Snapshot, queues: tuple[str, ...]) -> Works:
    workers, places = len(pool), 1.0
    if stage in {GENERATORS, AGENTS}:
        places = _places(stage, pool, now)
    share = sum(member.share for member in pool) / workers
    rate = sum(member.per_second("groups") for member in pool)
    in_hand = share * workers * places * (_groups_share(pool, now) if stage == GENERATORS else 1.0)
    if stage == LEARNER and now.run is not None:
        workers, in_hand = now.run.learner.ranks, share * now.run.learner.groups_per_step
        if sum(member.change.get("steps", 0.0) for member in pool) < FEW:  # one more or less would matter
            rate = share / each if (each := _each(pool, "groups")) else rate
    waits = {
        what: waited
        for what in WAITS
        if (waited := sum(member.per_second(f"wait_{what}_s") for member in pool) / len(pool)) > 0
    }
    return Works(
        stage=stage,
        queues=queues,
        workers=workers,
        utilisation=share,
        in_hand=in_hand,
        groups_a_second=rate,
        kept=sum(member.per_second("kept_s") for member in pool),
        seconds_each=places * _each(pool, "steps" if stage == LEARNER else "groups"),
        tokens_a_second=sum(member.per_second("tokens") for member in pool),
        turns_a_second=sum(member.per_second("turns") for member in pool),
        waits=waits,
    )


def _places(stage: str, pool: Sequence[_Member], now: Snapshot) -> float:
    """Return the most groups that a process holds, the mean over processes; 1 where unknown."""
    rooms = [member.process.room for member in pool if member.process.room]
    if stage == AGENTS:  # their room is in episodes
        return sum(rooms) / len(rooms) / _group_size(now) if rooms else 1.0
    if rooms:
        return sum(rooms) / len(rooms)
    return float((now.run and now.run.generators.groups_in_flight) or 1)


def _group_size(now: Snapshot) -> int:
    return now.run.sampling.group_size if now.run else 1


def _groups_share(pool: Sequence[_Member], now: Snapshot) -> float:
    """Return the share of the generators' work that was whole groups, by count; the rest was turns of episodes."""
    groups, turns = (sum(member.change.get(unit, 0.0) for member in pool) for unit in ("groups", "turns"))
    return groups / (groups + turns / _group_size(now)) if turns else 1.0


def _each(pool: Sequence[_Member], unit: str) -> float:
    """Return the seconds of work per `unit`: between the snapshots, or since the processes began if none was done."""
    for sums in ([member.change for member in pool], [member.process.sums for member in pool]):
        if (number := sum(found.get(unit, 0.0) for found in sums)) > 0:
            return sum(found.get("busy_s", 0.0) for found in sums) / number
    return 0.0


def _ages(learners: Sequence[_Member]) -> dict[str, float]:
    """Return how trained groups spent their time: between the snapshots, or since the learner began."""
    for sums in ([member.change for member in learners], [member.process.sums for member in learners]):
        if (groups := sum(found.get("groups", 0.0) for found in sums)) > 0:
            return {name: sum(found.get(f"age_{name}_s", 0.0) for found in sums) / groups for name in AGES}
    return {}
