"""Buffer the scored groups that wait for a step: intake fills it, and selection reads it.

In: scored groups that can train. Out: the oldest of them. Runs in rank 0's own thread, and holds only groups that Redis
also holds: after a crash they are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from broker.group_ids import order_of
from broker.messages import ScoredGroup
from config.learner import LearnerConfig
from learner.groups.lag import why_late
from learner.journal.writer import Journal


class GroupBuffer:
    """Scored groups by id.

    Args:
        journal: knows the groups with an outcome, which are never returned.
    Attributes:
        groups: the waiting groups, by id, in order of arrival.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._groups: dict[str, ScoredGroup] = {}
        self.groups: Mapping[str, ScoredGroup] = MappingProxyType(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, group_id: object) -> bool:
        return group_id in self._groups

    def add(self, groups: Iterable[ScoredGroup]) -> None:
        """Add groups, and let the journal encode them while they wait."""
        for group in groups:
            self._groups[group.group_id] = group
            self._journal.prepare(group)

    def discard(self, group_ids: Iterable[str]) -> None:
        """Remove groups. Unknown ids are ignored."""
        for group_id in group_ids:
            self._groups.pop(group_id, None)

    def clear(self) -> None:
        """Remove every group: Redis went back, so the buffer may hold groups that Redis does not."""
        self._groups.clear()

    def oldest(self, count: int) -> list[ScoredGroup]:
        """Return up to `count` groups without an outcome, lowest floor first. Each call asks the journal again."""
        self.discard([group_id for group_id in self._groups if self._journal.has(group_id)])
        ready = sorted(
            self._groups.values(), key=lambda group: (group.rollout.prompt.floor, *order_of(group.group_id))
        )
        return ready[:count]

    def take_late(self, learner: LearnerConfig, version: int) -> list[tuple[ScoredGroup, str]]:
        """Remove and return the groups too old for policy version `version`, each with the reason to drop it."""
        late = [
            (group, reason)
            for group in self._groups.values()
            if not self._journal.has(group.group_id) and (reason := why_late(group, learner, version))
        ]
        self.discard(group.group_id for group, _ in late)
        return late
