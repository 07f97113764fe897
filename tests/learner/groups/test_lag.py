"""What is surplus, by hand and by exhaustive search: nothing trains too late, and no step waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from learner.groups.lag import LagRule


@pytest.mark.parametrize(
    ("version", "floors", "size", "lag", "surplus"),
    [
        (0, [0, 0, 0, 0], 2, 0, {"2", "3"}),  # synchronous: a step's groups and no others
        (1, [0, 0, 1], 2, 0, {"0", "1"}),  # too old for version 1
        (0, [0] * 6, 2, 1, {"4", "5"}),  # four train at 0 and 1
        (1, [0, 0, 0, 1, 1, 1], 2, 1, {"2", "5"}),  # two of floor 0 at 1; two of floor 1 at 2
        (1, [0, 1, 1, 1], 2, 1, set()),
        (0, [], 2, 0, set()),
    ],
)
def test_the_last_issued_of_each_deadline_are_surplus(
    *, version: int, floors: list[int], size: int, lag: int, surplus: set[str]
) -> None:
    by_id = {str(index): floor for index, floor in enumerate(floors)}
    assert LagRule(groups_per_step=size, max_lag=lag).surplus(by_id, version) == surplus


class State(NamedTuple):
    """The groups without an outcome, in the order of their issue, and the steps whose version is not announced."""

    groups: tuple[tuple[int, bool], ...] = ()  # age, which is the next step's version less the floor; scored?
    behind: int = 0


def surplus_in(state: State, size: int, lag: int) -> set[int]:
    floors = {str(index): lag - age for index, (age, _) in enumerate(state.groups)}  # at version `lag`
    return {int(group_id) for group_id in LagRule(groups_per_step=size, max_lag=lag).surplus(floors, lag)}


def after_a_step(state: State, size: int, lag: int) -> State | None:
    """Return the state after the next step, with its surplus dropped; None: the step waits."""
    chosen = [index for index, (_, scored) in enumerate(state.groups) if scored][:size]
    surplus = surplus_in(state, size, lag)
    floors, taken = (
        [lag - state.groups[index][0] for index in some if index not in surplus]
        for some in (range(len(state.groups)), chosen)
    )
    may_go = LagRule(groups_per_step=size, max_lag=lag).rest_can_make_it(lag, floors, taken)
    if len(chosen) < size or not may_go:
        return None
    assert all(state.groups[index][0] <= lag for index in chosen), f"{state} trains a group too late"
    left = [(age + 1, scored) for index, (age, scored) in enumerate(state.groups) if index not in chosen]
    following = State(tuple(left), state.behind + 1)
    gone = surplus_in(following, size, lag)
    return following._replace(groups=tuple(group for index, group in enumerate(left) if index not in gone))


def successors(state: State, size: int, lag: int, most: int) -> Iterator[State]:
    """Yield every state that one issue, score, drop, announcement or step leads to."""
    groups, slots = state.groups, len(state.groups) + state.behind * size
    if slots < (lag + 1) * size or (state.behind <= lag and slots < most):
        yield state._replace(groups=(*groups, (state.behind, False)))
    for index, (age, scored) in enumerate(groups):
        yield state._replace(groups=groups[:index] + groups[index + 1 :])
        if not scored:
            yield state._replace(groups=(*groups[:index], (age, True), *groups[index + 1 :]))
    if state.behind:
        yield state._replace(behind=state.behind - 1)
    if state.behind < 2 and (following := after_a_step(state, size, lag)) is not None:
        yield following


@pytest.mark.parametrize(("size", "lag", "most"), [(1, 0, 4), (2, 0, 6), (1, 1, 4), (1, 2, 5), (2, 1, 6)])
def test_with_surplus_no_group_trains_too_late_and_none_waits_for_ever(
    size: int, lag: int, most: int
) -> None:
    found, todo = {State()}, [State()]
    while todo:
        for state in successors(todo.pop(), size, lag, most):
            if state not in found:
                found.add(state)
                todo.append(state)
    for state in found:
        assert all(age <= lag for age, _ in state.groups), f"{state} has a group that can only train too late"
        arrived = state._replace(groups=tuple((age, True) for age, _ in state.groups), behind=0)
        if len(arrived.groups) >= size:
            assert after_a_step(arrived, size, lag) is not None, f"{state} never trains"
    assert any(len(state.groups) == most for state in found)
