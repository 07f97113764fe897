"""This module reads and makes the ids of groups. An id has one outcome, for ever.

`17` is an ordinal of the run. `17-r1` is group 17 again, issued on an operator's word after that group died.
`eval-40-7` is prompt 7 of the evaluation round of version 40.
"""

from __future__ import annotations

import re

_TRAINING = re.compile(r"([0-9]+)(?:-r([1-9][0-9]*))?")


def is_training(group_id: str) -> bool:
    """Return whether the id is an ordinal, or the retry of one."""
    return _TRAINING.fullmatch(group_id) is not None


def ordinal_of(group_id: str) -> int:
    """Return the place in the run's order of prompts: 17 for `17` and for `17-r1`; -1 for any other id."""
    found = _TRAINING.fullmatch(group_id)
    return int(found[1]) if found else -1


def retry_of(group_id: str) -> int:
    """Return the number of the retry: 0 for `17`, 2 for `17-r2`, -1 for any other id."""
    found = _TRAINING.fullmatch(group_id)
    return int(found[2] or 0) if found else -1


def retried(group_id: str, number: int) -> str:
    """Return the id of a training group's retry `number`: 17-r2 for `17` and for `17-r1`."""
    return f"{ordinal_of(group_id)}-r{number}"


def order_of(group_id: str) -> tuple[int, int]:
    """Return the sort key of an id: the ordinal, then the retry."""
    return ordinal_of(group_id), retry_of(group_id)
