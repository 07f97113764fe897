"""Where a trained group's time went."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.messages import ScoredGroup
from learner.reporting.latency import ages_of
from tests.support.chain import make_prompt, make_scored


def group(*, issued: float, sampled: float, sampling: float, scored: float, scoring: float) -> ScoredGroup:
    made = make_scored(make_prompt("17", issued_at=issued), [1.0, 0.0])
    rollout = replace(made.rollout, sampled_at=sampled, seconds=sampling)
    return replace(made, rollout=rollout, scored_at=scored, seconds=scoring)


# Issued at 100; sampled for 4 s until 107; scored for 1 s until 110; trained at 120.
PLAIN = group(issued=100, sampled=107, sampling=4, scored=110, scoring=1)


@pytest.mark.parametrize(
    ("groups", "ages"),
    [
        ([], [0, 0, 0, 0, 0]),
        ([PLAIN], [3, 4, 2, 1, 10]),  # which are the 20 s from its issue
        ([PLAIN, PLAIN], [6, 8, 4, 2, 20]),
        ([replace(PLAIN, scored_at=0.0)], [0, 0, 0, 0, 0]),  # it does not say when
        (
            [group(issued=100, sampled=99, sampling=4, scored=130, scoring=1)],
            [0, 4, 30, 1, 0],
        ),  # clocks disagree
    ],
)
def test_a_groups_age_is_split_into_its_work_and_its_waits(
    groups: list[ScoredGroup], ages: list[float]
) -> None:
    found = ages_of(groups, now=120.0)
    assert [
        found[f"age_{name}_s"] for name in ("prompts", "sampling", "rollouts", "scoring", "scored")
    ] == ages
