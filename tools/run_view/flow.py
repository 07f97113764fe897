"""How a run flows: what changed between two looks at it.

In: two `Snapshot`s some seconds apart. Out: a `Flow`. It says how much of the time each role worked, what it waited for
with the rest, and how many groups a second came out of it. It also says where the time of trained groups went. Every
process's sums are of its own clock (`broker.monitoring.work_meter`), so that looks and machines may be late. The module
reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.monitoring.snapshot import Process, Snapshot
from broker.monitoring.work_meter import WAITS
from config.run import Run
from tools.run_view.bottleneck import Budget, Stage

GENERATORS, AGENTS, SCORERS, LEARNER = "generators", "agents", "scorers", "learner"
# Role -> stage, in a group's order.
STAGES = {"generator": GENERATORS, "agent": AGENTS, "scorer": SCORERS, "learner": LEARNER}
AGES = ("prompts", "sampling", "rollouts", "scoring", "scored")  # where a group's time goes, in order
FEW = 3  # with fewer steps between two looks, a learner's rate comes from its mean step

Sums = Mapping[str, float]  # the sums of a `WorkMeter`, or their change


@dataclass(frozen=True, slots=True, kw_only=True)
class Works:
    """The processes of one stage, together: how much of their time they work, and what comes out of them."""

    stage: str  # GENERATORS | AGENTS | SCORERS | LEARNER
    queues: tuple[str, ...] = ()  # the queues that these scorers serve, where other scorers serve others
    workers: int  # processes; of the learner its ranks
    utilisation: float  # share of their time, the mean over them
    in_hand: (
        float  # groups that the processes work on, on average; what is played is in the agents' hands alone
    )
    kept: float = 0.0  # groups that the learner keeps until others are there too, on average
    groups_a_second: float
    seconds_each: float  # seconds of a process for a group, of the learner for a step; 0 before the first
    tokens_a_second: float = 0.0
    turns_a_second: float = 0.0  # of episodes: those that generators sampled, and those that agents got
    # Shares of their time, by what the processes waited for.
    waits: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the stage, with the queues where other scorers serve others."""
        return f"{self.stage} of {','.join(self.queues)}" if self.queues else self.stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What a run did between two looks."""

    seconds: float
    works: tuple[Works, ...]
    ages: Mapping[str, float]  # mean seconds of a trained group, by AGES; empty before the first one
    shares: Mapping[str, float]  # the share of its time that each process worked, by ROLE:ID

    def of(self, stage: str) -> Works | None:
        """Returns the first entry of a stage; None where no process of that stage has begun."""
        return next((works for works in self.works if works.stage == stage), None)


@dataclass(frozen=True, slots=True)
class _Member:
    """A process, and what it did between two looks."""

    process: Process
    change: Sums

    @property
    def share(self) -> float:
        """The share of its time that the process worked. A process not heard of since is taken to do as before."""
        if self.change["up_s"] <= 0:
            return 0.0 if self.process.sums.get("idle_s") else 1.0
        return min(1.0, self.change.get("busy_s", 0.0) / self.change["up_s"])

    def per_second(self, unit: str) -> float:
        return self.change.get(unit, 0.0) / self.change["up_s"] if self.change["up_s"] > 0 else 0.0


def flow(before: Snapshot, now: Snapshot) -> Flow:
    """Returns what happened between two looks."""
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


def stages_of(found: Flow) -> list[Stage]:
    """Returns the stages as `find_bottleneck` takes them."""
    return [
        Stage(
            name=works.name,
            workers=works.workers,
            utilisation=works.utilisation,
            in_hand=works.in_hand,
            is_shared=works.stage == LEARNER,
        )
        for works in found.works
    ]


def budget_of(found: Flow, now: Snapshot) -> Budget | None:
    """Returns the slots as `find_bottleneck` takes them; None where they are unknown or the last steps need no more."""
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
    """Returns settings that give room for one more step's groups: what bounds the budget, in the order to turn it."""
    learner = run.learner
    most = (learner.max_lag + 1) * learner.groups_per_step
    more = {"learner.max_lag": learner.max_lag + 1} if run.budget == most else {}
    if learner.groups_in_flight is not None and learner.groups_in_flight <= most:
        more["learner.groups_in_flight"] = (
            run.budget + learner.groups_per_step if more else min(most, run.budget + learner.groups_per_step)
        )
    return more


def _pools(members: Sequence[_Member]) -> list[tuple[tuple[str, ...], list[_Member]]]:
    """Sorts processes by the queues that they serve; the queues have no name where all processes serve the same."""
    kinds = sorted({member.process.queues for member in members})
    return [
        (queues if len(kinds) > 1 else (), [member for member in members if member.process.queues == queues])
        for queues in kinds
    ]


def _change(before: Sums, now: Sums) -> Sums:
    """Returns what sums have gained; all of the sums where a process began anew under the same name."""
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
        if sum(member.change.get("steps", 0.0) for member in pool) < FEW:  # one more or less would be much
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
    """Returns the groups that a process holds at most, the mean over them; 1 where nobody has said a number yet."""
    rooms = [member.process.room for member in pool if member.process.room]
    if stage == AGENTS:  # their room is of episodes
        return sum(rooms) / len(rooms) / _group_size(now) if rooms else 1.0
    if rooms:
        return sum(rooms) / len(rooms)
    return float((now.run and now.run.generators.groups_in_flight) or 1)


def _group_size(now: Snapshot) -> int:
    return now.run.sampling.group_size if now.run else 1


def _groups_share(pool: Sequence[_Member], now: Snapshot) -> float:
    """Returns the share of the generators' work that was whole groups, by count; the rest was turns of episodes."""
    groups, turns = (sum(member.change.get(unit, 0.0) for member in pool) for unit in ("groups", "turns"))
    return groups / (groups + turns / _group_size(now)) if turns else 1.0


def _each(pool: Sequence[_Member], unit: str) -> float:
    """Returns seconds of work for one `unit`: between the looks, or since the processes began where none was done."""
    for sums in ([member.change for member in pool], [member.process.sums for member in pool]):
        if (number := sum(found.get(unit, 0.0) for found in sums)) > 0:
            return sum(found.get("busy_s", 0.0) for found in sums) / number
    return 0.0


def _ages(learners: Sequence[_Member]) -> dict[str, float]:
    """Returns where the time of trained groups went: between the looks, or since the learner began."""
    for sums in ([member.change for member in learners], [member.process.sums for member in learners]):
        if (groups := sum(found.get("groups", 0.0) for found in sums)) > 0:
            return {name: sum(found.get(f"age_{name}_s", 0.0) for found in sums) / groups for name in AGES}
    return {}
