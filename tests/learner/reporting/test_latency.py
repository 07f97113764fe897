"""Where a trained group's time went."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from broker.messages import ScoredGroup
from learner.reporting.latency import ages_of, expected_lag, lag_outlook, latency_facts
from tests.support.chain import make_prompt, make_run, make_scored


def group(*, issued: float, sampled: float, sampling: float, scored: float, scoring: float) -> ScoredGroup:
    made = make_scored(make_prompt("17", issued_at=issued), [1.0, 0.0])
    rollout = replace(made.rollout, sampled_at=sampled, seconds=sampling)
    return replace(made, rollout=rollout, scored_at=scored, seconds=scoring)


# Issued at 100; sampled for 4 s until 107; scored for 1 s until 110; trained at 120.
PLAIN = group(issued=100, sampled=107, sampling=4, scored=110, scoring=1)
CLOCKS_DISAGREE = group(issued=100, sampled=99, sampling=4, scored=130, scoring=1)
PLACES = ("prompts", "sampling", "rollouts", "scoring", "scored")


@pytest.mark.parametrize(
    ("groups", "ages"),
    [
        ([], [0, 0, 0, 0, 0]),
        ([PLAIN], [3, 4, 2, 1, 10]),  # which are the 20 s from its issue
        ([PLAIN, PLAIN], [6, 8, 4, 2, 20]),
        ([replace(PLAIN, scored_at=0.0)], [0, 0, 0, 0, 0]),  # it does not say when
        ([CLOCKS_DISAGREE], [0, 4, 30, 1, 0]),
    ],
)
def test_a_groups_age_is_split_into_work_and_waits(groups: list[ScoredGroup], ages: list[float]) -> None:
    found = ages_of(groups, now=120.0)
    assert [found[f"age_{name}_s"] for name in PLACES] == ages


def test_the_lag_is_split_by_where_a_tokens_time_went() -> None:
    """Two groups of 3 s in prompts, 4 s sampling, 2 s in rollouts, 1 s scoring, 10 s in scored; a mean lag of 3.4."""
    found = latency_facts(ages_of([PLAIN, PLAIN], now=120.0), groups=2, lag_mean=3.4)
    assert found == {
        **{f"age_{name}_s": age for name, age in zip(PLACES, (3.0, 4.0, 2.0, 1.0, 10.0), strict=True)},
        "age_queue_s": 15.0,
        "lag_sampling": 0.8,  # 4 of the 17 s since the first token, of 3.4
        "lag_queue": 2.4,
        "lag_scoring": 0.2,
    }


def test_groups_that_hold_no_times_have_no_parts() -> None:
    found = latency_facts(ages_of([], now=120.0), groups=0, lag_mean=1.0)
    assert set(found.values()) == {0.0}


@pytest.mark.parametrize(
    ("max_lag", "in_flight", "lag"),
    [
        (0, None, 0.0),  # on policy: all groups are of the step
        (4, None, 4.0),  # 5 x 16 groups are 5 steps long, and one of these is the step
        (4, 40, 1.5),
        (4, 16, 0.0),  # all of the step
    ],
)
def test_the_groups_in_flight_make_the_lag_to_expect(max_lag: int, in_flight: int | None, lag: float) -> None:
    learner = {"max_lag": max_lag, "groups_per_step": 16, "groups_in_flight": in_flight}
    run = make_run(Path("runs"), learner=learner)
    assert expected_lag(run) == lag
    budget = f"groups_in_flight={in_flight or 16 * (max_lag + 1)} groups_per_step=16"
    assert lag_outlook(run) == f"{budget} max_lag={max_lag} expected_lag_mean={lag:.1f}"
