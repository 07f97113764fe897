"""Read the seed that a row itself sets for its environment.

In: a row's `verification_info`. Out: its `seed`, which replaces the group's seed when `reset` is called. The row is
then the same problem in every epoch and in every evaluation. Used by the learner, which refuses invalid values, and by
agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.errors import BadMessage
from tasks.values import shown

SEED: Final = "seed"
BELOW: Final = 1 << 32  # the range of numpy's generators


def seed_of(info: Mapping[str, Any]) -> int | None:
    """Return a row's own seed; None if it has none. Raises BadMessage."""
    seed = info.get(SEED)
    if seed is None:
        return None
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < BELOW:
        raise BadMessage(f"the seed of a row is a whole number from 0 to 2^32 - 1, got {shown(seed)}")
    return seed
