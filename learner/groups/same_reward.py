"""The watch on a reward that tells no answer from another: so many groups in a row whose rewards are all the same.

In: each scored training group, as it comes. Out: warnings for the operator, after 20, 40, 80 … groups, with the mean
reward and one answer, and their end once a group's rewards differ again. Near the top of the reward groups
are alike since they are right, which is no trouble and no warning. Used by `learner.groups.intake`; the tools know the
warning by WARNING.
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
TOP: Final = 0.9  # mean reward of a row, from which on its groups are alike since they are right
WARNING: Final = "every reward of a group is the same"
ANSWER_CHARS, REASON_CHARS = 110, 110  # of the sample


class SameRewardWatch:
    """Counts groups without variance in a row.

    Args:
        advise: told the warning, and "" at its end.
    """

    def __init__(self, advise: Callable[[str], None]) -> None:
        self._advise = advise
        self._means: deque[float] = deque(maxlen=IN_A_ROW)  # of the newest groups in the row
        self._count = 0
        self._next = IN_A_ROW  # groups in a row at which to warn
        self._is_said = False  # whether a warning stands

    def take(self, group: ScoredGroup, *, has_variance: bool) -> None:
        """Take a scored group into account. A single completion, or none with a score, says nothing."""
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
