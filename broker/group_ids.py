"""Read and make the ids of groups. An id has exactly one outcome.

`17` is an ordinal of the run. `17-r1` is group 17 again: at an operator's request after that group died, or for the
further steps of a run that had ended without it.
`eval-40-7` is prompt 7 of the evaluation round of version 40.
"""

from __future__ import annotations

import re

_TRAINING = re.compile(r"([0-9]+)(?:-r([1-9][0-9]*))?")


def is_training(group_id: str) -> bool:
    """Return whether the id is that of a training group or of its retry."""
    return _TRAINING.fullmatch(group_id) is not None


def ordinal_of(group_id: str) -> int:
    """Return the position in the run's order of prompts: 17 for `17` and for `17-r1`; -1 for any other id."""
    found = _TRAINING.fullmatch(group_id)
    return int(found[1]) if found else -1


def retry_of(group_id: str) -> int:
    """Return the number of the retry: 0 for `17`, 2 for `17-r2`, -1 for any other id."""
    found = _TRAINING.fullmatch(group_id)
    return int(found[2] or 0) if found else -1


def retried(group_id: str, number: int) -> str:
    """Return the id of a training group's retry `number`: 17-r2 for `17` and for `17-r1`; 17 for number 0."""
    return f"{ordinal_of(group_id)}-r{number}" if number else str(ordinal_of(group_id))


def order_of(group_id: str) -> tuple[int, int]:
    """Return the sort key of an id: ordinal, then retry."""
    return ordinal_of(group_id), retry_of(group_id)
