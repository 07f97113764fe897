"""Bound the lag of what trains: the rule, and everything that follows from it. Pure.

A group's floor f is the oldest version that may sample it, so f is a deadline: the step from version v trains it with
a lag of at most v - f, and the last step that may is the one from version f + max_lag. A step takes S groups, so the
steps from version v on have room for

    room(f, v) = max(0, f + max_lag - v + 1) * S

groups of floor f or older. A step goes only if every group that it leaves has room in the steps behind it. What has no
room trains never: it is surplus, where more groups were issued than the budget of (max_lag + 1) * S, since many have no
variance; otherwise the configuration has changed.

Used by the feeder, intake, selection and the recovery.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker.group_ids import order_of
from broker.messages import ScoredGroup
from config.learner import LearnerConfig
from config.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRule:
    """The rule for one run.

    Args:
        groups_per_step: that a step takes, S.
        max_lag: between the step's version and the oldest version that sampled a group.
    """

    groups_per_step: int
    max_lag: int

    @classmethod
    def of(cls, run: Run) -> LagRule:
        """Return the rule of a run."""
        return cls(groups_per_step=run.learner.groups_per_step, max_lag=run.learner.max_lag)

    def oldest(self, version: int) -> int:
        """Return the oldest floor that the step from `version` may train."""
        return version - self.max_lag

    def room(self, floor: int, version: int) -> int:
        """Return how many groups of `floor` or older the steps from `version` on can train in time."""
        return max(0, floor + self.max_lag - version + 1) * self.groups_per_step

    def surplus(self, floors: Mapping[str, int], version: int) -> set[str]:
        """Return the groups without room in the steps from `version` on.

        Of each floor the last issued, whichever arrive first: a slow group is as likely to train as a fast one.

        Args:
            floors: of the groups without an outcome, by id.
        """
        ordered = sorted(floors.items(), key=lambda item: (item[1], *order_of(item[0])))
        has_room = self._has_room([floor for _, floor in ordered], version)
        return {group_id for (group_id, _), fits in zip(ordered, has_room, strict=True) if not fits}

    def too_many(self, floors: Iterable[int], version: int) -> int:
        """Return how many of the groups with these floors have no room in the steps from `version` on."""
        return self._has_room(sorted(floors), version).count(False)

    def rest_can_make_it(self, version: int, floors: Iterable[int], chosen: Iterable[int]) -> bool:
        """Return whether every group that a step at `version` leaves behind can still train in time.

        Args:
            floors: of all groups without an outcome, including the chosen ones.
            chosen: floors of the groups that the step would take.
        """
        rest = Counter(floors) - Counter(chosen)
        return self.too_many(rest.elements(), version + 1) == 0

    def _has_room(self, floors: Sequence[int], version: int) -> list[bool]:
        """Return of each floor, ascending, whether its group has room beside those before it."""
        fitting, has_room = 0, []
        for floor in floors:
            has_room.append(fitting < self.room(floor, version))
            fitting += has_room[-1]
        return has_room


def lag_of(group: ScoredGroup, version: int) -> int:
    """Return the lag with which a step from `version` would train a group."""
    return version - group.rollout.min_version


def why_late(group: ScoredGroup, learner: LearnerConfig, version: int) -> str | None:
    """Return why a group is too old for policy `version`, where `late_groups` says to drop it; None if it is not."""
    lag = lag_of(group, version)
    if learner.late_groups != "drop" or lag <= learner.max_lag:
        return None
    return (
        f"late: sampled by version {group.rollout.min_version}, {lag} before {version}; learner.max_lag="
        f"{learner.max_lag}"
    )


def likely_needed(run: Run, *, taken: int, announced: int, held: int, kept_share: float) -> int:
    """Return how many groups may be in flight: the budget, or as many as are likely to be needed.

    A share of returned groups is dropped, so with an exact count a step's last groups would be found one by one:
    towards the end, and where the budget has little room beside what is held. What is over is dropped once a step has
    its groups.

    Args:
        taken: steps that have their groups.
        announced: newest announced version; the groups of the steps between keep their slots.
        held: groups that wait for a step.
        kept_share: of recently returned groups, those that can train; in (0, 1].
    """
    learner = run.learner
    size, taken = learner.groups_per_step, max(taken, announced)
    trained = (taken - announced) * size
    budget = min(run.budget, trained + math.ceil((learner.steps - taken) * size / kept_share))
    if taken >= learner.steps or announced < LagRule.of(run).oldest(taken):
        return budget  # a group issued now would be too old for the next step
    held = min(held, size)
    return max(budget, min(run.most_in_flight, trained + held + math.ceil((size - held) / kept_share)))
