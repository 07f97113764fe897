"""Admit the results of a run without training: every group counts, whatever its scores.

In: what intake has read. Out: groups in the buffer, to be recorded. A group that died after its sampling is among them,
its completions without scores: another scorer may score them later. A group without samples ends as it does in
training. Used by `learner.collect.session`.
"""

from __future__ import annotations

from msgspec.structs import replace

from broker import codec
from broker.messages import SampledGroup, Score, ScoredGroup, ScoreStatus
from broker.protocol.streams import Entry
from learner.groups.discarded import message_in

NO_SCORER = "none"  # the scorer's name in a missing score


class EveryGroup:
    """Admit every group: an `Admission`."""

    def kept_share(self) -> float:
        """Return 1: none is dropped."""
        return 1.0

    def why_dropped(self, _group: ScoredGroup) -> str:
        """Return "": none is dropped."""
        return ""

    def held_of_dead(self, entry: Entry, /) -> ScoredGroup | None:
        """Return a group that died after its sampling, without scores; None where it has no samples."""
        message = message_in(entry.raw)
        if isinstance(message, SampledGroup):
            return unscored(message, codec.decode_dead(entry.raw).reason)
        return None

    def note(self, group: ScoredGroup, why_dropped: str) -> None:
        """Count nothing: no step has metrics."""


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
