"""Twenty groups whose rewards are all the same: the operator hears of it, and hears that it is over."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from learner.groups.same_reward import IN_A_ROW, WARNING, SameRewardWatch
from tests.learner.conftest import MakeChain
from tests.support.chain import make_prompt, make_scored

FLAT, VARIED = [0.0, 0.0], [1.0, 0.0]
TOP_FLAT = [1.0, 1.0]


def said_of(*rows: Sequence[float | None]) -> list[str]:
    said: list[str] = []
    watch = SameRewardWatch(said.append)
    for number, rewards in enumerate(rows):
        group = make_scored(make_prompt(str(number)), rewards)
        watch.take(group, has_variance=len({each for each in rewards if each is not None}) > 1)
    return said


@pytest.mark.parametrize(
    ("rows", "warnings"),
    [
        ([FLAT] * (IN_A_ROW - 1), 0),
        ([FLAT] * IN_A_ROW, 1),
        ([FLAT] * (2 * IN_A_ROW - 1), 1),
        ([FLAT] * 2 * IN_A_ROW, 2),
        ([FLAT] * 50 * IN_A_ROW, 6),  # at 20, 40, 80 … 640
        ([FLAT] * (IN_A_ROW - 1) + [VARIED] + [FLAT] * (IN_A_ROW - 1), 0),
        ([[0.5]] * 3 * IN_A_ROW, 0),  # a single completion is always alike
        ([[None, None]] * 3 * IN_A_ROW, 0),  # no score: the scorers say why
        ([[None, 0.5, 0.5]] * IN_A_ROW, 1),
        ([TOP_FLAT] * 50 * IN_A_ROW, 0),  # all right alike
        ([[0.95, 0.95]] * IN_A_ROW, 0),  # a penalty below it
        ([TOP_FLAT] * (IN_A_ROW - 2) + [FLAT] * 2, 0),  # 0.9
        ([TOP_FLAT] * (IN_A_ROW - 3) + [FLAT] * 3, 1),  # 0.85
        (([TOP_FLAT] * IN_A_ROW + [VARIED]) * 50, 0),
        ([TOP_FLAT] * IN_A_ROW + [FLAT] * IN_A_ROW, 1),  # it fell: at 40, by the newest 20
    ],
)
def test_twenty_groups_without_variance_are_a_warning(
    rows: list[Sequence[float | None]], warnings: int
) -> None:
    assert len(said_of(*rows)) == warnings


def test_the_warning_has_the_mean_reward_and_one_answer_with_its_reason() -> None:
    (said,) = said_of(*([FLAT, [1.0, 1.0]] * (IN_A_ROW // 2)))
    told = "for 20 groups in a row, so nothing is learnt: mean reward 0.5. One answer: '"
    assert said.startswith(f"{WARNING}, {told}")
    assert "reward 1, because: '" in said


@pytest.mark.parametrize("better", [[VARIED, VARIED], [*[TOP_FLAT] * IN_A_ROW, VARIED]])
def test_rewards_that_differ_or_come_near_their_top_take_the_warning_back_once(better: Any) -> None:
    assert said_of(*[FLAT] * IN_A_ROW, *better)[1:] == [""]


@pytest.mark.parametrize("filters", [{}, {"zero_variance": "keep"}])
def test_the_learner_advises_it_whether_such_groups_train_or_not(
    make_chain: MakeChain, caplog: pytest.LogCaptureFixture, filters: dict[str, str]
) -> None:
    chain = make_chain(learner={"filters": filters, "groups_per_step": 16, "max_lag": 1})
    said: list[str] = []
    chain.intake._same_reward = SameRewardWatch(said.append)
    with caplog.at_level(logging.WARNING):
        for group_id in chain.issue(IN_A_ROW):
            chain.score(group_id, FLAT)
        chain.read()
    assert len(said) == 1
    assert f"same_reward groups={IN_A_ROW}" in caplog.text
