"""The share of groups that came back lately and can train: how many have to be issued for one that does.

In: each scored group, kept or dropped. Out: a share above 0. Filled by `learner.groups.intake`, read by the feeder's
thread.
"""

from __future__ import annotations

from collections import deque

RECENT = 128  # groups


class KeptShare:
    """Remembers what became of the newest groups."""

    def __init__(self) -> None:
        self._kept: deque[bool] = deque(maxlen=RECENT)

    def note(self, *, kept: bool) -> None:
        """Take a group that came back with scores.

        Args:
            kept: it can train; False: it was dropped.
        """
        self._kept.append(kept)

    def __call__(self) -> float:
        """Return the share, above 0 and at most 1. Where nothing came yet it is 1; where all were dropped, one kept."""
        kept = list(self._kept)
        return max(1, sum(kept)) / len(kept) if kept else 1.0
