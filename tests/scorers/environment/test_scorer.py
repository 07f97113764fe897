"""An environment's own reward: where in its range it lies, and what is no score at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.messages import End, EnvironmentReward, ScoreStatus
from config.scorer_kinds import EnvironmentRewardConfig
from scorers.conversation import asked_of
from scorers.environment.scorer import EnvironmentScorer, share_of_range
from scorers.scorer import Conversation, Conversing, SelfTestFailed
from tests.support.scored_episodes import an_episode, reward_of

SCORER = EnvironmentScorer(EnvironmentRewardConfig())
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def of(ended_by: End, reward: EnvironmentReward | None) -> Conversation:
    asked = asked_of(an_episode(ended_by=ended_by, reward=reward))
    assert isinstance(asked, Conversation)
    return asked


def test_the_range_becomes_0_to_1_beside_the_reward(subtests: pytest.Subtests) -> None:
    for value, low, high, score in [
        (1.0, -1.0, 1.0, 1.0), (0.0, -1.0, 1.0, 0.5), (-1.0, -1.0, 1.0, 0.0), (-50.0, -200.0, 0.0, 0.75),
        (0.25, 0.0, 1.0, 0.25),
        (0.0, -1.7e308, 1.7e308, 0.5),
    ]:  # fmt: skip
        with subtests.test(value=value, low=low, high=high):
            found = SCORER.score_conversation(of(End.ENVIRONMENT, reward_of(value, low, high)), {})
            assert (found.value, found.components) == (score, {"environment_reward": value})
            assert found.reason == f"reward {value:g} of {low:g} to {high:g}"


@given(st.lists(FINITE, min_size=2, max_size=2, unique=True), st.lists(FINITE, min_size=2, max_size=2))
def test_a_higher_reward_scores_no_less_and_within_0_to_1(bounds: list[float], values: list[float]) -> None:
    low, high = sorted(bounds)
    inside = sorted(min(max(value, low), high) for value in values)
    shares = [share_of_range(reward_of(value, low, high)) for value in (low, *inside, high)]
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert shares == sorted(shares)


def test_a_reward_outside_its_range_is_unscorable_and_names_the_range() -> None:
    for value in [-1.5, 1.0000001]:
        for ended_by in (End.ENVIRONMENT, End.TURNS):
            found = SCORER.score_conversation(of(ended_by, reward_of(value)), {})
            assert (found.status, found.components) == (ScoreStatus.UNSCORABLE, {"environment_reward": value})
            assert f"a reward of {value:g} lies outside of -1 to 1" in found.reason
            assert "`environment.reward_range`" in found.reason


def test_no_reward_is_a_zero_where_the_policy_brought_the_end_about_and_no_score_where_not(
    subtests: pytest.Subtests,
) -> None:
    cases: list[tuple[End, float | None]] = [
        (End.MESSAGE, None), (End.ENVIRONMENT, None), (End.TURNS, 0.0), (End.CONTEXT, 0.0),
        (End.TOKENS, 0.0), (End.DEADLINE, 0.0), (End.CRASH, 0.0),
    ]  # fmt: skip
    for ended_by, value in cases:
        with subtests.test(ended_by=ended_by):
            found = SCORER.score_conversation(of(ended_by, None), {})
            assert found.value == value
            assert found.reason.startswith(
                "no reward before" if value == 0.0 else "the environment gave no reward"
            )
            assert f"ended by {ended_by}" in found.reason


def test_a_text_alone_has_no_score_and_is_told_why() -> None:
    found = SCORER.score("\\boxed{5}", {"type": "lake"})
    assert found.status is ScoreStatus.UNSCORABLE
    assert "a text alone has no environment's reward" in found.reason


def test_every_row_will_do_and_the_self_test_notices_a_turned_range(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(SCORER, Conversing)
    SCORER.check_row({"type": "lake"})
    SCORER.self_test()
    monkeypatch.setattr(
        "scorers.environment.scorer.share_of_range", lambda reward: 1 - share_of_range(reward)
    )
    with pytest.raises(SelfTestFailed, match=r"gives 0\.0 for .*, where 1\.0 is right"):
        SCORER.self_test()
