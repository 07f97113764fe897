"""The seed that a row itself gives its environment.

In: a row's `verification_info`. Out: its `seed`, which stands in place of the group's where `reset` is called: the row
is one problem then, in every epoch and in every round. Read by the learner, which refuses another value, and by agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.errors import BadMessage
from tasks.values import shown

SEED: Final = "seed"
BELOW: Final = 1 << 32  # what numpy's generators take


def seed_of(info: Mapping[str, Any]) -> int | None:
    """Return a row's own seed; None where it has none. Raises BadMessage."""
    seed = info.get(SEED)
    if seed is None:
        return None
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < BELOW:
        raise BadMessage(f"the seed of a row is a whole number from 0 to 2^32 - 1, got {shown(seed)}")
    return seed
