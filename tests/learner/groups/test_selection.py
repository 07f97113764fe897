"""Which groups a step takes: rule 3 of the protocol by hand, by exhaustive search, and on a real Redis."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from broker import codec
from broker.errors import Fenced
from broker.keys import PROMPTS, SCORED
from broker.protocol.run_owner import RunOwner
from broker.protocol.run_state import PAUSE
from broker.protocol.streams import hand_over
from learner.groups.lag import LagRule
from learner.journal.ledger import GroupOutcome
from tests.learner.conftest import MakeChain
from tests.support.chain import Chain, make_prompt, make_scored
from tests.support.step_selection import stop_at_the_first_wait, take

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

# -------------------------------------------------------------------------------------------------------------- rule 3

# A group of floor f trains at a version <= f + L; before that, S groups train at each version. So of what a step at v
# leaves, none may have the floor v - L, at most S a floor <= v - L + 1, at most 2 S one <= v - L + 2, and so on.


@pytest.mark.parametrize(
    ("version", "slots", "chosen", "size", "lag", "may_go"),
    [
        (0, [0, 0], [0, 0], 2, 0, True),  # synchronous: a step's groups and no others
        (3, [3, 3, 3], [3, 3], 2, 0, False),  # the third could only train at 3
        (5, [4, 4, 5, 5], [4, 4], 2, 1, True),  # leaves 5, 5 for version 6
        (5, [4, 5, 5, 5], [5, 5], 2, 1, False),  # leaves a 4, and this is its last version
        (5, [5, 5, 5, 5], [5, 5], 2, 1, True),
        (5, [5, 5, 5, 5, 5], [5, 5], 2, 1, False),  # leaves three, and version 6 takes two
        (7, [5, 6, 7], [5], 1, 2, True),  # 6 trains at 8 at the latest, 7 at 9
        (7, [5, 6, 7], [6], 1, 2, False),  # 5 can't wait
        (7, [6, 6, 7], [6], 1, 2, True),
        (7, [6, 6, 6], [6], 1, 2, False),  # two of 6 for version 8 alone
        (0, [0, 0, 0, 0], [0, 0], 2, 4, True),  # the first steps: no floor below 0
        (0, [], [], 2, 4, True),
    ],
)
def test_a_step_goes_only_if_the_rest_can_still_make_it(
    *, version: int, slots: list[int], chosen: list[int], size: int, lag: int, may_go: bool
) -> None:
    assert LagRule(groups_per_step=size, max_lag=lag).rest_can_make_it(version, slots, chosen) is may_go


Rule = Callable[[int, list[int], list[int]], bool]
Groups = tuple[
    tuple[int, bool], ...
]  # of each without an outcome: its age, version less floor; is it scored?


class State(NamedTuple):
    """Where a run is, as far as lag goes: the version is taken as `max_lag`."""

    groups: Groups = ()
    behind: int = 0  # steps whose version is not announced: their groups keep their slots
    under_way: int = -1  # steps since the version that is being published; -1: none is
    since: int = 0  # steps since the last version that was given to the publisher


def oldest(groups: Groups, size: int) -> Groups:
    return tuple(sorted((group for group in groups if group[1]), reverse=True)[:size])


def without(groups: Groups, gone: Groups) -> Groups:
    rest = list(groups)
    for group in gone:
        rest.remove(group)
    return tuple(rest)


def may_take(groups: Groups, rule: Rule, size: int, lag: int) -> bool:
    chosen = oldest(groups, size)
    floors, taken = ([lag - age for age, _ in some] for some in (groups, chosen))
    return len(chosen) == size and rule(lag, floors, taken)


def may_issue(state: State, size: int, lag: int) -> bool:
    return len(state.groups) + state.behind * size < (lag + 1) * size


def successors(state: State, rule: Rule, size: int, lag: int, every: int) -> Iterator[State]:
    """Yield every state that one issue, score, drop or death, announcement, or step leads to."""
    groups = state.groups
    if may_issue(state, size, lag):
        yield state._replace(groups=(*groups, (state.behind, False)))  # its floor is what is announced
    for group in set(groups):
        yield state._replace(groups=without(groups, (group,)))  # dropped, or dead
        if not group[1]:
            yield state._replace(groups=(*without(groups, (group,)), (group[0], True)))
    if state.under_way >= 0:
        yield state._replace(behind=state.under_way, under_way=-1)
    is_due = state.since + 1 == every
    if may_take(groups, rule, size, lag) and not (is_due and state.under_way >= 0):  # else it waits
        left = without(groups, oldest(groups, size))
        yield State(
            groups=tuple((age + 1, scored) for age, scored in left),
            behind=state.behind + 1,
            under_way=0 if is_due else state.under_way + (state.under_way >= 0),
            since=0 if is_due else state.since + 1,
        )


def reachable(rule: Rule, size: int, lag: int, *, oldest_age: int, every: int = 1) -> set[State]:
    """Return every state that can come about from an empty run, up to `oldest_age`."""
    found: set[State] = {State()}
    todo = [State()]
    while todo:
        for state in successors(todo.pop(), rule, size, lag, every):
            ordered = state._replace(groups=tuple(sorted(state.groups)))
            if ordered not in found and all(age <= oldest_age for age, _ in ordered.groups):
                found.add(ordered)
                todo.append(ordered)
    return found


def rule_of(size: int, lag: int) -> Rule:
    return LagRule(groups_per_step=size, max_lag=lag).rest_can_make_it


@pytest.mark.parametrize(
    ("size", "lag", "every"),
    [(size, lag, every) for size in (1, 2) for lag in (0, 1, 2) for every in range(1, lag + 2)],
)
def test_no_group_ever_gets_too_old_and_none_waits_for_ever(size: int, lag: int, every: int) -> None:
    """A version is announced at any time behind its step, and only every nth is: the search is exhaustive."""
    rule = rule_of(size, lag)
    states = reachable(rule, size, lag, oldest_age=lag + 1, every=every)
    assert len(states) >= 3
    for state in states:
        assert all(age <= lag for age, _ in state.groups), f"{state} has a group that can only train too late"
        arrived = tuple((age, True) for age, _ in state.groups)
        goes_on = state.under_way >= 0 or may_issue(state, size, lag) or may_take(arrived, rule, size, lag)
        assert goes_on, f"{state} never goes on"
        if len(arrived) >= size:  # what has arrived waits for nobody but the publisher
            assert may_take(arrived, rule, size, lag), f"{state} never trains"


@pytest.mark.parametrize(("size", "lag"), [(1, 0), (1, 1), (2, 1)])
def test_a_version_published_more_seldom_than_slots_last_stops_the_run(size: int, lag: int) -> None:
    """So `learner.weights.every` above max_lag + 1 is refused."""
    rule = rule_of(size, lag)
    states = reachable(rule, size, lag, oldest_age=lag + 1, every=lag + 2)
    assert any(not list(successors(state, rule, size, lag, lag + 2)) for state in states)


@pytest.mark.parametrize(("size", "lag"), [(1, 1), (2, 1), (2, 2)])
def test_the_budget_alone_does_not_bound_the_lag(size: int, lag: int) -> None:
    states = reachable(lambda version, slots, chosen: True, size, lag, oldest_age=lag + 5)
    assert any(age == lag + 5 for state in states for age, _ in state.groups)


# ------------------------------------------------------------------------------------------------------ on a real Redis


def commit(chain: Chain, version: int, ids: list[str]) -> None:
    """What the trainer and the publisher do after the step from `version`."""
    groups = [chain.buffer.groups[group_id] for group_id in ids]
    chain.journal.append(version, groups, [[0.5, -0.5]] * len(ids))
    chain.buffer.discard(ids)
    chain.announce(version + 1)
    chain.run_owner.retire(ids)


def issue_scored(chain: Chain, count: int) -> list[str]:
    ids = chain.issue(count)
    for group_id in ids:
        chain.score(group_id)
    return ids


def test_a_step_takes_the_oldest_floors_first_and_frees_their_slots_when_committed(chain: Chain) -> None:
    chain.issue(1)  # floor 0
    issue_scored(chain, 2)
    assert take(chain, 0) == ["1", "2"]  # 0 may still train at version 1
    assert chain.slots == {"0", "1", "2"}
    commit(chain, 0, ["1", "2"])
    assert (chain.slots, chain.depth(SCORED), chain.depth(PROMPTS)) == ({"0"}, 0, 1)
    issue_scored(chain, 2)  # floor 1
    chain.read()
    said = stop_at_the_first_wait(chain)
    assert take(chain, 1) is None  # 0 must train now, or never
    assert "2 of 2 groups (older groups must come first, for max_lag)" in said[-1]
    assert chain.selection.late_wait_s > 0
    sums = chain.selection.meter.read()
    assert sums["wait_late_s"] > 0
    assert sums["kept_s"] == pytest.approx(2 * sums["wait_late_s"], rel=0.5), "two groups waited with it"
    chain.stop.clear()
    chain.score("0")
    chain.read()
    assert take(chain, 1) == ["0", "3"]
    commit(chain, 1, ["0", "3"])
    assert chain.slots == {"4"}
    assert (chain.selection.breaches, chain.journal.ledger.twice) == (0, [])


def test_the_last_step_waits_for_no_older_floor(make_chain: MakeChain) -> None:
    chain = make_chain(learner={"steps": 2})
    chain.issue(1)  # floor 0: with a step to come it would be due now
    chain.announce(1)
    issue_scored(chain, 2)
    assert take(chain, 1) == ["1", "2"]


def test_without_lag_a_step_takes_the_first_that_were_issued_and_the_others_are_surplus(
    make_chain: MakeChain,
) -> None:
    chain = make_chain(learner={"max_lag": 0})
    slow, *_ = chain.issue(6)
    for group_id in "1234":
        chain.score(group_id)
    chain.read()
    stop_at_the_first_wait(chain)
    assert take(chain, 0) is None, "a slow group is not overtaken"
    chain.stop.clear()
    chain.score(slow, [1.0, 1.0])  # without variance
    assert take(chain, 0) == ["1", "2"]
    chain.journal.append(0, [chain.buffer.groups[group_id] for group_id in "12"], [[0.5, -0.5]] * 2)
    chain.buffer.discard("12")
    chain.outcomes.drop_surplus(1)
    assert chain.slots == {"1", "2"}, "until version 1 is announced"
    ended = {group_id: chain.journal.ledger.outcomes[group_id] for group_id in "345"}
    assert {outcome.detail for outcome in ended.values()} == {
        "surplus: step 1 had all its groups without this one"
    }
    assert [outcome.tokens for outcome in ended.values()] == [4, 4, 0]
    assert chain.filters.take_arrivals().dropped == {"zero_variance": 1, "surplus": 3}
    assert chain.journal.ledger.over == [], "they are not begun anew"
    (late,) = chain.issue()  # by a feeder that did not know yet: floor 0
    chain.announce(1)
    chain.stop.clear()
    assert take(chain, 1) is None
    assert (
        chain.journal.ledger.outcomes[late].detail == "surplus: step 1 had all its groups when it was issued"
    )


@pytest.mark.parametrize("what", ["train", "drop"])
def test_late_groups_may_be_trained_all_the_same_or_dropped(make_chain: MakeChain, what: str) -> None:
    chain = make_chain(learner={"late_groups": what})
    (late,) = chain.issue(1)
    issue_scored(chain, 2)
    commit(chain, 0, take(chain, 0) or [])
    for version in (1, 2):
        issue_scored(chain, 2)
        commit(chain, version, take(chain, version) or [])  # nobody waits for the late one
    assert chain.selection.late_wait_s == 0
    chain.score(late)  # sampled by version 0, for version 3
    issue_scored(chain, 2)
    if what == "train":
        assert take(chain, 3) == [late, "7"]
        assert (chain.selection.late, chain.selection.breaches) == (1, 0)
    else:
        assert take(chain, 3) == ["7", "8"]
        outcome = chain.journal.ledger.outcomes[late]
        assert (outcome.kind, outcome.tokens) == ("dropped", 4)
        assert outcome.detail == "late: sampled by version 0, 3 before 3; learner.max_lag=1"


def test_a_step_no_longer_waits_for_a_group_that_died(chain: Chain) -> None:
    chain.issue(1)
    chain.reconciliation.look()
    chain.elapsed += 301  # past its deadline
    issue_scored(chain, 2)
    assert take(chain, 0) == ["1", "2"]
    commit(chain, 0, ["1", "2"])
    issue_scored(chain, 2)
    assert take(chain, 1) == ["3", "4"]  # look_after dead-lettered group 0
    assert chain.journal.ledger.outcomes["0"].kind == "dead"


def test_a_held_group_that_ended_is_not_taken_and_a_replaced_learner_notices_it(chain: Chain) -> None:
    issue_scored(chain, 3)
    chain.read()
    chain.journal.end({"0": GroupOutcome("dead", "meanwhile")})
    assert take(chain, 0) == ["1", "2"]
    assert "0" not in chain.buffer.groups
    RunOwner(chain.link, chain.keys).claim(0)
    chain.selection._checked = 0.0
    with pytest.raises(Fenced, match="a newer learner"):
        chain.selection.take(0)


def test_a_wait_names_the_streams_that_the_missing_groups_are_in_and_their_age(make_chain: MakeChain) -> None:
    chain = make_chain(learner={"groups_per_step": 3})
    chain.issue(1, issued_at=time.time() - 95)
    scored, sampled = chain.issue(2)
    chain.score(scored)
    chain.sample(sampled)
    said = stop_at_the_first_wait(chain)
    assert take(chain, 0) is None
    in_flight = "out: 1 in prompts, 1 in rollouts, 1 in scored"
    assert re.match(rf"\d s: 1 of 3 groups; {in_flight}; oldest 9[5-9] s", said[-1])


NO_GENERATOR = "; no generator is alive: python -m generators --run test"
NO_SCORER = "; no scorer is alive: python -m scorers --run test"


@pytest.mark.parametrize(
    ("sampled", "alive", "says"),
    [
        (False, [], NO_GENERATOR),
        (False, ["generator"], ""),
        (True, ["generator"], NO_SCORER),
        (True, ["scorer", "generator"], ""),
    ],
)
@pytest.mark.parametrize("waits_for", ["a step", "a round"])
def test_a_wait_names_the_role_that_has_work_and_nobody_alive(
    chain: Chain, *, waits_for: str, sampled: bool, alive: list[str], says: str
) -> None:
    (group_id,) = chain.issue() if waits_for == "a step" else chain.issue_eval(0, 1)
    if sampled:
        chain.sample(group_id)
    for role in alive:
        chain.client.hset(chain.keys.alive(role, "host-1"), "pid", "1")
    said = stop_at_the_first_wait(chain)
    if waits_for == "a step":
        assert take(chain, 0) is None
    else:
        chain.selection.wait_for_round(0)
    assert said[-1].endswith(says)
    assert ("is alive" in said[-1]) is bool(says)


@pytest.mark.parametrize("waits_for", ["groups", "operator", "round"])
def test_its_meter_tells_work_from_waiting_and_what_for(chain: Chain, waits_for: str) -> None:
    chain.wanted = PAUSE if waits_for == "operator" else ""
    stop_at_the_first_wait(chain)
    if waits_for == "round":
        chain.issue_eval(0, 1)
        chain.selection.wait_for_round(0)
        assert chain.selection.meter.idle_s == 0, "whoever waited for a round goes on"
    else:
        assert take(chain, 0) is None
    sums = chain.selection.meter.read()
    assert {name for name in sums if name.startswith("wait_")} == {f"wait_{waits_for}_s"}
    issue_scored(chain, 2)
    chain.stop.clear()
    chain.wanted = ""
    assert take(chain, 0) is not None
    assert chain.selection.meter.idle_s == 0


def test_who_is_alive_is_asked_now_and_then_and_a_long_wait_is_said_in_the_log(
    chain: Chain, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("learner.groups.selection.SAY_EVERY_S", 0.0)
    stop_at_the_first_wait(chain)
    with caplog.at_level(logging.INFO, "learner.groups.selection"):
        assert take(chain, 0) is None
    assert re.fullmatch(r"waiting \d s: 0 of 2 groups; out: none; oldest 0 s", caplog.messages[-1])
    chain.elapsed += 10
    chain.issue()
    assert chain.selection.who_is_missing() == NO_GENERATOR
    chain.client.hset(chain.keys.alive("generator", "host-1"), "pid", "1")
    assert chain.selection.who_is_missing() == NO_GENERATOR
    chain.elapsed += 10
    assert chain.selection.who_is_missing() == ""


def test_a_breach_of_the_lag_is_logged_and_counted(chain: Chain, caplog: pytest.LogCaptureFixture) -> None:
    """Only a generator that ignores the floor can bring one about."""
    for version in (1, 2):
        chain.announce(version)
    for group_id in chain.issue(2):
        chain.sample(group_id)
        stale = codec.encode_scored(make_scored(make_prompt(group_id, floor=2), [1.0, 0.0], version=0))
        assert hand_over(chain.link, chain.keys, chain.entry(group_id), SCORED, stale)
    assert take(chain, 2) == ["0", "1"]
    assert chain.selection.breaches == 2
    assert "lag_breach group=0 lag=2 max_lag=1 floor=2" in caplog.messages


# ---------------------------------------------------------------------------------------------------- evaluation rounds


def test_a_round_is_asked_for_once_more_and_is_given_up(make_chain: MakeChain) -> None:
    chain = make_chain(evaluation={"deadline_s": 0.05})
    back, missing = chain.issue_eval(0, 2)
    chain.score(back)
    chain.selection.wait_for_round(0)
    (given_up,) = chain.evaluation.rounds.ended()
    assert (chain.evaluation.requests, set(given_up.groups), given_up.missing) == ((0,), {back}, {missing})
    assert "evaluation of version 0, 1 groups missing" in chain.said[-1]


def test_older_rounds_may_end_meanwhile(chain: Chain) -> None:
    for version in (4, 5):
        for group_id in chain.issue_eval(version, 2):
            chain.score(group_id)
    chain.selection.wait_for_round(5)
    (older, waited_for) = sorted(chain.evaluation.rounds.ended(), key=lambda current: current.version)
    assert [(done.version, len(done.groups)) for done in (older, waited_for)] == [(4, 2), (5, 2)]
    assert chain.evaluation.requests == ()
