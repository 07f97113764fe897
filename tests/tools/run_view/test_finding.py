"""Two looks at a run become a flow, and the flow one line that names what holds the run up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.monitoring.snapshot import Process, Snapshot, StreamState
from config.run import Run
from learner.groups.facts.same_reward import WARNING
from tests.support.chain import make_run
from tools.run_view.finding import _short, finding_of, finding_over
from tools.run_view.flow import budget_of, flow, next_budget


def a_run(**learner: Any) -> Run:
    """Steps of 4 groups, 8 slots, generators with room for 4."""
    sections = {"groups_per_step": 4, **learner}
    return make_run(Path("nowhere"), generators={"groups_in_flight": 4}, learner=sections)


def beat(role: str, name: str = "1", queues: tuple[str, ...] = (), **sums: float) -> Process:
    plain: dict[str, Any] = {"pid": 1, "host": "here", "state": "", "version": "", "since": 0.0}
    return Process(role=role, id=name, queues=queues, sums=sums, **plain)


def look(*processes: Process, at: float = 0.0, **fields: Any) -> Snapshot:
    plain: dict[str, Any] = {"status": "running", "reason": "", "version": 5, "steps": 100, "run": a_run()}
    plain |= {"slots": 8}
    return Snapshot(**plain | fields, processes=processes, at=at)


# Ten seconds of a run: a generator that is half full, a scorer that works 9 of them, a learner that works one.
BEFORE = look(
    beat("generator", up_s=100, busy_s=20, groups=70, tokens=700),
    beat("scorer", up_s=90, busy_s=80, groups=70),
    beat("learner", up_s=100, busy_s=10, groups=60, steps=15, age_sampling_s=60, age_scored_s=12),
    at=1000,
)
AGES: dict[str, Any] = {"age_sampling_s": 100.0, "age_scored_s": 22.0}
AFTER = look(
    beat("generator", up_s=110, busy_s=25, wait_prompts_s=5, groups=90, tokens=900),
    beat("scorer", up_s=100, busy_s=89, wait_rollouts_s=1, groups=90, queues=()),
    beat("learner", up_s=110, busy_s=11, wait_groups_s=9, groups=80, steps=20, **AGES),
    at=1010,
)


def test_a_flow_is_the_difference_of_two_looks() -> None:
    found = flow(BEFORE, AFTER)
    assert found.seconds == 10
    keys = ("name", "workers", "utilisation", "in_hand", "groups_a_second", "seconds_each")
    assert [tuple(getattr(works, key) for key in keys) for works in found.works] == [
        ("generators", 1, 0.5, 2.0, 2.0, 1.0),  # half of four slots for ten seconds, for twenty groups
        ("scorers", 1, 0.9, 0.9, 2.0, 0.45),
        ("learner", 1, 0.1, 0.4, 2.0, 0.2),  # a tenth of the time with four groups, 0.2 s a step
    ]
    assert found.works[0].tokens_a_second == 20
    waits = [dict(works.waits) for works in found.works]
    assert waits == [{"prompts": 0.5}, {"rollouts": 0.1}, {"groups": 0.9}]
    assert found.shares == {"generator:1": 0.5, "scorer:1": 0.9, "learner:1": 0.1}
    assert found.ages == {"prompts": 0.0, "sampling": 2.0, "rollouts": 0.0, "scoring": 0.0, "scored": 0.5}


COMERS: list[Any] = [
    ((), (beat("scorer", up_s=4, busy_s=3, groups=8),), 0.75, 2.0),  # it has come meanwhile
    ((beat("scorer", up_s=50, busy_s=50, groups=99),), (beat("scorer", up_s=4, busy_s=3, groups=8),), 0.75, 2.0),
    ((beat("scorer", up_s=5, busy_s=1),), (beat("scorer", up_s=5, busy_s=1, idle_s=3),), 0.0, 0.0),  # no new beat
    ((beat("scorer", up_s=5, busy_s=1),), (beat("scorer", up_s=5, busy_s=1),), 1.0, 0.0),
    ((beat("scorer", up_s=5, busy_s=1),), (beat("scorer", up_s=9, busy_s=5), beat("scorer", "2", up_s=4)), 0.5,
        0.0),
    ((beat("scorer", up_s=5, busy_s=1),), (beat("scorer", up_s=9, busy_s=5), beat("scorer", "2")), 1.0, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "share", "rate"), COMERS)
def test_whoever_comes_goes_or_begins_anew_is_measured_by_his_own_clock(
    before: tuple[Process, ...], after: tuple[Process, ...], share: float, rate: float
) -> None:
    (works,) = flow(look(*before), look(*after, at=5.0)).works
    assert (works.utilisation, works.groups_a_second) == (share, rate)


@pytest.mark.parametrize(
    ("rooms", "configured", "in_hand"),
    [
        ((12, 20), None, 16.0),  # half of the time of two, with 16 places on average
        ((12, 12), 4, 12.0),  # what they say, and not what a configuration says that may be newer
        ((0, 0), 4, 4.0),  # generators of an older version say nothing
        ((0, 0), None, 1.0),
    ],
)
def test_the_places_of_generators_are_those_that_they_say_they_have(
    rooms: tuple[int, ...], configured: int | None, in_hand: float
) -> None:
    run = make_run(Path("nowhere"), generators={"groups_in_flight": configured})
    beats = [beat("generator", str(place), up_s=10, busy_s=5, groups=5) for place in range(len(rooms))]
    rooms_said = [replace(one, room=room) for one, room in zip(beats, rooms, strict=True)]
    (works,) = flow(look(), look(*rooms_said, run=run)).works
    assert works.in_hand == in_hand


def test_what_is_played_is_in_the_agents_hands_alone() -> None:
    """Thirty turns of groups of two are as much work as the fifteen groups beside them; no slot is counted twice."""
    run = make_run(Path("nowhere"), sampling={"group_size": 2})
    now = look(
        replace(beat("generator", up_s=10, busy_s=5, groups=15, turns=30), room=8),
        replace(beat("agent", up_s=10, busy_s=10, groups=5, turns=30, wait_episodes_s=0), room=6),
        run=run,
    )
    generators, agents = flow(look(), now).works
    assert (generators.in_hand, generators.turns_a_second) == (2.0, 3.0)  # half of 8 places, half of it turns
    assert (agents.name, agents.in_hand, agents.groups_a_second) == ("agents", 3.0, 0.5)


def test_scorers_of_other_queues_are_a_stage_of_their_own() -> None:
    now = look(
        beat("scorer", "1", ("code",), up_s=10, busy_s=10, groups=5),
        beat("scorer", "2", ("light", "math"), up_s=10, busy_s=1, groups=50),
        beat("scorer", "3", ("light", "math"), up_s=10, busy_s=2, groups=50),
    )
    assert [(works.name, works.workers, works.utilisation) for works in flow(look(), now).works] == [
        ("scorers of code", 1, 1.0),
        ("scorers of light,math", 2, pytest.approx(0.15)),
    ]
    said, _ = finding_of(look(), replace(now, processes=(*now.processes, beat("learner", up_s=10, busy_s=1))))
    assert (said.bottleneck, said.queues) == ("scorers", ("code",))
    assert said.text.startswith("bottleneck: scorers of code (1), 100% busy; one more: about +")


def test_a_long_steps_rate_comes_from_the_mean_of_all_steps() -> None:
    before, now = (look(beat("learner", up_s=up_s, busy_s=up_s, groups=40, steps=10)) for up_s in (100, 105))
    assert flow(before, now).works[0].groups_a_second == pytest.approx(40 / 105)


VERDICTS: list[Any] = [
    ({}, "bottleneck: scorers (1), 90% busy; one more: about +82%, 2 → 3.6 groups/s", "scorers", {}),
    ({"scorer": {"up_s": 100, "busy_s": 81, "groups": 90},
        "learner": {"up_s": 110, "busy_s": 20, "groups": 80, "steps": 20}},
        "bottleneck: learner, 100% busy; learner.ranks=2: about +95%, 2 → 3.9 groups/s, then budget", "learner",
        {"learner.ranks": 2}),
    ({"scorer": {"up_s": 100, "busy_s": 81, "groups": 90}, "generator": {"up_s": 110, "busy_s": 30, "groups": 90}},
        "bottleneck: generators (1), 100% busy; one more: about +78%, 2 → 3.6 groups/s, then budget", "generators",
        {}),
    ({"scorer": {"up_s": 100, "busy_s": 81, "groups": 90},
        "learner": {"up_s": 110, "busy_s": 16, "groups": 80, "steps": 20, "kept_s": 10},
        "generator": {"up_s": 110, "busy_s": 26, "groups": 90}},
        ("bottleneck: budget (8 slots), 70% in hand, generators idle 40%; learner.max_lag=2: about +50%, 2 → 3 groups/s"),
        "budget", {"learner.max_lag": 2}),
    ({"scorer": {"up_s": 100, "busy_s": 81, "groups": 90}, "generator": {"up_s": 110, "busy_s": 21, "groups": 90}},
        "nothing is near its limit: generators with 10% are the busiest; the learner waits 90% of its time for groups",
        "", {}),
]  # fmt: skip


@pytest.mark.parametrize(("processes", "text", "bottleneck", "knob"), VERDICTS)
def test_the_line_names_the_bottleneck_the_gain_and_the_knob(
    processes: dict[str, dict[str, float]], text: str, bottleneck: str, knob: dict[str, int]
) -> None:
    changed = [
        beat(one.role, "1", (), **processes[one.role]) if one.role in processes else one
        for one in AFTER.processes
    ]
    said, _ = finding_of(BEFORE, replace(AFTER, processes=tuple(changed)))
    assert (said.text, said.bottleneck, said.knob) == (text, bottleneck, knob)


SAID_FIRST: list[Any] = [
    ({"status": "", "processes": ()}, "the run has not begun"),
    ({"status": "failed", "reason": "the disk is full"}, "the run has ended: failed, the disk is full"),
    ({"wanted": "pause"}, "an operator paused the run: nothing is let in or trained until `millrace resume`"),
    ({"wanted": "drain"}, "an operator drains the run: 8 groups are out, then it ends"),
    ({"processes": (beat("scorer"),)}, "no learner is alive: nothing is let in or trained until one comes"),
    ({"processes": (beat("learner"),), "streams": {"rollouts": StreamState(depth=3)}},
        "3 groups wait for a scorer to score them, and none is alive"),
    ({"processes": (beat("learner"),)}, "no role has begun to work"),
    ({"processes": (beat("learner", up_s=110, busy_s=10, idle_s=10),), "slots": 2},
        ("nothing is near its limit: learner with 0% are the busiest; 6 of 8 slots are free: the feeder or Redis' memory is short")),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), SAID_FIRST)
def test_what_needs_no_arithmetic_comes_first(changes: dict[str, Any], text: str) -> None:
    now = replace(AFTER, **changes)
    assert finding_of(BEFORE, now)[0].text == text
    if not text.startswith(("no role", "nothing")):
        assert finding_over([now])[0].text == text


@pytest.mark.parametrize(
    ("rate", "shown"), [(0.0523, "0.052"), (1.96, "2"), (9.94, "9.9"), (12.4, "12"), (137.6, "138")]
)
def test_rates_are_shown_with_two_digits_or_whole(rate: float, shown: str) -> None:
    assert _short(rate) == shown


def test_one_look_alone_says_where_groups_pile_up() -> None:
    said, _ = finding_over([replace(AFTER, streams={"scored": StreamState(depth=6)})])
    assert said.text == "the generators wait for the learner (6 of 6 groups are to train)"
    assert finding_over([BEFORE, AFTER])[0].bottleneck == "scorers"


@pytest.mark.parametrize(
    ("learner", "knob", "raised"),
    [
        ({}, {"learner.max_lag": 2}, 12),
        ({"groups_in_flight": 6}, {"learner.groups_in_flight": 8}, 8),
        ({"groups_in_flight": 8}, {"learner.max_lag": 2, "learner.groups_in_flight": 12}, 12),
        ({"groups_in_flight": 100}, {"learner.max_lag": 2}, 12),
    ],
)
def test_the_budget_is_raised_by_its_key(learner: dict[str, int], knob: dict[str, int], raised: int) -> None:
    run = a_run(**learner)
    assert next_budget(run) == knob
    budget = budget_of(flow(BEFORE, AFTER), replace(AFTER, run=run))
    assert budget is not None
    assert (budget.bound, budget.raised) == (run.budget, raised)


def test_towards_the_end_the_budget_holds_nobody_up() -> None:
    assert budget_of(flow(BEFORE, AFTER), replace(AFTER, version=99)) is None
    assert budget_of(flow(BEFORE, AFTER), replace(AFTER, run=None)) is None


SAME = f"{WARNING}, for 20 groups in a row, so nothing is learnt: mean reward 0. One answer: 'B'"


@pytest.mark.parametrize(
    ("advice", "before", "now", "said"),
    [
        (SAME, look(beat("learner", up_s=1), at=0), look(beat("learner", up_s=11), at=10), SAME),
        (SAME, BEFORE, AFTER, f"{SAME}; bottleneck: scorers (1), 90% busy"),
        ("learner.max_lag=8", BEFORE, AFTER, "bottleneck: scorers (1), 90% busy"),
    ],
)
def test_a_reward_that_is_the_same_for_all_is_the_verdict(
    advice: str, before: Snapshot, now: Snapshot, said: str
) -> None:
    found, _ = finding_of(replace(before, advice=advice), replace(now, advice=advice))
    assert found.text.startswith(said)
    assert "nothing is near its limit" not in found.text


def test_a_single_look_names_it_too_and_a_run_that_ended_does_not() -> None:
    assert finding_over([replace(AFTER, advice=SAME)])[0].text == SAME
    ended = replace(AFTER, advice=SAME, status="finished")
    assert finding_over([ended])[0].text == "the run has ended: finished"
