"""Tell which groups in flight no step can train in time: a step's surplus.

In: the floors of all groups without an outcome. Out: the ids beyond what the steps have room for; none unless the
feeder has issued more than the budget, because a share of the groups has no variance. Used by
`learner.groups.selection`, which waits for no surplus, and by `learner.groups.intake`, which drops it once a step has
its groups.

Of groups with the same floor the last issued are the surplus, whichever arrive first: a slow group is as likely to
train as a fast one.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.group_ids import order_of


def surplus_of(floors: Mapping[str, int], version: int, *, groups_per_step: int, max_lag: int) -> set[str]:
    """Return the groups that the steps from `version` on have no room for.

    A floor f is a deadline, version f + max_lag: so many groups of that floor or an older one have room as the steps
    until then take.

    Args:
        floors: of the groups without an outcome, by id.
        version: of the next step.
    """
    surplus, fitting = set(), 0
    for group_id, floor in sorted(floors.items(), key=lambda item: (item[1], *order_of(item[0]))):
        if fitting < (floor + max_lag - version + 1) * groups_per_step:
            fitting += 1
        else:
            surplus.add(group_id)
    return surplus
