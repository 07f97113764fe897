"""Estimate the share of returned groups that can train, and so how many to issue for one that does.

In: each scored group, kept or dropped. Out: a share above 0. Filled by `learner.groups.intake`, read by the feeder's
thread.
"""

from __future__ import annotations

from collections import deque

RECENT = 128  # groups


class KeptShare:
    """Count which of the newest groups could train."""

    def __init__(self) -> None:
        self._kept: deque[bool] = deque(maxlen=RECENT)

    def note(self, *, kept: bool) -> None:
        """Note a group that returned with scores.

        Args:
            kept: whether it can train; False: it was dropped.
        """
        self._kept.append(kept)

    def __call__(self) -> float:
        """Return the share, in (0, 1]: 1 before the first group; as if one was kept, where all were dropped."""
        kept = list(self._kept)
        return max(1, sum(kept)) / len(kept) if kept else 1.0
