"""Warn about a reward that can't tell answers apart: many groups in a row without variance.

In: each scored training group, as it comes. Out: warnings for the operator, after 20, 40, 80 … groups, with the mean
reward and one answer, and their end once a group's rewards differ again. Near the maximum reward groups are equal
because they are right, which needs no warning. Used by `learner.groups.intake`; the tools recognize the warning by
WARNING.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.messages import ScoredGroup

log = logging.getLogger(__name__)

IN_A_ROW: Final = 20  # groups
TOP: Final = 0.9  # mean reward of a row from which equal groups count as right
WARNING: Final = "every reward of a group is the same"
ANSWER_CHARS, REASON_CHARS = 110, 110  # of the sample


class SameRewardWatch:
    """Count consecutive groups without variance.

    Args:
        advise: receives the warning, and "" at its end.
    """

    def __init__(self, advise: Callable[[str], None]) -> None:
        self._advise = advise
        self._means: deque[float] = deque(maxlen=IN_A_ROW)  # of the newest groups in the row
        self._count = 0
        self._next = IN_A_ROW  # groups in a row at which to warn
        self._is_said = False  # whether a warning is active

    def take(self, group: ScoredGroup, *, has_variance: bool) -> None:
        """Count a scored group. A single completion, or no scored one, is ignored."""
        scored = [reward for reward in group.rewards if reward is not None]
        if has_variance:
            self._end()
        elif len(scored) > 1:
            self._count += 1
            self._means.append(math.fsum(scored) / len(scored))
            if self._count == self._next:
                self._next *= 2
                if math.fsum(self._means) / len(self._means) < TOP:
                    self._warn(group)
                else:
                    self._take_back()

    def _warn(self, group: ScoredGroup) -> None:
        index = next(index for index, reward in enumerate(group.rewards) if reward is not None)
        answer, score = group.rollout.completions[index].text, group.scores[index]
        text = (
            f"{WARNING}, for {self._count} groups in a row, so nothing is learnt: mean reward "
            f"{math.fsum(self._means) / len(self._means):.3g}. One answer: {answer[-ANSWER_CHARS:]!r}, reward "
            f"{group.rewards[index]:g}, because: {score.reason[:REASON_CHARS]!r}"
        )
        log.warning("same_reward groups=%d group=%s: %s", self._count, group.group_id, text)
        self._is_said = True
        self._advise(text)

    def _end(self) -> None:
        self._take_back()
        self._next, self._count = IN_A_ROW, 0
        self._means.clear()

    def _take_back(self) -> None:
        if self._is_said:
            log.info("same_reward ended groups=%d", self._count)
            self._advise("")
            self._is_said = False
