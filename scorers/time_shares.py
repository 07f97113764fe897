"""The completions of a group share the time that its scoring has, so that slow answers can't outlast the group.

In: distinct texts or episodes, their scorer, and the seconds that all their runs together may take. Out: a score each.
Called by `scorers.group` where a scorer's answers run (`scorers.scorer.Timed`). Only what answers take by themselves
counts: what the machinery loses makes no answer's share smaller.

Where all could use up their deadlines within that time, nothing changes. Else a quarter of it is shared equally among
all texts, and what is left then among those alone that were cut off; so what quick answers leave is the slow ones'.
This is repeated as long as it gives them more than before. So every text has two runs, the second with three quarters
of an equal share or more, and no other text can take that from it. What is cut off in both has used up its time by
itself, and keeps the 0 that its scorer gives it. Under patience, where other groups may be waiting, half of the time is
shared, and the first cut raises `TakesLong`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from broker.scores import Score
from scorers.retries import was_given_up
from scorers.scorer import Asked, OwnTime, Patient, Prefetching, Scorer, TakesLong, Timed

FIRST: Final = 0.25  # of the time, in which all are tried
PATIENT: Final = 0.5  # of it, where the first cut puts the group off
LEAST_S: Final = (
    2.0  # of a share, even where that is more than the group has: less says as much of the machine
)
USED_UP: Final = 0.95  # of a share: clocks differ a little

ScoreThem = Callable[[Sequence[Asked]], dict[Asked, Score]]


def score_in_shares(
    scorer: Scorer, texts: Sequence[Asked], score: ScoreThem, *, deadline_s: float
) -> dict[Asked, Score]:
    """Score texts within the time of their group.

    Args:
        scorer: whose answers may be `Timed`.
        texts: distinct ones.
        score: has `scorer` score some of them, with retries.
        deadline_s: seconds that all their runs together may take.
    Returns:
        The score of each text.
    Raises:
        TakesLong: a text was cut off while the scorer is to be patient.
    """
    if isinstance(
        scorer, Prefetching
    ):  # they are scored together, and each is cut off once and again by its scorer
        if isinstance(scorer, Timed) and texts:
            scorer.own_time.share_s = deadline_s / len(texts)
        return score(texts)
    is_patient = isinstance(scorer, Patient) and scorer.patience_s is not None
    enough_s = PATIENT * deadline_s if is_patient else deadline_s
    if not isinstance(scorer, Timed) or len(texts) * scorer.own_time.deadline_s <= enough_s:
        return {text: found for text in texts for found in score([text]).values()}
    return _Shares(scorer.own_time, score, deadline_s).scored(texts, is_patient=is_patient)


class _Shares:
    """The time of one group, as it is used up."""

    def __init__(self, own_time: OwnTime, score: ScoreThem, deadline_s: float) -> None:
        self._own_time = own_time
        self._score = score
        self._deadline_s = deadline_s
        self._left_s = deadline_s
        self._scores: dict[Asked, Score] = {}

    def scored(self, texts: Sequence[Asked], *, is_patient: bool) -> dict[Asked, Score]:
        """Return the score of each text. Raises TakesLong."""
        share_s = max(LEAST_S, (PATIENT if is_patient else FIRST) * self._deadline_s / len(texts))
        cut: dict[Asked, float] = {}  # the texts that were cut off, and the largest share that each had
        for text in texts:
            if self._is_cut(text, share_s):
                cut[text] = share_s
                if is_patient:
                    raise TakesLong(f"an answer took longer than {share_s:.3g} s")
        is_tried_again = False
        while cut and (not is_tried_again or self._left_s / len(cut) > max(cut.values())):
            again, cut, is_tried_again = list(cut), {}, True
            for place, text in enumerate(again):
                share_s = max(LEAST_S, self._left_s / (len(again) - place))
                if self._is_cut(text, share_s):
                    cut[text] = share_s
        for text in cut:
            score = self._scores[text]
            reason = f"{score.reason}; twice its share of the group's {self._deadline_s:.3g} s"
            self._scores[text] = replace(score, reason=reason)
        return self._scores

    def _is_cut(self, text: Asked, share_s: float) -> bool:
        """Score a text within a share, and return whether it is without its full score for want of a larger one."""
        self._own_time.share_s, self._own_time.ran_s = share_s, 0.0
        try:
            score = self._scores[text] = self._score([text])[text]
        finally:
            self._own_time.share_s = math.inf
        if was_given_up(score.components):
            return False
        self._left_s -= self._own_time.ran_s
        is_short = share_s < self._own_time.deadline_s
        return is_short and score.value not in (None, 1.0) and self._own_time.ran_s >= USED_UP * share_s
