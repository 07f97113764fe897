"""Read the results of a run without training: every group counts, whatever its scores.

In: entries of `scored` and `dead`. Out: groups in the buffer, to be recorded. A group that died after its sampling is
among them, its completions without scores: another scorer may score them later. A group without samples ends as it does
in training. Used by `learner.collect.loop`.
"""

from __future__ import annotations

from msgspec.structs import replace

from broker import codec
from broker.messages import SampledGroup, Score, ScoredGroup, ScoreStatus
from broker.protocol.streams import Entry
from learner.groups.discarded import given_up, message_in
from learner.groups.intake import Intake
from learner.journal.ledger import GroupOutcome

NO_SCORER = "none"  # the scorer's name in a missing score


class CollectingIntake(Intake):
    """An `Intake` that drops no group."""

    def _take(self, group: ScoredGroup, ends: dict[str, GroupOutcome]) -> None:
        del ends
        self._dead_in_a_row = 0
        if group.group_id not in self.buffer:  # reconcile was faster than read
            self.buffer.add(group)

    def _give_up(self, entry: Entry, ends: dict[str, GroupOutcome]) -> None:
        message = message_in(entry.raw)
        if isinstance(message, SampledGroup):
            self.buffer.add(unscored(message, codec.decode_dead(entry.raw).reason))
        else:
            ends[entry.group_id] = given_up(entry)


def unscored(group: SampledGroup, reason: str) -> ScoredGroup:
    """Return a group whose completions have no scores, for `reason`."""
    score = Score(status=ScoreStatus.UNSCORABLE, value=None, reason=reason, scorer=NO_SCORER, version="")
    count = len(group.completions)
    return ScoredGroup(
        rollout=replace(group, completions=group.completions),
        scores=(score,) * count,
        rewards=(None,) * count,
        worker="",
        seconds=0.0,
    )


def why_dead(group: ScoredGroup) -> str | None:
    """Return why a collected group ended in `dead`; None: it was scored."""
    first = group.scores[0]
    return first.reason if first.scorer == NO_SCORER else None
