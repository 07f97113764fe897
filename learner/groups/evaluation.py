"""Held-out rounds: asked for at a version, filled as their groups come back, written down when whole.

In: scored groups of the split `eval`. Out: a result a round, which the journal records: that is the groups' outcome.
Training never waits for a round, except for version 0 and the final weights.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.messages import ScoredGroup

_EVALUATION = re.compile(r"eval-([0-9]+)-[0-9]+")


@dataclass(slots=True)
class Round:
    """One round that is out."""

    version: int
    missing: set[str]  # ids that have not come back
    since: float  # monotonic seconds; begins again when it is asked for again
    groups: dict[str, ScoredGroup] = field(default_factory=dict)
    dead: list[str] = field(default_factory=list)
    asked_again: bool = False
    is_given_up: bool = False  # what is missing is not waited for any more
    lost: str = ""  # why nothing of it can be sampled any more; "": it can

    @property
    def ids(self) -> list[str]:
        """Every id of the round."""
        return [*self.groups, *self.dead, *self.missing]

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come."""
        return self.is_given_up or bool(self.lost) or not self.missing

    def begin_again(self) -> None:
        """Nothing of it has come back: its entries are read again, and it has its whole time for that."""
        self.missing = set(self.ids)
        self.groups, self.dead = {}, []
        self.asked_again = self.is_given_up = False
        self.since = time.monotonic()


class Rounds:
    """The rounds that are out, by version."""

    def __init__(self) -> None:
        self.open: dict[int, Round] = {}

    def begin(self, version: int, ids: Sequence[str]) -> None:
        """A round was asked for."""
        if ids and version not in self.open:
            self.open[version] = Round(version, set(ids), time.monotonic())

    def excuse(self, seconds: float) -> None:
        """In the last `seconds` nobody could work: no deadline comes nearer by them."""
        for current in self.open.values():
            current.since = min(current.since + seconds, time.monotonic())

    def lose(self, version: int, ids: Sequence[str], reason: str) -> None:
        """A round was asked for, and can't be sampled by its own weights any more."""
        self.begin(version, ids)
        if version in self.open:
            self.open[version].lost = reason

    def wants(self, version: int) -> bool:
        """Whether somebody waits for groups of this round."""
        return version in self.open and not self.open[version].has_ended

    def add(self, group_id: str, group: ScoredGroup | None) -> bool:
        """A group came back, or died (None). False: it belongs to no open round."""
        version = version_of(group_id)
        current = self.open.get(version)
        if current is None or group_id not in current.missing:
            return False
        current.missing.discard(group_id)
        if group is None:
            current.dead.append(group_id)
        else:
            current.groups[group_id] = group
        return True

    def ended(self) -> list[Round]:
        """Rounds to which nothing more will come."""
        return [current for current in self.open.values() if current.has_ended]

    def close(self, version: int) -> None:
        """The round is written down."""
        self.open.pop(version, None)


def version_of(group_id: str) -> int:
    """The version of an id such as `eval-40-7`; -1 for any other id."""
    found = _EVALUATION.fullmatch(group_id)
    return int(found[1]) if found else -1


def result_of(current: Round) -> dict[str, Any]:
    """What is written down of a round.

    `pass_rate` is the share of samples with the full score, of those that could be scored; None if there were none.
    `reason` is there only where the round was lost.
    """
    values = [score.value for group in current.groups.values() for score in group.scores]
    scored = [value for value in values if value is not None]
    versions = [
        version
        for group in current.groups.values()
        for version in (group.rollout.min_version, group.rollout.max_version)
    ]
    return {
        "ids": sorted(current.ids),
        "prompts": len(current.groups),
        "samples": len(values),
        "unscorable": len(values) - len(scored),
        "dead": len(current.dead),
        "missing": len(current.missing),
        "pass_rate": sum(value >= 1.0 for value in scored) / len(scored) if scored else None,
        "mean_score": sum(scored) / len(scored) if scored else None,
        "min_version": min(versions, default=current.version),
        "max_version": max(versions, default=current.version),
        **({"reason": current.lost} if current.lost else {}),
    }
