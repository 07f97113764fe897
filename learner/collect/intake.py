"""Read what comes back of a run that trains on nothing: every group counts, whatever its scores are.

In: entries of `scored` and `dead`. Out: groups in the buffer, to be written down. A group that died behind its sampling
is among them, its completions without a score: they may be scored later, by another scorer. A group of which nothing
was sampled ends as it does in training. Used by `learner.collect.loop`.
"""

from __future__ import annotations

from msgspec.structs import replace

from broker import codec
from broker.messages import SampledGroup, Score, ScoredGroup, ScoreStatus
from broker.protocol.streams import Entry
from learner.groups.discarded import given_up, message_in
from learner.groups.intake import Intake
from learner.journal.ledger import Outcome

NO_SCORER = "none"  # the scorer's name in a score that nobody gave


class CollectingIntake(Intake):
    """An `Intake` that drops nothing."""

    def _take(self, group: ScoredGroup, ends: dict[str, Outcome]) -> None:
        del ends
        self._dead_in_a_row = 0
        if group.group_id not in self.buffer:  # look_around was faster than read
            self.buffer.add(group)

    def _give_up(self, entry: Entry, ends: dict[str, Outcome]) -> None:
        message = message_in(entry.raw)
        if isinstance(message, SampledGroup):
            self.buffer.add(unscored(message, codec.decode_dead(entry.raw).reason))
        else:
            ends[entry.group_id] = given_up(entry)


def unscored(group: SampledGroup, reason: str) -> ScoredGroup:
    """Return a group none of whose completions has a score, for `reason`."""
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
    """Return why a collected group ended in `dead`; None: its scorer has handed it over."""
    first = group.scores[0]
    return first.reason if first.scorer == NO_SCORER else None
